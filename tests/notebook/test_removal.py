"""`clean --runs` lists first, and keeps what is not collected, what is named, and last verdicts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from kernelrig.errors import CiError
from kernelrig.model import Check, Outcome, StageKind, StageRecord, Verdict
from kernelrig.notebook.database import open_history
from kernelrig.run import accepted_times, past_runs
from kernelrig.run.removal import clean_runs
from kernelrig.run.store import RUNS

from tests.cpu_project import make_cpu_project
from tests.notebook.test_experiments import FRONT
from tests.run.test_baselines import ALL, put, record

DAY = 86400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_cpu_project(tmp_path / "project")


def old(folder: Path, days: int = 30) -> str:
    """Make a run `days` old; return its name."""
    for name in ("run.json", "manifest.json"):
        path = folder / name
        if path.exists():
            at = path.stat().st_mtime - days * DAY
            os.utime(path, (at, at))
    return folder.name


def rows(text: str) -> dict[str, str]:
    """Return what the table says of each run: the last column."""
    lines = text.splitlines()[1:-1]
    return {line.split()[0]: line.split(" MB  ")[1] for line in lines}


def here(root: Path) -> set[str]:
    return {p.name for p in (root / RUNS).iterdir()}


def test_it_lists_first_and_removes_where_it_is_asked(root: Path) -> None:
    gone, stays = old(put(root, 1, 0.9)[0]), put(root, 2, 0.8)[1].id
    text = clean_runs(root, 14, remove=False)
    assert rows(text) == {gone: "may be removed", stays: "it is younger than 14 days"}
    assert text.splitlines()[-1].startswith("1 of 2 runs, 0.0 MB, may be removed; --remove")
    assert here(root) == {gone, stays}
    text = clean_runs(root, 14, remove=True)
    assert text.splitlines()[-1].endswith("; 1 stay, and the history has all of them")
    assert here(root) == {stays}
    assert list(root.glob("artifacts/.removed-*")) == []
    with open_history(root) as history:
        assert set(history.seen()) == {gone, stays}
        assert [o.value for _, o in history.observed(run=gone, metric="time_ms")] == [0.9]


@pytest.mark.parametrize("state", ["prepared", "launched", "collected", "incomplete"])
def test_what_is_not_collected_stays(root: Path, state: str) -> None:
    name = old(put(root, 1, 0.9, state=state)[0])
    text = clean_runs(root, 0, remove=True)
    assert rows(text) == {name: f"it is {state}: `invoke collect {name}`"}
    assert here(root) == {name}


def test_what_cannot_be_read_or_was_not_reported_stays(root: Path) -> None:
    killed, odd = put(root, 1, 0.9)[0], put(root, 2, 0.9)[0]
    (killed / "manifest.json").unlink()
    (odd / "run.json").write_text("{")
    old(killed), old(odd)
    (root / RUNS / "notes").mkdir()
    said = rows(clean_runs(root, 14, remove=True))
    assert said[killed.name].startswith("its client was killed before the last report")
    assert "is not JSON" in said[odd.name]
    assert said["notes"] == "it is not in the history"
    assert here(root) == {killed.name, odd.name, "notes"}


def test_what_a_baseline_or_an_experiment_names_stays(root: Path) -> None:
    accepted, named, gone = (put(root, number, 0.9)[0] for number in (1, 2, 3))
    accepted_times.accept(root, str(accepted), ALL)
    for folder in (accepted, named, gone):
        old(folder)
    text = FRONT.replace("patch_embed", "passes")
    (root / "kernel/experiments").mkdir()
    file = root / "kernel/experiments/tried.md"
    file.write_text(text.replace("risk: low", f"risk: low\nbaseline: {named.name}"))
    said = rows(clean_runs(root, 14, remove=True))
    assert said[accepted.name].startswith("the baseline of patch_embed-sm_90a-production ")
    assert said[named.name] == "experiment tried names it"
    assert here(root) == {accepted.name, named.name}


@pytest.mark.parametrize("broken", ["kernel/experiments/a.md", "artifacts/baselines/x.json"])
def test_nothing_is_removed_where_it_is_not_known_what_is_named(root: Path, broken: str) -> None:
    name = old(put(root, 1, 0.9)[0])
    (root / broken).parent.mkdir(parents=True)
    (root / broken).write_text("{")
    with pytest.raises(CiError):
        clean_runs(root, 14, remove=True)
    assert here(root) == {name}


def test_a_later_failure_stays_as_long_as_an_earlier_pass(root: Path) -> None:
    """Else the build would have passed its checks again, by the pass that is left."""

    def judged(outcome: Outcome) -> tuple[StageRecord, ...]:
        verdict = Verdict(outcome, "so")
        stage = record(
            name="smoke", kind=StageKind.CHECKSUM, verdict=verdict,
            checks=(Check("outputs", verdict),), standard="asked",
        )  # fmt: skip
        return (stage, record())

    passed = put(root, 1, 0.9, stages=judged(Outcome.PASS))[0]
    accepted_times.accept(root, str(passed), ALL)
    failed = put(root, 2, 0.9, stages=judged(Outcome.FAIL))[0]
    again = put(root, 3, 0.9, stages=judged(Outcome.PASS))[0]
    for folder in (passed, failed, again):
        old(folder)
    said = rows(clean_runs(root, 14, remove=True))
    assert said[failed.name] == f"it has a later verdict on a build of {passed.name}"
    assert here(root) == {passed.name, failed.name}
    # Without the earlier pass the failure contradicts nothing.
    shutil.rmtree(root / "artifacts/baselines")
    past_runs.rebuild(root)
    clean_runs(root, 14, remove=True)
    assert here(root) == set()
