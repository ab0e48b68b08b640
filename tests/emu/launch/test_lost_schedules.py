"""Schedules whose process ends, wherever and of whatever: what is said, and what is kept."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.__main__ import main
from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.native.library import library
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.launch.test_workers import ENDLESS, LIMIT_S, STORE, children, launch, wait_for
from tests.toolchain_fixture import REPOSITORY

End = Callable[[Any], object]
DEFECT = "a defect of the emulator: nothing was established; report it with the launch file"
NUMPY_PLACE = "numpy engine, at mov.u32 (PTX line 9) to st.global.u32 (PTX line 10)"
NATIVE_PLACE = "native engine, at st.global.u32 (PTX line 10)"
SMALLER = "emulate a smaller launch, or pass --jobs 1"


def ending(how: End, event: str = "accessed", of: tuple[int, ...] = (1,)) -> type[Hooks]:
    """An observer that does `how` to the machine at an event of the schedules `of`."""

    def act(machine: Any) -> None:  # noqa: ANN401
        if machine.findings.schedule in of:
            how(machine)

    class Ends(Hooks):
        def started(self, machine: Any) -> None:  # noqa: ANN401
            if event == "started":
                act(machine)

        def accessed(self, batch: Any, mask: object, space: str, *about: Any) -> None:  # noqa: ANN401
            if event == "accessed" and about[2]:
                act(batch.machine)

        def ended(self, machine: Any) -> None:  # noqa: ANN401
            if event == "ended":
                act(machine)

    return Ends


def killed_by(number: signal.Signals) -> End:
    def kill(_: object) -> None:
        faulthandler.disable()  # pytest's, whose output would be taken for this one's
        os.kill(os.getpid(), number)

    return kill


def leave(_: object) -> None:
    os._exit(3)


def fail(_: object) -> None:
    raise KeyError("lost")


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def want_memory(_: object) -> None:
    limit_memory()
    np.zeros(1 << 28)


def overflow_the_stack(_: object) -> None:
    faulthandler.disable()
    sys.setrecursionlimit(1 << 30)
    kind = ctypes.CFUNCTYPE(None)

    def again() -> None:
        kind(again)()

    again()


def want_memory_in_the_core(machine: Any) -> None:  # noqa: ANN401
    limit_memory()
    machine.calls.core_blocked(machine.core, 0, (1 << 31) - 1)


def throw_in_the_core(machine: Any) -> None:  # noqa: ANN401
    faulthandler.disable()
    machine.calls.core_blocked(machine.core, 0, -1)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (killed_by(signal.SIGSEGV), f"ended its process by SIGSEGV, {NUMPY_PLACE}; {DEFECT}"),
        (overflow_the_stack, f"ended its process by SIGSEGV, {NUMPY_PLACE}; {DEFECT}"),
        (leave, f"ended its process by an exit, {NUMPY_PLACE}; {DEFECT}"),
        (
            fail,
            f"failed, KeyError at test_lost_schedules.py:#: 'lost', {NUMPY_PLACE}; {DEFECT}",
        ),
        (want_memory, f"ran out of memory, {NUMPY_PLACE}; {SMALLER}"),
        (
            killed_by(signal.SIGKILL),
            f"ended its process by SIGKILL, {NUMPY_PLACE}; the system kills for want of memory:"
            f" {SMALLER}",
        ),
    ],
    ids=["fault", "stack", "exit", "exception", "memory", "killed"],
)
def test_a_lost_schedule_is_one_sentence_with_the_place_and_the_others_are_kept(
    how: End,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(OBSERVERS, "memory", ending(how))
    path, dump = tmp_path / "found.json", tmp_path / "C.npy"
    words = ["--schedules", "3", "--jobs", "2", "--json", str(path), "--dump", f"C={dump}"]
    words += ["--engine", "numpy"]
    others = children(os.getpid())  # of fixtures that live as long as the session
    assert main(["run", str(launch(tmp_path, STORE)), *words]) == 4
    printed = capsys.readouterr()
    sentence = f"schedule 1 {said}"
    assert without_lines(printed.err) == f"error: {sentence}\n"
    assert without_lines(printed.out.splitlines()[-2]) == f"lost: {sentence}"
    assert printed.out.startswith("error: emulated: 2 of 3 schedules, 0 errors, 0 warnings, ")
    assert printed.out.splitlines()[-1] == printed.out.splitlines()[0]
    found = json.loads(path.read_text())
    assert [without_lines(text) for text in found["run"]["lost"].values()] == [sentence]
    assert list(found["run"]["lost"]) == ["1"]
    assert found["run"]["dumps"] == {"C": ["C.npy", "", "C.npy"]}
    assert np.load(dump).tolist() == [1]
    assert len(found["stats"]["wall_s"]) == 2
    assert set(children(os.getpid())) <= set(others)


def without_lines(text: str) -> str:
    return re.sub(r"(\.py):\d+", r"\1:#", text)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (killed_by(signal.SIGSEGV), "ended its process by SIGSEGV"),
        (throw_in_the_core, "ended its process by SIGABRT"),
        (want_memory_in_the_core, "ran out of memory"),
    ],
    ids=["fault", "abort", "memory"],
)
def test_the_native_engine_names_the_instruction_that_ended_its_process(
    how: End,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    library()  # what it says of compiling is another test's
    monkeypatch.setitem(OBSERVERS, "memory", ending(how))
    words = [str(launch(tmp_path, STORE)), "--schedules", "2", "--engine", "native"]
    assert main(["run", *words]) == 4
    hint = SMALLER if "memory" in said else f"{DEFECT}, or try --engine numpy"
    assert capsys.readouterr().err == f"error: schedule 1 {said}, {NATIVE_PLACE}; {hint}\n"


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize(
    ("event", "place"), [("started", "its start"), ("ended", "ret (PTX line 11)")]
)
def test_before_the_first_instruction_and_after_the_last_it_is_said_too(
    event: str,
    place: str,
    engine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    library()
    monkeypatch.setitem(OBSERVERS, "memory", ending(killed_by(signal.SIGABRT), event))
    words = [str(launch(tmp_path, STORE)), "--schedules", "2", "--engine", engine]
    assert main(["run", *words]) == 4
    said = f"schedule 1 ended its process by SIGABRT, {engine} engine, at "
    assert capsys.readouterr().err.startswith(f"error: {said}{place}; ")


def test_what_the_others_found_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(OBSERVERS, "init", ending(killed_by(signal.SIGSEGV), "started"))
    path = launch(tmp_path, STORE.replace("[%rd0]", "[%rd0+4]"))
    words = ["--schedules", "2", "--json", str(tmp_path / "found.json"), "--engine", "numpy"]
    assert main(["run", str(path), *words]) == 1
    printed = capsys.readouterr()
    assert "out-of-bounds" in printed.out
    assert printed.err.startswith("error: schedule 1 ended its process by SIGSEGV")


def test_a_part_without_findings_is_no_pass_where_a_schedule_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(OBSERVERS, "memory", ending(killed_by(signal.SIGSEGV)))
    whole, part = tmp_path / "found.json", tmp_path / "part.json"
    words = ["--schedules", "2", "--json", str(whole), "--engine", "numpy"]
    assert main(["run", str(launch(tmp_path, STORE)), *words]) == 4
    capsys.readouterr()
    assert main(["split", str(whole), "--observe", "sync", "--json", str(part)]) == 4
    assert capsys.readouterr().err.startswith("error: schedule 1 ended its process by SIGSEGV")
    assert json.loads(part.read_text())["run"]["lost"]


def test_without_any_result_there_is_the_sentence_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"

    def note_and_end(machine: Any) -> None:  # noqa: ANN401
        with log.open("a") as f:
            f.write(f"{machine.findings.schedule}\n")
        killed_by(signal.SIGSEGV)(machine)

    monkeypatch.setitem(OBSERVERS, "memory", ending(note_and_end, of=tuple(range(9))))
    words = ["--schedules", "9", "--jobs", "1", "--json", str(tmp_path / "found.json")]
    assert main(["run", str(launch(tmp_path, STORE)), *words, "--engine", "numpy"]) == 4
    printed = capsys.readouterr()
    said = f"error: schedule 0 ended its process by SIGSEGV, {NUMPY_PLACE}; {DEFECT}\n"
    assert (printed.out, printed.err) == ("", said)
    assert not (tmp_path / "found.json").exists()
    assert log.read_text().split() == ["0", "1", "2", "3"], "no more are tried"


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGABRT,
        pytest.param(signal.SIGSEGV, marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_process_that_is_killed_inside_the_core_is_named_with_the_place(
    number: signal.Signals, tmp_path: Path
) -> None:
    """By another process, at whatever instant: the kernel never calls back."""
    library()
    words = ["run", str(launch(tmp_path, ENDLESS)), "--schedules", "1", "--engine", "native"]
    with subprocess.Popen(
        [sys.executable, "-m", "kernelrig.emu", *words, "--max-steps", str(10**12)],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        try:
            wait_for(lambda: bool(children(command.pid)))
            (worker,) = children(command.pid)
            wait_for(lambda: busy(worker))
            os.kill(worker, number)
            said = command.communicate(timeout=LIMIT_S)[1]
        finally:
            command.kill()
    assert command.returncode == 4
    place = r"native engine, at (add|bra|mov)\S* \(PTX line \d+\)(?: to bra \(PTX line \d+\))?; "
    assert re.fullmatch(rf"error: schedule 0 ended its process by {number.name}, {place}.*\n", said)


def busy(process: int) -> bool:
    """Whether it has computed for long enough to be in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) > 0.3 * os.sysconf("SC_CLK_TCK")
