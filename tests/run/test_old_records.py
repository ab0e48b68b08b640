"""Records of schema 1, made by commit a4cd6f1, are read by every task that takes recorded runs;
run.json of schema 2, made by commit 54dafed, too.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kernelrig.files import serialization
from kernelrig.files.manifest import write_manifest
from kernelrig.model import BenchResult, Outcome, RecordedRemote, Run, StageKind
from kernelrig.report import exit_code, render_junit, render_summary
from kernelrig.run import accepted_times, engine, recorded, store
from kernelrig.run.baselines import FOLDER

from tests.run.test_engine import build_in

DATA = Path(__file__).parents[1] / "data/records"
STAGES = {
    "check": {"sm_90a-production": "pass"},
    "emulate": {"checksum-1x2": "pass", "synccheck": "pass"},
    "remote-test": {"preflight": "pass", "program": "pass", "again": "pass", "after": "pass"},
    "bench": {"preflight": "pass", "bench": "pass"},
    "timing-a": {"preflight": "pass", "smoke": "pass", "checksum": "pass", "timing": "pass"},
}


def raw(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    assert value["schema"] == 1
    return value


def put(root: Path, name: str, **changes: Any) -> Path:  # noqa: ANN401 - any field of run.json
    """Put a captured run.json into its place under `root`, and return the run's folder."""
    value = raw(f"run-1-{name}") | changes
    folder: Path = root / store.RUNS / value["id"]
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(value))
    return folder


def test_a_run_of_schema_2_is_read_without_what_could_be_connected_to() -> None:
    path = DATA / "run-2-remote-test.json"
    run = serialization.from_json(Run, path)
    assert (run.schema, exit_code(run)) == (3, 0)
    kinds = [s.kind for s in run.stages if s.kind.on_host]
    assert kinds == [StageKind.EXIT_STATUS] * 3, "its kernel is a plain program"
    assert run.remote == RecordedRemote(
        "host",
        "sm_90a",
        gpu="H200",
        host_key="SHA256:2p6+VRMZ3wT6TmioWEWz/SvqXkjX+JMuqdhYpQ02WFo",
        env=("CUDA_VISIBLE_DEVICES", "TOKEN"),
    )
    written = serialization.to_json(run)
    for value in ("127.0.0.1", "33131", "identity", "a-secret-value"):
        assert value in path.read_text()
        assert value not in written


@pytest.mark.parametrize("name", STAGES)
def test_a_run_is_read_and_reported_with_the_verdicts_it_had(name: str) -> None:
    run = serialization.from_json(Run, DATA / f"run-1-{name}.json")
    assert run.purpose == ("remote-test" if name == "timing-a" else name)
    found = {s.name: str(s.verdict.outcome) for s in run.stages}
    assert found.items() >= STAGES[name].items()
    assert (run.state, run.schema, exit_code(run)) == ("finished", 3, 0)
    assert b"<failure" not in render_junit(run)
    assert render_summary(run).startswith(("# pass: ", "# pass, of case "))


def test_the_figures_of_a_bench_are_read() -> None:
    result = serialization.from_json(BenchResult, DATA / "bench-1.json")
    (pair,) = result.comparisons
    assert (pair.a, pair.b, pair.result.value) == ("quick", "slow", "slower")
    assert {slot.candidate for slot in result.slots} == {0, 1}


def test_a_run_that_is_over_is_collected_from_its_record(tmp_path: Path) -> None:
    folder = put(tmp_path, "remote-test")
    write_manifest(folder)
    assert engine.collect(tmp_path, folder.name).id == folder.name


def test_a_run_that_was_launched_is_judged_from_its_files(tmp_path: Path) -> None:
    """As `collect` does once everything is back: the plan of that version has no build stage."""
    then = raw("run-1-remote-test")
    seen = [s for s in then["stages"] if s["kind"] == "preflight"]
    folder = put(tmp_path, "remote-test", state="launched", stages=seen)
    key = then["provenance"]["builds"]["passes-sm_90a-production"]
    build_in(folder / "build", kernel="passes", key=key, program="greets")
    shutil.copy(DATA / "journal-1-remote-test.jsonl", folder / "journal.jsonl")
    for number, name in enumerate(("program", "again", "after"), 1):
        stage = folder / f"stages/{number:02d}-{name}"
        stage.mkdir(parents=True)
        (stage / "program.stdout.log").write_text("all is well\n")
    run = serialization.from_json(Run, folder / "run.json")
    again = engine.judge(tmp_path, folder, run)
    assert {s.name: s.verdict.outcome for s in again.stages} == {
        name: Outcome.PASS for name in ("preflight", "program", "again", "after")
    }
    kept = serialization.from_json(Run, folder / "run.json")
    assert (kept, kept.schema, exit_code(kept)) == (again, 3, 0)


@pytest.fixture
def timed(tmp_path: Path) -> tuple[Path, list[str]]:
    """A project with two timed runs and the baselines that were made of runs like them."""
    names = []
    for which in ("a", "b"):
        folder = put(tmp_path, f"timing-{which}")
        (folder / "stages/03-timing").mkdir(parents=True)
        shutil.copy(DATA / f"timing-1-{which}.json", folder / "stages/03-timing/timing.json")
        write_manifest(folder)
        names.append(folder.name)
    (tmp_path / FOLDER).mkdir(parents=True)
    shutil.copy(DATA / "baselines-1.json", tmp_path / FOLDER / "nvidia-h200-700w-580.json")
    return tmp_path, names


def test_two_recorded_runs_are_compared(timed: tuple[Path, list[str]]) -> None:
    root, names = timed
    said = recorded.compare(root, names, force=False)
    assert f"{names[1]}: inconclusive compared with {names[0]}" in said


def test_a_recorded_run_is_accepted_into_baselines_of_the_same_version(
    timed: tuple[Path, list[str]],
) -> None:
    root, names = timed
    assert "nvidia" in accepted_times.listing(root).lower()
    overrides = accepted_times.Overrides(dirty=True, unchecked=True, replace=False)
    said = accepted_times.accept(root, names[0], overrides)
    assert said.startswith("artifacts/baselines/nvidia-h200-700w-580.json: told-sm_90a-")
    now = json.loads((root / FOLDER / "nvidia-h200-700w-580.json").read_text())
    assert now["schema"] == 2
