"""cp.async in the core: copies of lanes, their groups, and arrivals on mbarriers behind them."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import counted_steps, run_both

SHARED = ".shared .align 16 .b8 tile[2048];\n.shared .align 8 .b8 bar[8];\n"
A = np.arange(512, dtype=np.uint32) * 3 + 1
START = """
mov.u32 %r0, %tid.x;
and.b32 %r1, %r0, 31;
shr.u32 %r2, %r0, 5;
setp.eq.u32 %p0, %r0, 0;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [c];
mul.wide.u32 %rd3, %r0, 16;
add.s64 %rd1, %rd1, %rd3;
add.s64 %rd2, %rd2, %rd3;
shl.b32 %r3, %r0, 4;
mov.u32 %r4, tile;
add.u32 %r3, %r3, %r4;
mov.u32 %r5, bar;
"""
COPY = "cp.async.cg.shared.global [%r3], [%rd1], 16;\n"
WAIT = "cp.async.wait_all;\n"
STORE = (
    "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r3];\n"
    "st.global.v4.b32 [%rd2], {%r20, %r21, %r22, %r23};\n"
)
INIT = "@%p0 mbarrier.init.shared.b64 [%r5], {0};\nbar.sync 0;\n"
AGAIN = "again:\nmbarrier.try_wait.parity.shared.b64 %p9, [%r5], 0;\n@!%p9 bra again;\n"
RING = """
mov.u32 %r9, 0;
mov.u32 %r13, 0;
L:
and.b32 %r10, %r9, 1;
mad.lo.u32 %r11, %r10, 1024, %r3;
cp.async.cg.shared.global [%r11], [%rd1], 16;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
xor.b32 %r12, %r10, 1;
mad.lo.u32 %r12, %r12, 1024, %r3;
setp.eq.u32 %p1, %r9, 0;
@!%p1 ld.shared.u32 %r13, [%r12];
@!%p1 st.global.u32 [%rd2], %r13;
bar.sync 0;
add.u32 %r9, %r9, 1;
setp.lt.u32 %p2, %r9, 6;
@%p2 bra L;
cp.async.wait_group 0;
"""
PLAIN = {
    "a copy": COPY + "cp.async.commit_group;\ncp.async.wait_group 0;\n" + STORE,
    "a copy, and a wait for all": COPY + WAIT + STORE,
    "a ring": RING,
    "four bytes a lane": "cp.async.ca.shared.global [%r3+4], [%rd1+8], 4;\n" + WAIT,
    "fewer bytes in some lanes": "and.b32 %r9, %r1, 3; shl.b32 %r9, %r9, 2;\n"
    "cp.async.cg.shared.global [%r3], [%rd1], 16, %r9;\n" + WAIT + STORE,
    "sources that are ignored": "setp.lt.u32 %p1, %r1, 5;\n"
    "cp.async.ca.shared.global.L2::cache_hint [%r3], [%rd1], 16, %p1, %rd9;\n" + WAIT + STORE,
    "groups of each lane": COPY + "cp.async.commit_group;\nsetp.lt.u32 %p1, %r1, 9;\n"
    "@%p1 cp.async.ca.shared.global [%r3+1024], [%rd1+1024], 8;\n"
    "@%p1 cp.async.commit_group;\ncp.async.wait_group 1;\ncp.async.wait_group 0;\n" + STORE,
    "an mbarrier that counts the copies": INIT.format(64) + COPY
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + AGAIN + STORE,
    "arrivals beyond those expected": INIT.format(1) + COPY
    + "cp.async.mbarrier.arrive.shared.b64 [%r5];\nbar.sync 0;\n"
    "@%p0 mbarrier.arrive.shared.b64 _, [%r5];\n" + AGAIN + STORE,
    "an arrival without copies": INIT.format(64)
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + AGAIN,
    "a generic address of the mbarrier": INIT.format(64) + COPY
    + "cvt.u64.u32 %rd5, %r5; cvta.shared.u64 %rd5, %rd5;\n"
    "cp.async.mbarrier.arrive.noinc.b64 [%rd5];\n" + AGAIN + STORE,
    "lanes that copied different things": INIT.format(64)
    + "setp.lt.u32 %p1, %r1, 9;\n@%p1 cp.async.ca.shared.global [%r3], [%rd1], 8;\n"
    "@!%p1 cp.async.ca.shared.global [%r3], [%rd1], 4;\n"
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + AGAIN + STORE,
}  # fmt: skip
WRONG = {
    "nobody waits": COPY + STORE,
    "another warp's copy": COPY + WAIT + STORE.replace("[%r3]", "[%r6]").replace(
        "ld.shared", "xor.b32 %r6, %r3, 512;\nld.shared", 1),
    "a target that is read while it is written": STORE + COPY + WAIT,
    "lanes that write the same bytes": "cp.async.ca.shared.global [%r4], [%rd1], 4;\n" + WAIT,
    "a target past the end": "cp.async.cg.shared.global [%r3+1984], [%rd1], 16;\n" + WAIT,
    "a source past the end": "cp.async.cg.shared.global [%r3], [%rd1+1536], 16;\n" + WAIT,
    "a source that nothing has written": "cp.async.cg.shared.global [%r3], [%rd2], 16;\n" + WAIT,
    "more bytes than there are": "mov.u32 %r9, 20;\n"
    "cp.async.cg.shared.global [%r3], [%rd1], 16, %r9;\n" + WAIT,
    "an arrival at what is no mbarrier": COPY
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + WAIT,
    "an arrival at an mbarrier that is gone": INIT.format(64) + COPY
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n"
    "@%p0 mbarrier.inval.shared.b64 [%r5];\n" + WAIT,
    "some lanes arrive nowhere": INIT.format(40) + COPY
    + "setp.lt.u32 %p1, %r0, 40; selp.b32 %r9, %r5, 0x40000, %p1;\n"
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r9];\n" + AGAIN,
    "more arrivals than a phase takes": INIT.format(24)
    + "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + AGAIN,
    "a copy that some lanes may not do, and an arrival behind it": INIT.format(64)
    + "cp.async.cg.shared.global [%r3], [%rd1+1536], 16;\n"
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r5];\n" + AGAIN,
}  # fmt: skip


def bound(body: str) -> Kernel:
    """Bind a kernel of 64 threads that copies from `a`, 2 KB, into `c`, of which nothing is
    written.
    """
    text = kernel_text(START + body, ["a", "c"], "sm_90a", shared=SHARED)
    module = parse_ptx(text, "test.ptx")
    function = module.function("k")
    assert function is not None
    buffers = {"a": Buffer(A.nbytes, A.view(np.uint8)), "c": Buffer(1024, None)}
    made = bind(module, function, Geometry((1, 1, 1), (64, 1, 1), (1, 1, 1)), buffers)
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("name", [*PLAIN, *WRONG])
def test_engines_agree(name: str) -> None:
    made = bound({**PLAIN, **WRONG}[name])
    for number in range(4):
        run_both(made, Schedule(number, max_steps=3000), recorded=False)
        run_both(made, Schedule(number, max_steps=3000), (), recorded=False)


@pytest.mark.parametrize("name", ["a ring", "lanes that copied different things"])
def test_events_are_the_same_where_an_observer_of_python_listens(name: str) -> None:
    for number in range(4):
        run_both(bound(PLAIN[name]), Schedule(number, max_steps=3000))


def test_what_is_plain_is_done_in_the_core() -> None:
    with counted_steps() as left:
        for body in PLAIN.values():
            run_both(bound(body), Schedule(2), recorded=False)
    assert [name for name in left if name.startswith("cp.async")] == []
