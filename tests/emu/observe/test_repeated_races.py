"""Races that repeat: what a fault costs that is seen a million times."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.native.races_records import Records
from kernelrig.emu.observe.access_check import MOST_IN_RUN, MOST_WRONG
from kernelrig.emu.observe.clocks import MOST_OPERATIONS
from kernelrig.emu.observe.races import Races
from kernelrig.model.frame import Frame
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text, run_ptx
from tests.emu.native.both_engines import run_both
from tests.emu.scripted_machine import Play

RACES = """
ld.param.u64 %rd1, [C];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, tile; mov.u32 %r4, 0;
LOOP:
.loc 1 7 1
st.shared.u32 [%r3], %r2;
ld.shared.u32 %r5, [%r3];
add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 200; @%p1 bra LOOP;
st.global.u32 [%rd1], %r5;
"""


def test_the_text_of_a_place_is_made_once_however_often_a_race_repeats() -> None:
    asked = 0
    code = Frame.text.fget.__code__  # type: ignore[attr-defined]

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal asked
        asked += event == "call" and frame.f_code is code

    sys.setprofile(profile)
    try:
        result = run_ptx(
            RACES, {"C": np.zeros(64, np.uint32)},
            shared='.file 1 "k.cu"\n.shared .align 8 .b8 tile[8];',
            block=(96, 1, 1), observers=[Races()],
        )  # fmt: skip
    finally:
        sys.setprofile(None)
    events = sum(f.count for f in result.findings)
    assert events > 300
    assert asked < 50


REPEATED = """
ld.param.u64 %rd1, [C];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, tile; mov.u32 %r4, 0;
and.b32 %r7, %r1, 31; shl.b32 %r7, %r7, 2; add.u32 %r3, %r3, %r7;
LOOP:
st.shared.u32 [%r3], %r2;
bar.warp.sync 0xffffffff;
ld.shared.u32 %r5, [%r3];
add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 20; @%p1 bra LOOP;
mov.u32 %r6, %ctaid.x; setp.gt.u32 %p2, %r6, {last};
@%p2 st.global.u32 [%rd1], %r2;
"""


def repeated(ctas: int) -> Kernel:
    text = REPEATED.format(last=ctas - 3)
    shared = ".shared .align 8 .b8 tile[128];"
    module = parse_ptx(kernel_text(text, ["C"], "sm_90a", shared=shared), "test.ptx")
    function = module.function("k")
    assert function is not None
    buffers = {"C": Buffer(4, np.zeros(4, np.uint8))}
    kernel = bind(module, function, Geometry((ctas, 1, 1), (96, 1, 1), (1, 1, 1)), buffers)
    kernel.fill_params([b.address.to_bytes(8, "little") for b in kernel.buffers.values()])
    return kernel


def test_a_race_that_ctas_repeat_stops_costing_and_another_one_is_still_found() -> None:
    ctas = 64
    kernel = repeated(ctas)
    ran, _ = run_both(kernel, Schedule(2, resident_ctas=8), (Races,), recorded=False)
    assert {f.objects for f in ran.findings} == {("tile",), ("C",)}
    events = sum(f.count for f in ran.findings if f.objects == ("tile",))
    assert MOST_IN_RUN < events < MOST_IN_RUN + 100 * ctas


def test_the_core_reads_what_raced_once_and_counts_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    make = Records.record

    def record(self: Records, number: int) -> Any:  # noqa: ANN401 - a record's fields
        read.append(number)
        return make(self, number)

    monkeypatch.setattr(Records, "record", record)
    ran = run(repeated(16), Schedule(2, engine=NATIVE), [Races()])
    assert sum(f.count for f in ran.findings) > 3000
    assert 0 < len(read) < 100


def test_tensor_memory_that_races_all_the_time_is_watched_no_longer() -> None:
    play = Play()
    for _ in range(MOST_WRONG + 200):
        op = play.issue((0, 0), "tcgen05.mma")
        play.tensor(op, write=True, lanes=slice(0, 16), columns=slice(0, 1))
        other = play.issue(1, "tcgen05.ld")
        play.tensor(other, write=False, lanes=slice(0, 16), columns=slice(0, 1))
        for one in (op, other):
            play.races.op_done(one)
    assert MOST_WRONG < len(play.kinds) <= MOST_WRONG + 2


def test_more_operations_in_flight_than_there_are_columns_find_a_race_all_the_same() -> None:
    play = Play()
    play.tensor(play.issue(0, "tcgen05.ld"), write=False, columns=slice(0, 1))
    for _ in range(MOST_OPERATIONS + 600):
        play.issue(0, "tcgen05.ld")
    play.tensor(play.issue((1, 0), "tcgen05.mma"), write=True, columns=slice(0, 1))
    assert set(play.kinds) == {"race"}
