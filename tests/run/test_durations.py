"""The expected time of a stage is that of an earlier run of the same kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import to_json
from kernelrig.model import Run
from kernelrig.run.durations import stage_seconds
from kernelrig.run.store import RunDirectory

from tests.report import runs

PASSED = runs.ALL["pass"]


def file_run(root: Path, run: Run) -> Path:
    folder = root / "artifacts/runs" / run.id
    write_atomic(folder / "run.json", to_json(run))
    return folder


def test_the_last_run_of_the_same_kind_says_how_long_a_stage_takes(tmp_path: Path) -> None:
    name = f"-{PASSED.kernel.name}-x-"
    took = {s.name: 10.0 + i for i, s in enumerate(PASSED.stages)}
    timed = tuple(replace(s, seconds=took[s.name]) for s in PASSED.stages)
    file_run(tmp_path, replace(PASSED, id=f"20261120T000000Z{name}0001", stages=timed))
    later = tuple(replace(s, seconds=99.0) for s in PASSED.stages)
    other = replace(PASSED, id=f"20261121T000000Z{name}0002", stages=later, variant="another")
    file_run(tmp_path, other)
    write_atomic(tmp_path / f"artifacts/runs/20261121T000001Z{name}0003/run.json", "{")
    own = replace(PASSED, id=f"20261122T000000Z{name}0004", stages=later)
    directory = RunDirectory(tmp_path, file_run(tmp_path, own), own)
    assert stage_seconds(directory) == took


def test_without_an_earlier_run_nothing_is_expected(tmp_path: Path) -> None:
    folder = file_run(tmp_path, PASSED)
    assert stage_seconds(RunDirectory(tmp_path, folder, PASSED)) == {}
