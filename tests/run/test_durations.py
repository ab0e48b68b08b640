"""The expected time of a stage is that of an earlier run of the same kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import to_json
from kernelrig.model import CommandResult, EndedBy, Outcome, Run, StageRecord, Verdict
from kernelrig.run.durations import good_seconds, stage_seconds
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


def with_seconds(run: Run, run_id: str, seconds: float, **changes: Any) -> Run:  # noqa: ANN401 - any field
    """Return a run whose stages took that long in their one command, with fields replaced."""
    command = CommandResult("integer-0", EndedBy.EXIT, 0, seconds=seconds)

    def stage(record: StageRecord) -> StageRecord:
        return replace(record, commands=(command,), **changes)

    return replace(run, id=run_id, stages=tuple(map(stage, run.stages)))


def test_good_runs_on_the_same_gpu_say_how_long_a_command_takes(tmp_path: Path) -> None:
    name = f"-{PASSED.kernel.name}-x-"
    stages = {s.name: s for s in PASSED.stages if s.machine}
    assert stages
    file_run(tmp_path, with_seconds(PASSED, f"20261118T000000Z{name}0001", 2.0))
    file_run(tmp_path, with_seconds(PASSED, f"20261119T000000Z{name}0002", 3.0))
    others: tuple[dict[str, Any], ...] = (
        {"machine": "NVIDIA B200"},
        {"variant": "debug"},
        {"verdict": Verdict(Outcome.FAIL, "wrong")},
        {"verdict": Verdict(Outcome.ERROR, "lost")},
    )
    for number, changes in enumerate(others):
        other = with_seconds(PASSED, f"20261120T00000{number}Z{name}0003", 99.0, **changes)
        file_run(tmp_path, other)
    write_atomic(tmp_path / f"artifacts/runs/20261121T000001Z{name}0003/run.json", "{")
    own = replace(PASSED, id=f"20261122T000000Z{name}0004")
    directory = RunDirectory(tmp_path, file_run(tmp_path, own), own)
    planned = {s.name for s in own.plan.stages} & set(stages)
    assert {k: v for k, v in good_seconds(directory).items() if k[0] in planned} == {
        (stage, "integer-0"): 3.0 for stage in planned
    }
