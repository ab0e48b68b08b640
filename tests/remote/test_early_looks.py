"""A command that runs much longer than its good runs is inspected, and ended only if it hangs.

The program speaks the CUDA driver's side of a dump request; cuda-gdb is a script that prints what
the real one did on an H200.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Command, CommandResult, EndedBy, Inspection

from tests.remote.local_host import PYTHON, LocalHost, job, shell

GDB = Path(__file__).parents[1] / "data/cuda-gdb"
FIRST, SECOND = (GDB / f"13.0-half-look-{k}.gdb.txt" for k in (1, 2))
WAITS: dict[str, tuple[tuple[int, int], ...]] = {"_Z4halfv": ((0x30, 0x40), (0x50, 0x60))}
INSPECTION = Inspection(0.1, WAITS, look_s=10.0, between_s=0.05)
VERSION = '[ "$1" = --version ] && echo "NVIDIA (R) cuda-gdb 13.0" && exit'

# As the CUDA driver does where CUDA_ENABLE_USER_TRIGGERED_COREDUMP is set: it opens a pipe to read.
PROGRAM = """
import os, time
pipe = os.environ["CUDA_COREDUMP_PIPE"].replace("%p", str(os.getpid()))
os.mkfifo(pipe)
reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
end = time.monotonic() + float({seconds})
while time.monotonic() < end:
    if os.read(reader, 1):
        with open(os.environ["CUDA_COREDUMP_FILE"].replace("%p", str(os.getpid())), "wb") as core:
            core.write(b"CUDA core")
        raise SystemExit(70)
    time.sleep(0.01)
"""


def program(seconds: float, time_s: float = 60.0, inspection: Inspection = INSPECTION) -> Command:
    argv = (PYTHON, "-c", PROGRAM.replace("{seconds}", str(seconds)))
    return Command("half", argv, time_s, core_dump=True, inspection=inspection)


@pytest.fixture
def gpu(host: LocalHost) -> LocalHost:
    """A host whose cuda-gdb prints look 1, then look 2, and notes how it was called."""
    prints(host, f"cat {SECOND}")
    return host


def prints(host: LocalHost, then: str) -> None:
    calls = host.folder / "calls"
    called = f'echo "$1 $2 $3" >> {calls}; [ $(wc -l < {calls}) -lt 3 ] && cat {FIRST} && exit'
    host.on_path("cuda-gdb", f"{VERSION}; {called}\n{then}")


def only(results: tuple[CommandResult, ...]) -> CommandResult:
    assert len(results) == 1
    return results[0]


def test_a_program_whose_warps_all_wait_is_ended_and_the_rest_goes_on(gpu: LocalHost) -> None:
    jobs = [
        job("smoke", program(1000.0), shell("next", ":")),
        job("racecheck", shell("c", ":"), needs_end=("smoke",)),
        job("other", shell("d", ":")),
    ]
    (smoke, racecheck, other), _ = gpu.run(jobs)
    first, second = smoke.commands
    assert (first.ended_by, first.looks, first.disturbed) == (EndedBy.HANG, 3, False)
    assert first.detail == "every warp waits for a barrier, twice with the same registers"
    assert second.detail == "an earlier command was ended as a hang"
    assert racecheck.not_run == "'smoke' was ended as a hang: this would hang the same way"
    assert only(other.commands).exit_code == 0
    folder = gpu.back / "stages/01-smoke"
    assert (folder / "half.look-1.gdb.txt").read_bytes() == FIRST.read_bytes()
    assert (folder / "half.look-2.gdb.txt").read_bytes() == SECOND.read_bytes()
    assert (gpu.folder / "calls").read_text().splitlines() == ["-nx -batch -p"] * 3


@pytest.mark.parametrize(
    "then",
    [
        f"sed 's/R0             0x0 /R0             0x1 /' {SECOND}",
        f"sed 's/   0    1 Active/   0    2 Active/' {SECOND}",
        f"sed 's/half() + 64 in/half() + 16 in/' {SECOND}",
        f"cat {GDB / '13.0-idle-look.gdb.txt'}",
    ],
)
def test_a_program_that_goes_on_is_left_to_its_end(host: LocalHost, then: str) -> None:
    prints(host, then)
    (smoke,), _ = host.run([job("smoke", program(1.5))])
    end = only(smoke.commands)
    assert (end.ended_by, end.exit_code) == (EndedBy.EXIT, 0)
    assert end.looks >= 3


def test_a_program_that_is_not_shown_to_hang_ends_at_its_limit(host: LocalHost) -> None:
    prints(host, f"sed 's/R0             0x0 /R0             0x1 /' {SECOND}")
    (smoke,), _ = host.run([job("smoke", program(1000.0, 1.5))])
    end = only(smoke.commands)
    assert (end.ended_by, end.disturbed) == (EndedBy.TIME_LIMIT, False)
    assert "info symbol" not in end.detail
    assert (host.back / "stages/01-smoke/half.gdb.txt").is_file()


def test_without_a_cuda_gdb_the_limit_holds(host: LocalHost) -> None:
    (smoke,), _ = host.run([job("smoke", program(1000.0, 0.6))])
    end = only(smoke.commands)
    assert (end.ended_by, end.looks) == (EndedBy.TIME_LIMIT, 0)
    assert "no cuda-gdb to inspect it" in end.detail


@pytest.mark.parametrize(("script", "disturbed"), [("exit 1", False), ("sleep 1000", True)])
def test_a_cuda_gdb_that_fails_is_a_note_and_not_tried_again(
    host: LocalHost, script: str, disturbed: bool
) -> None:
    host.on_path("cuda-gdb", f"{VERSION}; {script}")
    inspection = replace(INSPECTION, look_s=0.2)
    (smoke,), _ = host.run([job("smoke", program(1000.0, 1.0, inspection))])
    end = only(smoke.commands)
    assert (end.ended_by, end.looks, end.disturbed) == (EndedBy.TIME_LIMIT, 1, disturbed)
    assert "cuda-gdb could not inspect it" in end.detail


def test_only_a_process_of_the_command_is_inspected(gpu: LocalHost) -> None:
    """The name of a dump pipe is text that a program chose: this one names process 1."""
    script = "mkfifo half.pipe_1; sleep 1"
    command = replace(shell("half", script, 60.0), core_dump=True, inspection=INSPECTION)
    (smoke,), _ = gpu.run([job("smoke", command)])
    assert (only(smoke.commands).exit_code, only(smoke.commands).looks) == (0, 0)
    assert not (gpu.folder / "calls").exists()


def test_a_program_without_an_inspection_is_not_looked_at(gpu: LocalHost) -> None:
    (smoke,), _ = gpu.run([job("smoke", replace(program(0.5), inspection=None))])
    assert only(smoke.commands).looks == 0
    assert not (gpu.folder / "calls").exists()
