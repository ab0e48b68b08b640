"""`profile --before RUN`: what may be named there, and what the profile ends with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.files.manifest import write_manifest
from kernelrig.model import Profiling, Purpose, Run, StageKind
from kernelrig.run import store
from kernelrig.run.figures import stage_folder
from kernelrig.run.prepare import prepare_run
from kernelrig.run.profile_comparison import compared_with_before
from kernelrig.run.requests import RunRequest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"
REPORTS = DATA / "ncu/2025.3.1-reports"
REMOTES = "schema: 2\nremotes:\n  h200: {arch: sm_90a, host: nobody-listens.invalid}\n"
OLD, NEW = "20260101T000000Z-k-h200-0001", "20260102T000000Z-k-h200-0002"


@pytest.fixture
def root(tmp_path: Path, ncu_report: Path) -> Path:
    shutil.copytree(ROOT / "kernel", tmp_path / "kernel")
    (tmp_path / "remotes.yaml").write_text(REMOTES)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/tools").symlink_to(ncu_report.parent)
    return tmp_path


def put(root: Path, name: str, report: str, kind: str = "profile") -> Run:
    """Put a recorded run whose timing stage is of another kind, and the stage's report."""
    value = json.loads((DATA / "records/run-1-timing-a.json").read_text())
    for stage in value["stages"]:
        stage["kind"] = kind if stage["kind"] == "timing" else stage["kind"]
    folder = root / store.RUNS / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(value | {"id": name}))
    run = store.load_run(root, name).run
    for record in run.stages:
        if record.kind is StageKind.PROFILE:
            at = stage_folder(folder, run, record)
            at.mkdir(parents=True)
            shutil.copy(REPORTS / f"{report}.ncu-rep", at / "profile.ncu-rep")
    write_manifest(folder)
    return run


def prepared(root: Path, before: str) -> Profiling | None:
    request = RunRequest(
        remote="h200",
        kernel="patch_embed",
        plan="profile",
        purpose=Purpose.PROFILE,
        before=before,
    )
    return prepare_run(root, request).profiling


def test_a_profile_says_what_moved_since_the_run_it_is_compared_with(root: Path) -> None:
    put(root, OLD, "slow-again")
    run = put(root, NEW, "more")
    profiling = prepared(root, OLD)
    assert profiling is not None
    assert profiling.before == OLD
    said = compared_with_before(root, replace(run, profiling=profiling))
    assert said.startswith(f"{NEW} compared with {OLD}: ")
    assert "smsp__inst_executed.sum" in said
    assert compared_with_before(root, run) == ""


def test_a_run_without_a_profile_is_refused_before_any_connection(root: Path) -> None:
    put(root, OLD, "slow-again", kind="timing")
    with pytest.raises(ConfigError, match="it profiled nothing"):
        prepared(root, OLD)
    with pytest.raises(ConfigError, match="no run matches"):
        prepared(root, "20250101T000000Z-none")


def test_a_comparison_that_fails_takes_nothing_from_the_run(root: Path) -> None:
    run = put(root, NEW, "more")
    profiling = Profiling("gh100", "", (), (), before=OLD)
    said = compared_with_before(root, replace(run, profiling=profiling))
    assert said.startswith(f"not compared with {OLD}: no run matches")
