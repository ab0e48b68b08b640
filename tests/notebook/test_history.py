"""Every run is in the history, which can be made anew from the runs and says the same then."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import __version__
from kernelrig.cli import ns, project
from kernelrig.cli.program import KernelrigProgram
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import serialization
from kernelrig.model import (
    PROFILE_FIGURES,
    Check,
    Metric,
    Outcome,
    ProfiledLaunch,
    Provenance,
    Purpose,
    RunEntry,
    StageKind,
    Verdict,
    failed,
    passed,
    profile_figures,
)
from kernelrig.notebook import database
from kernelrig.notebook.database import FILE, open_history
from kernelrig.proc import run_process
from kernelrig.run import past_runs
from kernelrig.run.past_runs import Wanted
from kernelrig.run.store import RUNS

from tests.command_server import run_command
from tests.cpu_project import make_cpu_project
from tests.run import test_comparison
from tests.run.test_baselines import put, record

Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Run a command line in a project, and return its exit code and what it printed."""
    monkeypatch.setattr(project, "_chosen", [])

    def run(root: Path, *words: str) -> tuple[int, str]:
        program = KernelrigProgram(__version__, ns, name="kernelrig")
        code = program.exit_code(["kernelrig", "--root", str(root), *words])
        said = capsys.readouterr()
        return code, said.out or said.err

    return run


def dump(root: Path) -> list[str]:
    """Return all that the history holds, as SQL in one order."""
    with closing(sqlite3.connect(root / FILE)) as connection:
        return sorted(connection.iterdump())


def times(root: Path) -> dict[str, float]:
    with open_history(root) as history:
        return {run: o.value for run, o in history.observed(metric="time_ms")}


def made_of(commit: str, dirty: str = "") -> Provenance:
    return Provenance(commit, dirty, "0.1.0", "", "", {}, "")


@pytest.fixture(scope="module")
def runs_of_every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which one run passed, one failed, and one did not compile."""
    root = make_cpu_project(tmp_path_factory.mktemp("history") / "project")

    def call(*words: str) -> int:
        return run_command("--root", root, *words).exit_code

    there = ("--remote", "local", "--plan", "quick")
    assert call("remote-test", "--kernel", "passes", *there) == 0
    assert call("remote-test", "--kernel", "fails", *there) == 1
    source = root / "kernel/cpu_program.cpp"
    text = source.read_text()
    source.write_text("int main( {\n")
    assert call("build", "--kernel", "passes", "--arch", "sm_90a") == 3
    source.write_text(text)
    return root


@pytest.mark.long
def test_each_run_is_recorded_when_it_ends(runs_of_every_kind: Path) -> None:
    with open_history(runs_of_every_kind) as history:  # as the runs left it: nothing is read again
        entries = history.entries()
    assert [(e.task, e.kernel, e.state, e.outcome) for e in reversed(entries)] == [
        ("remote-test", "passes", "finished", "pass"),
        ("remote-test", "fails", "finished", "fail"),
        ("build", "passes", "finished", "fail"),
    ]
    assert entries[-1].word == "pass"
    assert entries[-1].devices.startswith("cpu ")


@pytest.mark.long
def test_a_history_made_anew_equals_what_was_recorded(
    runs_of_every_kind: Path, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    shutil.copytree(runs_of_every_kind, root, symlinks=True, copy_function=shutil.copy2)
    with open_history(root) as history:  # a copied file is another one: its state was not seen
        past_runs.refresh(root, history)
    recorded = dump(root)
    past_runs.rebuild(root)
    assert dump(root) == recorded
    for part in root.glob("artifacts/history.sqlite*"):
        part.unlink()
    past_runs.rebuild(root)
    assert dump(root) == recorded
    original = [line.rpartition(",")[0] for line in dump(runs_of_every_kind)]
    assert [line.rpartition(",")[0] for line in recorded] == original


def test_runs_lists_the_last_first_and_by_what_is_asked(
    runs_of_every_kind: Path, typed: Typed
) -> None:
    code, text = typed(runs_of_every_kind, "runs")
    rows = text.splitlines()
    assert (code, rows[0].split()[:2]) == (0, ["run", "task"])
    assert [row.split()[1] for row in rows[1:]] == ["build", "remote-test", "remote-test"]
    code, text = typed(runs_of_every_kind, "runs", "--verdict", "fail", "--task", "remote-test")
    assert [row.split()[2] for row in text.splitlines()[1:]] == ["fails-sm_90a-production"]
    code, text = typed(runs_of_every_kind, "runs", "--last", "1")
    assert text.splitlines()[-1] == "and 2 earlier: --last 3 shows all"
    code, text = typed(runs_of_every_kind, "runs", "--json")
    assert [r["outcome"] for r in json.loads(text)["runs"]] == ["fail", "fail", "pass"]


def test_show_has_the_verdict_and_exits_with_it(runs_of_every_kind: Path, typed: Typed) -> None:
    code, text = typed(runs_of_every_kind, "show", "fails-local")
    assert code == 1
    assert text.startswith("fail: ")
    assert "this went wrong" in text or "exit" in text
    assert re.search(r"^task +remote-test$", text, re.MULTILINE)
    assert "build fails-sm_90a-production" in text


def test_a_run_that_was_changed_after_its_end_says_nothing(tmp_path: Path, typed: Typed) -> None:
    root = make_cpu_project(tmp_path / "project")
    folder, run = put(root, 1, 0.9)
    path = folder / "run.json"
    path.write_text(path.read_text().replace("c0ffee", "decade"))
    code, text = typed(root, "runs")
    assert (code, "damaged: run.json was changed after the last report" in text) == (0, True)
    assert times(root) == {}
    assert typed(root, "show", run.id)[0] == 5
    path.write_text("{")
    code, text = typed(root, "runs", "--verdict", "damaged")
    assert "is not JSON from line 1 column 2 on" in text
    assert str(root) not in text


def test_what_lies_there_since_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    put(root, 1, 0.9)
    assert past_runs.list_runs(root, Wanted())[0][0].id.endswith("0001")
    _, run = put(root, 2, 0.8)
    assert times(root) == {"20261121T120100Z-patch_embed-h200-0001": 0.9}
    past_runs.trend(root, "time_ms", "", "")
    assert times(root)[run.id] == 0.8


def test_a_removed_run_stays_in_the_history(tmp_path: Path, typed: Typed) -> None:
    root = make_cpu_project(tmp_path / "project")
    folder, run = put(root, 1, 0.9)
    put(root, 2, 0.8)
    past_runs.rebuild(root)
    shutil.rmtree(folder)
    said = past_runs.rebuild(root)
    assert said == f"{FILE}: 1 runs, and 1 whose directories were removed"
    assert times(root)[run.id] == 0.9
    assert f"{run.id} (removed)" in past_runs.list_runs(root, Wanted())[1]
    code, text = typed(root, "show", run.id)
    assert (code, "its directory was removed: this is left" in text) == (0, True)
    assert "0.891 to 0.909" in text
    code, text = typed(root, "show", run.id, "--json")
    assert {o["metric"] for o in json.loads(text)["runs"][0]["observed"]} > {"time_ms", "energy_j"}


def test_a_time_counts_where_a_baseline_would_take_it(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    put(root, 1, 0.9)
    wrong = failed("17 outputs are wrong")
    bad = record(name="checksum", checks=(Check("outputs", wrong),), verdict=wrong)
    put(root, 2, 0.5, stages=(bad, record()))
    error = Verdict(Outcome.ERROR, "it beats the speed of light")
    put(root, 3, 0.1, timing=record(verdict=error, checks=(Check("time", error),)))
    put(root, 4, 0.7, state="incomplete")
    past_runs.rebuild(root)
    assert list(times(root).values()) == [0.9]


def test_a_timing_stage_leaves_its_clocks_and_its_energy(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    _, run = put(root, 1, 2.0)
    past_runs.rebuild(root)
    with open_history(root) as history:
        found = {o.metric: o for _, o in history.observed(run=run.id)}
    time = found["time_ms"]
    assert (time.value, time.low, time.high, time.samples) == (2.0, 1.98, 2.02, 4)
    assert time.host_class == "NVIDIA H200, 700 W, driver 580"
    assert (time.commit, time.regime) == ("c0ffee0123456789", "steady after 1.0 s, random data")
    watt = found["power_w"].value
    assert found["energy_j"].value == pytest.approx(2.0e-3 * watt)


def test_a_bench_leaves_the_time_of_each_candidate_and_the_difference(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / RUNS).mkdir(parents=True)
    folder = root / RUNS / "20261121T120000Z-patch_embed-h200-0000"
    judged = test_comparison.judge(folder)
    ours, theirs = test_comparison.ASKED.candidates
    old = replace(theirs, commit="0" * 40)
    asked = replace(test_comparison.ASKED, candidates=(ours, old))
    put(root, 0, 1.0, stages=(judged,), bench=asked, purpose=Purpose.BENCH, id=folder.name)
    past_runs.rebuild(root)
    with open_history(root) as history:
        found = [(o.metric, o.subject, o) for _, o in history.observed(run=folder.name)]
    by_name = {(metric, subject): o for metric, subject, o in found}
    assert by_name["time_ms", "ours"].value == pytest.approx(1.0, rel=1e-3)
    assert by_name["time_ms", "theirs"].value == pytest.approx(1.02, rel=1e-3)
    change = by_name["change_percent", "theirs"]
    assert (round(change.value, 1), change.unit) == (2.0, "of ours")
    assert change.low < 2 < change.high
    assert (by_name["time_ms", "ours"].commit, change.commit) == ("c0ffee0123456789", "0" * 40)
    assert change.host_class == "NVIDIA H200, 700 W, driver 580"


def test_a_profile_leaves_its_counters_and_no_time(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    verdict = passed("profiled")
    stage = replace(
        record(name="profile", kind=StageKind.PROFILE),
        checks=(Check("profile", verdict, facts={"launch__waves_per_multiprocessor": "2.5"}),),
    )
    folder, run = put(root, 1, 1.0, timing=stage)
    with open_history(root) as history:
        past_runs.refresh(root, history)
        assert [(o.metric, o.value) for _, o in history.observed(stage="profile")] == [
            ("launch__waves_per_multiprocessor", 2.5)
        ]
    name = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    values = {name: Metric(name, 81.5, "%"), "gpu__time_duration.sum": Metric("", 1e6, "ns")}
    empty = Metric("sm__none.sum", None)
    launches = [ProfiledLaunch("gemm", "gemm()", {**values, empty.name: empty})]
    launches.append(ProfiledLaunch("gemm", "gemm()", {name: Metric(name, 82.5, "%")}))
    figures = profile_figures(run.id, "profile", launches)
    (folder / PROFILE_FIGURES).write_text(serialization.to_json(figures))
    past_runs.rebuild(root)
    with open_history(root) as history:
        found = [o for _, o in history.observed(stage="profile")]
    assert [(o.metric, o.value, o.unit) for o in found] == [(name, 82.0, "%")]
    assert (found[0].host_class, found[0].variant) == ("NVIDIA H200", "production")


def test_a_difference_across_environments_is_none(tmp_path: Path) -> None:
    root = tmp_path / "project"
    name = "20261121T120000Z-patch_embed-h200-0000"
    spoil = test_comparison.CARD_OF_600_W
    judged = test_comparison.judge(root / RUNS / name, spoil, force=True)
    put(root, 0, 1.0, stages=(judged,), bench=test_comparison.ASKED, id=name)
    past_runs.rebuild(root)
    with open_history(root) as history:
        assert history.observed(metric="change_percent") == ()
        assert history.observed(metric="time_ms")


def test_history_has_a_median_and_its_spread_for_each_commit_and_class_of_hosts(
    tmp_path: Path, typed: Typed
) -> None:
    root = make_cpu_project(tmp_path / "project")
    for number, ms in enumerate((0.9, 0.93, 0.91)):
        put(root, number, ms)
    there = {"device.driver": "590.1"}
    put(root, 3, 0.8, spoil=there)
    made = made_of("beef00000000")
    put(root, 4, 0.85, provenance=made)
    put(root, 5, 2.0, spoil={"regime": "steady after 0.3 s"})
    code, text = typed(root, "history", "--json")
    document = json.loads(text)
    assert code == 0
    shown = {
        (t["host_class"], t["regime"]): [
            (p["commit"][:4], p["value"], p["low"], p["high"], len(p["runs"])) for p in t["points"]
        ]
        for t in document["trends"]
    }
    regime = "steady after 1.0 s, random data"
    assert shown == {
        ("NVIDIA H200, 700 W, driver 580", regime): [
            ("c0ff", 0.91, 0.9, 0.93, 3),
            ("beef", 0.85, 0.85 * 0.99, 0.85 * 1.01, 1),
        ],
        ("NVIDIA H200, 700 W, driver 590", regime): [("c0ff", 0.8, 0.8 * 0.99, 0.8 * 1.01, 1)],
        ("NVIDIA H200, 700 W, driver 580", "steady after 0.3 s, random data"): [
            ("c0ff", 2.0, 2.0 * 0.99, 2.0 * 1.01, 1)
        ],
    }
    rows = document["text"].splitlines()
    (first,) = [row for row in rows if row.startswith("c0ffee012345") and " 3 " in row]
    assert "0.91" in first
    assert "0.9 to 0.93" in first
    assert "the runs" in first
    bar = first[first.index("|") :]
    assert bar.count("●") == 1
    assert bar.index("├") < bar.index("●") < bar.index("┤")
    assert len(bar) == 42


def test_two_trees_with_changes_are_two_points(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    for number, key in ((1, "aaaa"), (2, "bbbb")):
        made = made_of("c0ffee", dirty="5" * 64)
        put(root, number, 0.9, provenance=made, timing=record(build=key * 4))
    (trend,), text = past_runs.trend(root, "time_ms", "", "")
    assert [p.build for p in trend.points] == ["aaaa" * 4, "bbbb" * 4]
    assert "c0ffee+ aaaaaaaa" in text


def test_a_metric_that_no_run_has_is_refused_with_the_nearest(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    assert past_runs.trend(root, "time_ms", "", "") == ((), "no run has observed time_ms")
    put(root, 1, 0.9)
    with pytest.raises(ConfigError, match="'power'; did you mean 'power_w'\\?"):
        past_runs.trend(root, "power", "", "")


def test_processes_that_begin_and_record_at_once_lose_nothing(tmp_path: Path) -> None:
    """Eight processes create the database and write 20 runs each, while this one reads."""
    root = make_cpu_project(tmp_path / "project")
    code = (
        "import sys; from pathlib import Path; from kernelrig.model import RunEntry;"
        " from kernelrig.notebook.database import open_history\n"
        "for n in range(20):\n"
        "  with open_history(Path(sys.argv[1])) as history:\n"
        "    history.record([(RunEntry(f'{sys.argv[2]}-{n:02d}', kernel='k'), 'seen')])\n"
    )

    def write(name: str) -> str:
        done = run_process([sys.executable, "-c", code, root, name], timeout_s=100)
        return done.stderr if done.exit_code else ""

    names = [f"writer{n}" for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        said = pool.map(write, names)
        while not (root / FILE).exists():
            pass
        with open_history(root) as history:
            history.entries()
        assert list(said) == [""] * 8
    with open_history(root) as history:
        assert set(history.seen()) == {f"{name}-{n:02d}" for name in names for n in range(20)}
    assert list(root.glob("artifacts/.*.part*")) == []


def test_a_history_that_is_in_use_for_too_long_is_named(tmp_path: Path) -> None:
    with open_history(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_history(tmp_path, wait_s=0.01) as history:
            assert history.entries() == ()  # reading waits for nobody
            with pytest.raises(CiError) as caught:
                history.record([(RunEntry("r"), "")])
    assert caught.value.exit_code == 4
    assert caught.value.message == f"{tmp_path / FILE} is in use by another process"


@pytest.mark.parametrize("damage", ["text", "cut", "schema", "row", "table"])
def test_a_damaged_history_is_named_and_made_anew(
    tmp_path: Path, damage: str, typed: Typed
) -> None:
    root = make_cpu_project(tmp_path / "project")
    _, run = put(root, 1, 0.9)
    past_runs.rebuild(root)
    path = root / FILE
    if damage == "text":
        path.write_text("no database\n" * 100)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(
                {
                    "schema": "PRAGMA user_version = 99",
                    "row": "UPDATE run SET id = 'gone', word = x'ff'",
                    "table": "DROP TABLE observed",
                }[damage]
            )
    code, text = typed(root, "history")
    assert (code, "invoke history --rebuild" in text) == (5, True), text
    code, text = typed(root, "history", "--rebuild")
    assert (code, "is kept as history.sqlite.damaged-" in text) == (0, True), text
    assert times(root) == {run.id: 0.9}


def test_a_run_ends_as_it_would_without_a_history(tmp_path: Path, typed: Typed) -> None:
    root = make_cpu_project(tmp_path / "project")
    (root / FILE).mkdir(parents=True)  # where the file would be
    there = ("--remote", "local", "--plan", "quick")
    done = run_command("--root", root, "remote-test", "--kernel", "passes", *there)
    assert (done.exit_code, done.stdout.startswith("pass: ")) == (0, True)
    assert "the notebook does not have all of" in done.stderr
    assert "unable to open database file" in done.stderr


def test_the_tables_have_the_schema_of_their_number() -> None:
    """A column that is added, renamed or removed needs a new number, and a way to it."""
    columns = {
        1: "id started_utc finished_utc task kernel arch variant remote plan devices state outcome"
        " word commit dirty problem | metric value low high unit samples stage subject kernel arch"
        " variant case regime host_class card commit dirty build"
    }
    own = [" ".join(f.name for f in fields) for fields in (database._ENTRY, database._OBSERVED)]
    assert " | ".join(own) == columns[database.SCHEMA]


def test_what_a_host_said_is_escaped_where_it_is_shown(tmp_path: Path) -> None:
    root = make_cpu_project(tmp_path / "project")
    put(root, 1, 0.9, started_utc="2026\x1b[2J", timing=record(machine="\x1b]0;owned\x07"))
    text = past_runs.list_runs(root, Wanted())[1]
    assert "\x1b" not in text
    assert "\x07" not in text
    text = past_runs.trend(root, "time_ms", "", "")[1]
    assert "\x1b" not in text
