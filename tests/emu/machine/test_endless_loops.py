"""Loops that no thread will leave are told at once; those that may end run on, on both engines."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine import endless_loops
from kernelrig.emu.machine.machine_state import Geometry

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

LOOK, LIMIT = 2000, 60_000
ENDLESS = (
    "these CTAs are in a loop that they never leave: each turn reads the same, and nothing that"
    " runs writes memory any more"
)
BEGIN = "ld.param.u64 %rd0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r4, 0;\n"
WAIT = "AGAIN: {look}; setp.eq.u32 %p0, %r1, 0; @%p0 bra AGAIN;\n"
LOOKS = {
    "volatile": "ld.volatile.global.u32 %r1, [%rd0]",
    "acquire": "ld.acquire.gpu.global.u32 %r1, [%rd0]",
    "weak": "ld.global.u32 %r1, [%rd0]",
    "atomic": "atom.global.add.u32 %r1, [%rd0], 0",
}
SCHEDULES = [
    pytest.param(number, marks=pytest.mark.long) if number in (1, 2) else number
    for number in range(4)
]
FORMS = [
    pytest.param(look, marks=pytest.mark.long) if look in ("acquire", "weak") else look
    for look in LOOKS
]
ONE_THREAD = "setp.ne.u32 %p1, %r2, 0; @%p1 bra BEHIND;\n{wait}BEHIND: bar.sync 0;"


@pytest.fixture(autouse=True)
def _early_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless_loops, "LOOK_STEPS", LOOK)


def found(body: str, schedule: int, grid: int = 2, threads: int = 64) -> tuple[list[str], int]:
    """What both engines find, and the steps they took."""
    kernel = bound_text(
        kernel_text(BEGIN + body, ["out"], "sm_90"),
        {"out": np.zeros(4, np.uint32)},
        Geometry((grid, 1, 1), (threads, 1, 1)),
    )
    run, _ = run_both(kernel, Schedule(schedule, max_steps=LIMIT), (), recorded=False)
    return [f.message for f in run.findings], run.steps


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("look", FORMS)
def test_a_flag_that_nobody_sets(look: str, schedule: int) -> None:
    messages, steps = found(WAIT.format(look=LOOKS[look]), schedule)
    assert messages == [ENDLESS]
    assert steps < LIMIT


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_that_one_thread_waits_for_and_the_others_for_it(schedule: int) -> None:
    body = ONE_THREAD.format(wait=WAIT.format(look=LOOKS["volatile"]))
    messages, steps = found(body, schedule, grid=1)
    assert messages == [ENDLESS]
    assert steps < LIMIT


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("look", FORMS)
def test_a_flag_that_is_set_after_long_work(look: str, schedule: int) -> None:
    """The last CTA counts first; the others wait, in an unfair schedule for long."""
    work = "COUNT: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3000; @%p1 bra COUNT;"
    body = f"""
    setp.ne.u32 %p2, %r0, 1;
    @%p2 bra AGAIN;
    {work}
    st.release.gpu.global.u32 [%rd0], 1;
    ret;
    {WAIT.format(look=LOOKS[look])}
    """
    if look == "weak":
        body = body.replace("AGAIN: ", "AGAIN: fence.acq_rel.gpu; ")
    messages, steps = found(body, schedule, threads=32)
    assert messages == []
    assert steps > 3000


@pytest.mark.parametrize(
    "turn",
    [
        "add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 9000; @%p0 bra AGAIN",
        "ld.global.u32 %r4, [%rd0+4]; add.u32 %r4, %r4, 1; st.global.u32 [%rd0+4], %r4;"
        " setp.lt.u32 %p0, %r4, 9000; @%p0 bra AGAIN",
        "atom.global.add.u32 %r4, [%rd0+4], 1; setp.lt.u32 %p0, %r4, 9000; @%p0 bra AGAIN",
        "mov.u64 %rd1, %clock64; setp.lt.u64 %p0, %rd1, 200000; @%p0 bra AGAIN",
    ],
    ids=["counts", "stores", "atomics", "reads the time"],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_loop_that_ends_runs_to_its_end(turn: str, schedule: int) -> None:
    messages, steps = found(f"AGAIN: {turn};", schedule, grid=1, threads=1)
    assert messages == []
    assert steps > 2 * LOOK


def test_a_loop_that_changes_something_runs_to_the_limit() -> None:
    messages, steps = found("AGAIN: add.u32 %r4, %r4, 1; bra AGAIN;", 0)
    assert messages == [
        f"these CTAs still run after {LIMIT} steps, and were here then: a hang, or too much work"
    ]
    assert steps > LIMIT
