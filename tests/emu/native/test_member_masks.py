"""Member masks of collectives that registers hold: both engines gather the same lanes."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.bind import Kernel
from kernelrig.emu.launch.execution import Schedule

from tests.emu.native.both_engines import counted_steps, run_both
from tests.emu.native.test_barrier_uses import bound

APART = """
vote.sync.ballot.b32 %r10, %p1, 0xffffffff;
not.b32 %r11, %r10;
@%p1 bra LOW;
shfl.sync.idx.b32 %r7, %r0, %r2, 31, %r11;
vote.sync.any.pred %p2, %p1, %r11;
bar.warp.sync %r11;
bra END;
LOW:
elect.sync %r8|%p3, %r10;
redux.sync.add.u32 %r7, %r0, %r10;
bar.warp.sync %r10;
END:
st.global.u32 [%rd1], %r7;
"""
BODIES = {
    "halves": "setp.lt.u32 %p1, %r2, 16;\n" + APART,
    "every third lane": "rem.u32 %r9, %r2, 3; setp.eq.u32 %p1, %r9, 1;\n" + APART,
    "none in some warps": "setp.gt.u32 %p1, %r0, 40;\n" + APART,
    "lanes that come later": "setp.lt.u32 %p1, %r2, 4; mov.u32 %r10, 0xff;\n"
    "@!%p1 bra JOIN;\nadd.u32 %r9, %r9, 1;\nJOIN:\nsetp.lt.u32 %p4, %r2, 8;\n@!%p4 bra END;\n"
    "shfl.sync.idx.b32 %r7, %r0, 2, 31, %r10;\nst.global.u32 [%rd1], %r7;\nEND:\n",
    "a lane that is not named": "setp.lt.u32 %p1, %r2, 16; mov.u32 %r10, 0x7fff;\n"
    "@!%p1 bra END;\nshfl.sync.idx.b32 %r7, %r0, 2, 31, %r10;\nEND:\n",
    "a mask that nothing has written": "setp.lt.u32 %p1, %r2, 16;\n@!%p1 bra END;\n"
    "shfl.sync.idx.b32 %r7, %r0, 2, 31, %r50;\nEND:\n",
}  # fmt: skip


def kernel(name: str) -> Kernel:
    return bound(BODIES[name])


@pytest.mark.parametrize("name", BODIES)
def test_engines_agree(name: str) -> None:
    for number in range(4):
        for recorded in (False, True):
            run_both(kernel(name), Schedule(number, max_steps=3000), recorded=recorded)


def test_masks_are_read_in_the_core() -> None:
    with counted_steps() as left:
        for name in ("halves", "every third lane", "none in some warps"):
            run_both(kernel(name), Schedule(2), recorded=False)
    assert left == {}
