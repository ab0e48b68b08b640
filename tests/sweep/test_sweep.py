"""A whole sweep of a CPU program: bad sets are rows, the best one is found, kills lose nothing."""

from __future__ import annotations

import csv
import json
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import Outcome, SweepPhase, SweepResult

from tests.e2e.project import Answer, Project

KERNELS = """\
schema: 4
kernels:
  race:
    cuda: false
    level: 0
    sources: {sm_90a: race.cpp}
    must_print: ^right$
    variants: {production: {program: race}}
    tunables:
      sm_90a:
        DEPTH: {default: 1, values: [1, 2, 3]}
        WIDTH: {default: 1, values: [1, 2]}
"""
REMOTES = "schema: 1\nremotes:\n  local: {kind: embedded, arch: sm_90a}\n"
SWEEP = ("sweep", "--remote", "local")


def make_project(root: Path) -> Project:
    (root / "kernel").mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "race.cpp", root / "kernel")
    (root / "kernel/kernels.yaml").write_text(KERNELS)
    (root / "remotes.yaml").write_text(REMOTES)
    return Project(root, limit_s=280)


def result_of(project: Project) -> SweepResult:
    (path,) = project.root.glob("artifacts/sweeps/*/sweep.json")
    return from_json(SweepResult, path)


def events(project: Project) -> list[dict[str, object]]:
    (path,) = project.root.glob("artifacts/sweeps/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def require_whole(project: Project, answer: Answer) -> None:
    """Every set has one row, each was tried once, and each heat is of a run of its own."""
    assert answer.exit_code == 0, answer.stderr
    result, said = result_of(project), events(project)
    rows = {r.set.name: r for r in result.rows}
    assert len(result.rows) == len(rows) == 6
    tried = Counter(e["id"] for e in said if e["event"] == "set")
    assert sorted(tried.values()) == [1] * 6
    ended = [e["run"] for e in said if e["event"] in ("verified", "heat")]
    assert len(ended) == len(set(ended))
    assert rows["DEPTH=3 WIDTH=2"].phase is SweepPhase.STATIC
    assert "DEPTH 3 needs WIDTH 1" in rows["DEPTH=3 WIDTH=2"].summary
    assert "SIGSEGV" in rows["WIDTH=2"].summary
    for name in ("DEPTH=3 WIDTH=2", "WIDTH=2", "DEPTH=3"):
        assert (rows[name].outcome, rows[name].rank) == (Outcome.FAIL, None)
    assert [r.set.name for r in result.rows[:3]] == ["DEPTH=2 WIDTH=2", "DEPTH=2", "defaults"]
    assert rows["defaults"].standing == "slower"
    assert rows["defaults"].low_percent is not None
    assert (
        rows["defaults"].low_percent < 100 * (1 / 0.93 - 1) < (rows["defaults"].high_percent or 0)
    )


def require_outputs(project: Project) -> None:
    (folder,) = project.root.glob("artifacts/sweeps/*")
    with (folder / "results.csv").open() as f:
        ranked = [r for r in csv.DictReader(f) if r["rank"]]
    assert [(r["DEPTH"], r["WIDTH"]) for r in ranked] == [("2", "2"), ("2", "1"), ("1", "1")]
    with (folder / "samples.csv").open() as f:
        samples = list(csv.DictReader(f))
    slots = {(s["heat"], s["set"], s["round"], s["process"]) for s in samples}
    assert len(samples) == 5 * len(slots)
    patch = (folder / "sweep.patch").read_text()
    assert "-        DEPTH: {default: 1, values: [1, 2, 3]}" in patch
    assert "+        DEPTH: {default: 2, values: [1, 2, 3]}" in patch
    page = (folder / "report.html").read_text()
    assert "DEPTH=2 WIDTH=2" in page
    assert "Main effects" in page


def test_a_sweep_of_another_input_file_is_another_one(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    text = KERNELS.replace("    must_print", "    files: [input.txt]\n    must_print")
    (project.root / "kernel/kernels.yaml").write_text(text)
    for content in ("this", "that", "this"):
        (project.root / "kernel/input.txt").write_text(content)
        answer = project.invoke("sweep", "--set", "DEPTH=1,2")
        assert answer.exit_code == 0, answer.stderr
    first, second = project.root.glob("artifacts/sweeps/*/journal.jsonl")
    assert first.read_text().count('"event": "set"') == 2
    assert second.read_text().count('"event": "set"') == 2


@pytest.mark.long
def test_bad_sets_are_rows_and_the_best_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    answer = project.invoke(*SWEEP)
    require_whole(project, answer)
    require_outputs(project)
    before, runs = events(project), project.runs()
    again = project.invoke(*SWEEP, "--json")
    assert json.loads(again.stdout)["sweep"]["best"] == result_of(project).best
    assert (events(project), project.runs()) == (before, runs)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_killed_clients_lose_nothing_and_double_nothing(tmp_path: Path, seed: int) -> None:
    """A client is killed as soon as the journal has some lines more, until one reaches the end."""
    project = make_project(tmp_path / "project")
    step = 1 + seed
    for _ in range(12):
        with project.start(*SWEEP) as client:
            seen = 0
            while (line := client.process.stderr.readline()) if client.process.stderr else "":
                seen += any(w in line for w in (": started", " of 6:", "run 2", "shipped"))
                if seen > step:
                    client.process.send_signal(signal.SIGKILL)
                    break
        step += 3 + seed
    require_whole(project, project.invoke(*SWEEP))
    require_outputs(project)


@pytest.mark.long
def test_a_sweep_goes_on_elsewhere_and_refuses_other_inputs(tmp_path: Path) -> None:
    first = make_project(tmp_path / "first")
    cut = first.invoke(*SWEEP, "--budget", "0")
    assert cut.exit_code == 6
    assert "the budget of 0 minutes is spent" in cut.stdout
    second = make_project(tmp_path / "second")
    shutil.copytree(first.root / "artifacts/sweeps", second.root / "artifacts/sweeps")
    require_whole(second, second.invoke(*SWEEP))
    (heat, *_) = second.root.glob("artifacts/sweeps/*/heats/001.json")
    heat.write_text(heat.read_text().replace("0.0009", "0.0008"))
    assert second.invoke(*SWEEP).exit_code == 5


@pytest.mark.long
def test_wrong_defaults_end_it_at_once(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    answer = project.invoke(*SWEEP, "--fix", "DEPTH=3")
    assert answer.exit_code == 1
    assert "the set of the defaults ends in fail" in answer.stdout


def test_a_dry_run_compiles_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    answer = project.invoke(*SWEEP, "--dry-run")
    assert answer.stdout.splitlines()[0] == "6 sets of tunables of race for sm_90a"
    assert "minutes of load (estimated)\n" in answer.stdout
    (project.root / "remotes.yaml").write_text(REMOTES.replace("}", ", price_per_hour: 600}"))
    answer = project.invoke(*SWEEP, "--dry-run")
    # 8 slots, and 44 if each set took all its rounds, of 0.96 s each.
    assert "0.1 to 0.7 minutes of load (estimated), 1.28 to 7.04 in all\n" in answer.stdout
    assert not (project.root / "artifacts").exists()
