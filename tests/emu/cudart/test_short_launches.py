"""Schedules of a launch whose like was short run in one process, one after the other."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.program_launch import SHORT, HowToRun
from kernelrig.emu.launch.execution import Schedule


@pytest.mark.parametrize(
    ("instructions", "jobs"),
    [(None, 0), (SHORT - 1, 1), (SHORT, 0)],
    ids=["the first", "short", "long"],
)
def test_a_process_for_each_schedule_is_for_launches_that_are_not_short(
    instructions: int | None, jobs: int
) -> None:
    assert HowToRun(Schedule(), 4, ()).after(instructions).jobs == jobs
