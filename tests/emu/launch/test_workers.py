"""Processes that run schedules: that none is left, and how long they will take."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.launch.estimate import Watch, shown_time
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.workers import MOST_STANDING, MOST_USES, Loss, StandingWorkers

from tests.emu.harness import kernel_text
from tests.toolchain_fixture import REPOSITORY

LIMIT_S = 60.0
STORE = (
    "ld.param.u64 %rd0, [c]; bar.sync 0; mov.u32 %r1, 1;\nst.global.u32 [%rd0], %r1; bar.sync 0;"
)
ENDLESS = "mov.u32 %r0, 0;\nAGAIN: add.u32 %r0, %r0, 1; bra AGAIN;"


def launch(folder: Path, body: str, grid: int = 1) -> Path:
    description = {
        "schema": 1,
        "module": "k.ptx",
        "entry": "k",
        "grid": [grid, 1, 1],
        "block": [32, 1, 1],
        "buffers": {"C": {"dtype": "u32", "shape": [1], "fill": {"kind": "zero"}}},
        "args": [{"buffer": "C"}],
    }
    (folder / "launch.json").write_text(json.dumps(description))
    (folder / "k.ptx").write_text(kernel_text(body, ["c"], "sm_100a"))
    return folder / "launch.json"


def children(process: int) -> list[int]:
    """The processes that `process` started and that run."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


@contextmanager
def endless(folder: Path, *python: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, on a kernel without an end, by two processes."""
    words = ["run", str(launch(folder, ENDLESS)), "--schedules", "2", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, *python, *words], cwd=REPOSITORY, stderr=subprocess.DEVNULL
    ) as command:
        try:
            yield command
        finally:
            command.kill()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_no_process_is_left_when_the_command_is_ended(
    number: signal.Signals, tmp_path: Path
) -> None:
    with endless(tmp_path, "-m", "kernelrig.emu") as command:
        wait_for(lambda: len(children(command.pid)) == 2)
        workers = children(command.pid)
        command.send_signal(number)
        command.wait(LIMIT_S)
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


INTERRUPTED = """
import sys
from kernelrig.emu.__main__ import main
def interrupt(frame, event, _):
    if event == "return" and frame.f_code.co_qualname == sys.argv[1]:
        sys.setprofile(None)
        raise KeyboardInterrupt
sys.setprofile(interrupt)
main(sys.argv[2:])
"""


@pytest.mark.parametrize("returning", ["BaseProcess.start", "Worker.start"])
def test_an_interrupt_while_a_process_is_started_ends_the_command(
    returning: str, tmp_path: Path
) -> None:
    with endless(tmp_path, "-c", INTERRUPTED, returning) as command:
        assert command.wait(LIMIT_S) != 0


SWALLOWED = """
import os, signal, sys
from kernelrig.emu.__main__ import main
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(9):  # the handler is called here, and what it raises goes no further
        pass
os.register_at_fork(after_in_parent=interrupt)
main(sys.argv[1:])
"""


def test_an_interrupt_in_what_python_calls_after_a_fork_is_not_lost(tmp_path: Path) -> None:
    with endless(tmp_path, "-c", SWALLOWED) as command:
        assert command.wait(LIMIT_S) != 0


def estimates(path: Path, schedules: int, jobs: int) -> list[str]:
    said: list[str] = []
    watch = Watch(said.append, long_s=-60.0, look_s=0.001)
    emulate(load(path), schedules_of(Schedule(), schedules), ("sync",), jobs=jobs, watch=watch)
    return said


def test_the_first_wave_of_ctas_tells_how_long_a_launch_will_take(tmp_path: Path) -> None:
    body = ENDLESS.replace("bra", "setp.lt.u32 %p0, %r0, 400; @%p0 bra")
    (said,) = estimates(launch(tmp_path, body, grid=40 * 16), 1, 1)
    assert re.fullmatch(
        r"estimated: \d+ s more for 1 schedules, as wave \d+ of 40 of schedule 0 ended after \d+ s",
        said,
    )


def test_without_waves_the_first_schedule_tells_it(tmp_path: Path) -> None:
    (said,) = estimates(launch(tmp_path, STORE), 3, 1)
    assert re.fullmatch(r"estimated: -?\d+ s more for 3 schedules, as the first schedule .*", said)


def test_a_short_run_gets_no_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(launch(tmp_path, STORE)), "--jobs", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_times_are_shown_in_the_unit_that_suits_them() -> None:
    assert [shown_time(s) for s in (30, 119, 420, 9000)] == ["30 s", "119 s", "7 min", "2.5 h"]


def run_standing(standing: StandingWorkers[int, int], key: object, *tasks: int) -> list[object]:
    """What tasks ended with: the process that ran them, but a task of -1 ends its process."""

    def task(number: int, _: object) -> int:
        if number < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    with standing.of(key, task) as workers:
        ended = workers.map(tasks, lambda _: None, 60.0, lambda _: False)
    return [ended[number] for number in sorted(ended)]


@pytest.fixture
def standing() -> Iterator[StandingWorkers[int, int]]:
    made: StandingWorkers[int, int] = StandingWorkers()
    before = children(os.getpid())
    yield made
    made.end()
    assert set(children(os.getpid())) <= set(before)


def test_launches_that_are_alike_have_one_process(standing: StandingWorkers[int, int]) -> None:
    first, second = run_standing(standing, "a", 0, 1)
    assert first == second
    (other,) = run_standing(standing, "b", 0)
    assert [first] == run_standing(standing, "a", 0) != [other]
    for _ in range(MOST_USES):
        last = run_standing(standing, "b", 0)
    assert last != [other]


def test_processes_of_the_launches_used_last_are_kept(standing: StandingWorkers[int, int]) -> None:
    ran = [run_standing(standing, key, 0) for key in range(MOST_STANDING + 1)]
    assert [one in children(os.getpid()) for (one,) in ran] == [False] + [True] * MOST_STANDING
    assert run_standing(standing, 1, 0) == ran[1]
    assert run_standing(standing, 0, 0) != ran[0]


def test_one_that_dies_loses_one_task_and_the_next_launch_has_another(
    standing: StandingWorkers[int, int],
) -> None:
    (before,) = run_standing(standing, "a", 0)
    lost, left = run_standing(standing, "a", -1, 0)
    assert isinstance(lost, Loss)
    assert str(lost.error) == f"it ended its process: {-signal.SIGKILL}"
    assert [left] == run_standing(standing, "a", 0) != [before]


def test_one_is_ended_with_a_launch_that_is_interrupted(
    standing: StandingWorkers[int, int],
) -> None:
    (before,) = run_standing(standing, "a", 0)

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), standing.of("a", lambda *_: 0) as workers:
        workers.map([0], interrupted, 0.0, lambda _: False)
    assert run_standing(standing, "a", 0) != [before]
