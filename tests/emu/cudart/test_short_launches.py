"""Schedules of a launch whose like was short run in one process, one after the other."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from kernelrig.emu.cudart.program_launch import SHORT, HowToRun
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.observe.registry import OBSERVERS
from kernelrig.errors import CiError
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled


@pytest.mark.parametrize(
    ("instructions", "jobs"),
    [(None, 0), (SHORT - 1, 1), (SHORT, 0)],
    ids=["the first", "short", "long"],
)
def test_a_process_for_each_schedule_is_for_launches_that_are_not_short(
    instructions: int | None, jobs: int
) -> None:
    assert HowToRun(Schedule(), 4, ()).after(instructions).jobs == jobs


def test_a_process_that_dies_in_a_later_launch_is_an_error(
    cuda_toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the first launch runs the second, which is like it: its schedules are two."""

    class Dies(Hooks):
        runs = 0

        def started(self, _: Any) -> None:  # noqa: ANN401
            Dies.runs += 1
            if Dies.runs == 4:
                os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setitem(OBSERVERS, "sync", Dies)
    with pytest.raises(CiError, match="schedule 1 ended its process by SIGKILL, native engine, at"):
        run_compiled("basics", cuda_toolchain, "add", "300")
