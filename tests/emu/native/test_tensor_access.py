"""Loads, stores and commits of tensor memory in the core: both engines do the same."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.machine_state import Geometry, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.numerics.arrays import Mask
from kernelrig.emu.observe.races import Races
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import OBSERVERS, counted_steps, run_both

SHARED = ".shared .align 8 .b8 bar[8]; .shared .align 8 .b8 place[8];"
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, place; mov.u32 %r3, bar;
setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 32;
@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;
@!%p1 bra GOT;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 128;
GOT: bar.sync 0;
ld.shared.u32 %r4, [%r2];
shr.u32 %r5, %r1, 5; shl.b32 %r6, %r5, 21; add.u32 %r7, %r4, %r6;
ld.param.u64 %rd1, [out];
mul.wide.u32 %rd2, %r1, 256; add.s64 %rd1, %rd1, %rd2;
"""
END = """
bar.sync 0;
@!%p1 bra LEFT;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 128;
LEFT:
"""
COUNTS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


def filled(first: int, count: int, by: int) -> str:
    return "\n".join(f"mad.lo.u32 %r{first + n}, %r1, {by}, {n};" for n in range(count))


def stored(first: int, count: int) -> str:
    return "\n".join(f"st.global.u32 [%rd1 + {4 * n}], %r{first + n};" for n in range(count))


def there_and_back(shape: str, number: int, pack: str = "", unpack: str = "") -> str:
    count = COUNTS[shape] * number
    form = f"sync.aligned.{shape}.x{number}"
    return (
        filled(20, count, 1000)
        + f"\ntcgen05.st.{form}{unpack}.b32 [%r7], {registers(20, count)};\n"
        + "tcgen05.wait::st.sync.aligned;\n"
        + f"tcgen05.ld.{form}{pack}.b32 {registers(100, count)}, [%r7];\n"
        + f"tcgen05.wait::ld.sync.aligned;\n{stored(100, count)}"
    )


LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r100, %r101}, [%r7];\n"
STORE = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r7], {%r20, %r21};\n"
WAITED, WRITTEN = "tcgen05.wait::ld.sync.aligned;\n", "tcgen05.wait::st.sync.aligned;\n"
PUT = filled(20, 2, 77) + "\n" + STORE
OUT = stored(100, 2)
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{0}];\n"
AWAIT = """
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra AGAIN;
"""
PART = """
and.b32 %r9, %r1, 1;
setp.eq.u32 %p3, %r9, 0;
@%p3 bra MEET;
mov.u32 %r100, 4;
MEET:
"""
OTHER_LANES = PUT + WRITTEN + LOAD.replace("%r7", "%r4")
"""A load that only warp 0 may do."""
BODIES = {
    **{
        f"{shape}.x{number}": there_and_back(shape, number)
        for shape, number in (("32x32b", 8), ("16x64b", 4), ("16x128b", 2), ("16x256b", 1))
    },
    "halves": there_and_back("32x32b", 4, ".pack::16b", ".unpack::16b"),
    "a load that is not waited for": PUT + WRITTEN + LOAD + OUT + "\n" + WAITED,
    "a store that is not waited for": PUT + LOAD + WAITED + OUT,
    "a register that is written before the wait": PUT + WRITTEN + LOAD
    + "mov.u32 %r100, 5;\n" + WAITED + OUT,
    "two loads of one register": PUT + WRITTEN + LOAD + LOAD.replace("%r101", "%r102")
    + WAITED + OUT + "\nst.global.u32 [%rd1 + 8], %r102;\n",
    "warps that part with a load in flight": PUT + WRITTEN + LOAD + """
        setp.lt.u32 %p3, %r5, 2;
        @%p3 bra LOW;
        mov.u32 %r110, 3;
        bra MEET;
        LOW: mov.u32 %r110, 4;
        MEET:
        add.u32 %r110, %r110, 1;
    """ + WAITED + OUT + "\nst.global.u32 [%rd1 + 8], %r110;\n",
    "lanes that part with a load in flight": PUT + WRITTEN + LOAD + """
        and.b32 %r9, %r1, 1;
        setp.eq.u32 %p3, %r9, 0;
        mov.u32 %r110, 3;
        @%p3 bra MEET;
        mov.u32 %r110, 4;
        MEET:
        add.u32 %r110, %r110, 1;
    """ + WAITED + OUT + "\nst.global.u32 [%rd1 + 8], %r110;\n",
    "lanes that write a register whose value is in flight": PUT + WRITTEN + LOAD + PART + WAITED
    + OUT,
    "lanes that write it, of which all read it before the wait": PUT + WRITTEN + LOAD + PART
    + "add.u32 %r110, %r100, 1;\n" + WAITED + OUT + "\nst.global.u32 [%rd1 + 8], %r110;\n",
    "a guard that lets some lanes write it": PUT + WRITTEN + LOAD
    + "and.b32 %r9, %r1, 1; setp.eq.u32 %p3, %r9, 0; @%p3 mov.u32 %r100, 4;\n" + WAITED + OUT,
    "a guarded load into it": PUT + WRITTEN + LOAD
    + "setp.lt.u32 %p3, %r1, 16; @%p3 ld.global.u32 %r100, [%rd1];\n" + WAITED + OUT,
    "a guarded load into it, behind a value": PUT + WRITTEN + LOAD
    + "setp.lt.u32 %p3, %r1, 16; mov.u32 %r100, 9; @%p3 ld.global.u32 %r100, [%rd1];\n" + WAITED
    + OUT,
    "a guarded load into it, of no lane": PUT + WRITTEN + LOAD
    + "setp.gt.u32 %p3, %r1, 999; @%p3 ld.global.u32 %r100, [%rd1];\n" + WAITED + OUT,
    "lanes that write what a load at fault brings": OTHER_LANES + PART + WAITED + OUT,
    "a guard that lets some lanes write that": OTHER_LANES
    + "setp.lt.u32 %p3, %r1, 16; @%p3 mov.u32 %r100, 4;\n" + WAITED + OUT,
    "a load at fault, then one that is not": OTHER_LANES + LOAD.replace("%r101", "%r102")
    + WAITED + OUT,
    "a load, then one at fault": PUT + WRITTEN + LOAD + LOAD.replace("%r7", "%r4") + WAITED
    + OUT,
    "a load at fault, a value, and a load": OTHER_LANES + "mov.u32 %r100, 9;\n" + LOAD + WAITED
    + OUT,
    "the lanes of another warp": PUT.replace("%r7", "%r4") + WRITTEN + LOAD.replace("%r7", "%r4")
    + WAITED + OUT,
    "columns that are nobody's": "add.u32 %r7, %r7, 200;\n" + PUT + WRITTEN + LOAD + WAITED + OUT,
    "a commit of nothing": "@%p0 " + COMMIT.format("%r3") + AWAIT,
    "a commit to what is no mbarrier": "@%p0 " + COMMIT.format("%r2"),
    "two commits for one arrival": "@%p0 " + COMMIT.format("%r3") + "@%p0 " + COMMIT.format("%r3")
    + AWAIT,
}  # fmt: skip


def bound(body: str) -> Kernel:
    text = kernel_text(START + body + END, ["out"], "sm_100a", shared=SHARED)
    module = parse_ptx(text, "test.ptx")
    function = module.function("k")
    assert function is not None
    size = 128 * 256
    made = bind(
        module,
        function,
        Geometry((1, 1, 1), (128, 1, 1), (1, 1, 1)),
        {"out": Buffer(size, np.zeros(size, np.uint8))},
    )
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("name", BODIES)
def test_engines_agree(name: str) -> None:
    made = bound(BODIES[name])
    for number in range(4):
        observers = OBSERVERS if number % 2 else ()
        run_both(made, Schedule(number, max_steps=3000), observers, recorded=False)


def test_what_is_plain_is_done_in_the_core() -> None:
    with counted_steps() as left:
        for name in ("32x32b.x8", "halves", "a commit of nothing"):
            run_both(bound(BODIES[name]), Schedule(2), (), recorded=False)
    assert [n for n in left if "tcgen05" in n and "alloc" not in n] == []


@pytest.mark.parametrize(
    ("body", "most"),
    [("a load, then one at fault", 2), ("a load at fault, a value, and a load", 2)],
)
def test_observers_hear_once_of_a_wait_for_loads_of_both(
    body: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    hear = NativeRaces.tensor_waited

    def heard(self: NativeRaces, batch: WarpBatch, mask: Mask, ops: list[Op]) -> None:
        told.append(len(ops) // batch.size)
        hear(self, batch, mask, ops)

    monkeypatch.setattr(NativeRaces, "tensor_waited", heard)
    run(bound(BODIES[body]), Schedule(engine=NATIVE), [Races()])
    assert max(told) == most
