"""Reports that are written while the next run is on its host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelrig.run.later_reports import LaterReports


def test_reports_are_written_by_another_process_one_run_after_the_other(tmp_path: Path) -> None:
    gate, told = tmp_path / "gate", tmp_path / "told"
    os.mkfifo(gate)

    def first() -> None:
        gate.read_text()  # as long as the next run is prepared
        told.write_text(f"first {os.getpid() == client}")

    def second() -> None:
        told.write_text(f"{told.read_text()}, second")

    client = os.getpid()
    with LaterReports() as reporting:
        reporting(first)
        gate.write_text("go on")
        reporting(second)
    assert told.read_text() == "first False, second"


def test_what_cannot_be_written_is_raised_by_the_end(tmp_path: Path) -> None:
    def fail() -> None:
        (tmp_path / "none" / "summary.md").write_text("")

    with pytest.raises(FileNotFoundError), LaterReports() as reporting:
        reporting(fail)


def test_an_error_of_the_sweep_does_not_wait_for_reports(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def wait() -> None:
        gate.read_text()

    reporting = LaterReports()
    reporting(wait)
    reporting.__exit__(KeyError)
    with pytest.raises(OSError, match="No such device"):  # nobody reads: the writer has ended
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
