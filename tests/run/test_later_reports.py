"""Reports that are written while the next run is on its host."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.files.serialization import to_json
from kernelrig.run.later_reports import LaterReports
from kernelrig.run.store import RunDirectory

from tests.report import runs


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[[str], RunDirectory]:
    """Put a judged run of that id on file."""

    def make(name: str) -> RunDirectory:
        run, folder = replace(runs.ALL["pass"], id=name), tmp_path / name
        folder.mkdir()
        (folder / "run.json").write_text(to_json(run))
        return RunDirectory(tmp_path, folder, run)

    return make


def test_reports_are_written_by_another_process_one_run_after_the_other(
    tmp_path: Path, run_of: Callable[[str], RunDirectory]
) -> None:
    gate, told = tmp_path / "gate", tmp_path / "told"
    os.mkfifo(gate)
    client = os.getpid()

    def write(directory: RunDirectory) -> None:
        if directory.run.id == "first":
            gate.read_text()  # as long as the next run is prepared
        with told.open("a") as file:
            file.write(f"{directory.run.id} {os.getpid() == client}, ")

    with LaterReports(tmp_path, write) as reporting:
        reporting(run_of("first"))
        gate.write_text("go on")
        reporting(run_of("second"))
    assert told.read_text() == "first False, second False, "


def test_what_cannot_be_written_is_raised_by_the_end(
    tmp_path: Path, run_of: Callable[[str], RunDirectory]
) -> None:
    def fail(directory: RunDirectory) -> None:
        (directory.folder / "none" / "summary.md").write_text("")

    with pytest.raises(FileNotFoundError), LaterReports(tmp_path, fail) as reporting:
        reporting(run_of("first"))


def test_an_error_of_the_sweep_does_not_wait_for_reports(
    tmp_path: Path, run_of: Callable[[str], RunDirectory]
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def wait(_: RunDirectory) -> None:
        gate.read_text()

    reporting = LaterReports(tmp_path, wait).__enter__()
    reporting(run_of("first"))
    reporting.__exit__(KeyError)
    with pytest.raises(OSError, match="No such device"):  # nobody reads: the writer has ended
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
