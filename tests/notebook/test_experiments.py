"""Experiments: checked files, verdicts that follow from figures, conditions that open again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig import __version__
from kernelrig.cli import ns, project
from kernelrig.cli.program import KernelrigProgram
from kernelrig.config.experiment_file import (
    FOLDER,
    ExperimentFile,
    load_experiments,
    render,
    write_experiment,
)
from kernelrig.errors import ConfigError
from kernelrig.files import serialization
from kernelrig.model import (
    Check,
    Decision,
    DeviceKind,
    ExperimentState,
    Plan,
    Purpose,
    Rank,
    Run,
    Size,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    passed,
)
from kernelrig.run import engine, experiments, past_runs
from kernelrig.run.notebook_entries import announce, read_experiments
from kernelrig.run.store import RUNS, RunDirectory

from tests.run import test_comparison
from tests.run.test_baselines import accept, put

REPOSITORY = Path(__file__).parents[2]
Typed = Callable[..., tuple[int, str]]

KERNELS = """\
schema: 1
kernels:
  patch_embed:
    kernel_regex: patch_embed_gemm
    sources: {sm_90a: k.cu, sm_100a: k.cu}
    variants: {production: {program: siglip_vision}, staged: {program: siglip_staged}}
    cases: {smoke: {images: 1}, full: {images: 7}}
    shape: {rows_per_image: 196, n: 768, k: 768}
"""
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel/k.cu").write_text("// a kernel\n")
    (folder / "kernel/kernels.yaml").write_text(KERNELS)
    (folder / "remotes.yaml").write_text("schema: 1\nremotes:\n")
    return folder


@pytest.fixture
def typed(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.setattr(project, "_chosen", [])

    def run(*words: str) -> tuple[int, str]:
        program = KernelrigProgram(__version__, ns, name="kernelrig")
        code = program.exit_code(["kernelrig", "--root", str(root), *words])
        said = capsys.readouterr()
        return code, said.out or said.err

    return run


def new(typed: Typed, name: str, rule: str, *flags: str) -> None:
    words = ("--arch", "sm_90a", "--hypothesis", "it gets faster", "--rule", rule, *flags)
    code, text = typed("experiment", "new", name, *words)
    assert code == 0, text


def bench(root: Path, number: int = 0) -> str:
    """Leave a finished bench on file in which `theirs` takes 2% longer than `ours`."""
    name = f"20261121T12{number:02d}00Z-patch_embed-h200-00{number:02d}"
    judged = test_comparison.judge(root / RUNS / name)
    asked = test_comparison.ASKED
    put(root, number, 1.0, stages=(judged,), bench=asked, purpose=Purpose.BENCH, id=name)
    return name


def profile(root: Path, number: int, **metrics: float) -> str:
    """Leave a finished profile on file with these metrics."""
    facts = {name: f"{value} %" for name, value in metrics.items()}
    verdict = passed("profiled")
    stage = StageRecord(
        "profile",
        StageKind.PROFILE,
        DeviceKind.GPU,
        "NVIDIA H200",
        verdict,
        (Check("profile", verdict, facts=facts),),
        variant="production",
    )
    plan = Plan("profile", (Stage("profile", StageKind.PROFILE),))
    jobs = (StageJob("profile", StageKind.PROFILE, ()),)
    changes: dict[str, Any] = {
        "stages": (stage,),
        "plan": plan,
        "jobs": jobs,
        "purpose": Purpose.PROFILE,
    }
    return put(root, number, 1.0, **changes)[1].id


def test_a_new_experiment_is_a_file_that_says_what_was_typed(root: Path, typed: Typed) -> None:
    code, text = typed(
        *("experiment", "new", "evict-first", "--arch", "sm_90a", "--title", "A: evict_first"),
        *("--hypothesis", 'A is read once: "it" need not stay', "--expect", "-5..-2"),
        *("--effort", "low", "--risk", "high", "--rank", "could try", "--case", "full"),
        *("--rule", "change_percent < -1"),
    )
    assert (code, text.splitlines()[0]) == (
        0,
        "kernel/experiments/evict-first.md written; `ci/invoke experiment close evict-first"
        " --result RUN` judges it",
    )
    e = load_experiments(root)["evict-first"].experiment
    assert (e.title, e.kernel, e.arch, e.case) == (
        "A: evict_first",
        "patch_embed",
        "sm_90a",
        "full",
    )
    assert (e.hypothesis, e.expected_percent) == ('A is read once: "it" need not stay', (-5, -2))
    assert (e.effort, e.risk, e.rank) == (Size.LOW, Size.HIGH, Rank.COULD_TRY)
    assert (e.state, e.verdict, e.metric) == (ExperimentState.OPEN, None, "time_ms")
    assert (root / FOLDER / "evict-first.md").read_text().startswith("---\nschema: 1\n")
    code, text = typed("experiment", "new", "evict-first", "--hypothesis", "x", "--rule", "1 > 2")
    assert (code, text) == (
        2,
        "there is kernel/experiments/evict-first.md already; choose another name\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("new a", "a new experiment needs --hypothesis and --rule"),
        ("new", "`experiment new` takes the NAME of one experiment, not 0"),
        ("", "experiment needs ACTION"),
        ("open a", "unknown action 'open' of experiment; known: close, list, new, park"),
        ("new a b --rule x", "`experiment new` takes the NAME of one experiment, not 2"),
        ("list a", "`experiment list` takes no name, not 1"),
        ("new ../a --hypothesis h --rule x>1", "'../a' cannot be a name"),
        ("new a --hypothesis h --rule x>1 --effort huge", "--effort must be one of low, medium, "),
        (
            "new a --hypothesis h --rule x>1 --expect 5",
            "--expect is an estimate in percent, as -5.",
        ),
        ("new a --hypothesis h --rule x>1 --arch sm_80", "unknown arch 'sm_80' of patch_embed"),
        ("new a --hypothesis h --rule x>1 --case ful", "did you mean 'full'?"),
        ("new a --hypothesis h --rule x+1", "'rule': 'x+1' is a number, not true or false"),
        ("new a --hypothesis h --rule x>1 --reopen y>1", "`experiment new` takes no --reopen"),
        ("list --why x", "`experiment list` takes no --why"),
        ("close a", "no experiment 'a' in kernel/experiments"),
        ("list --state parkd", "did you mean 'parked'?"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(typed: Typed, words: str, said: str) -> None:
    code, text = typed("experiment", *words.split())
    assert (code, said in text) == (2, True), text


FRONT = """\
---
schema: 1
title: t
kernel: patch_embed
arch: sm_90a
state: open
rank: should try
hypothesis: h
metric: time_ms
rule: time_ms < 1
effort: low
risk: low
---
text
"""


@pytest.mark.parametrize(
    ("old", "put_in", "said"),
    [
        ("---\n", "", "1: no front matter: keys between a first line '---' and another"),
        ("rank: should try", "rank: soon", "7: 'rank' must be one of should try, could try"),
        ("title: t\n", "", "missing key 'title'"),
        ("risk: low", "risc: low", "12: unknown key 'risc'; known keys: arch, baseline"),
        ("risk: low", "risk: low\nname: x", "13: unknown key 'name': it is the file's own"),
        ("kernel: patch_embed", "kernel: patch_embd", "did you mean 'patch_embed'?"),
        ("arch: sm_90a", "arch: sm_80", "patch_embed has no arch 'sm_80'"),
        ("rule: time_ms < 1", "rule: time_ms <", "10: 'rule': a number or a name is missing"),
        ("state: open", "state: parked", "6: a parked experiment needs 'reopen'"),
        ("risk: low", "risk: low\nreopen: x > 1", "13: 'reopen' is of a parked experiment"),
        ("risk: low", "risk: low\nverdict: go", "13: 'verdict' is of a closed experiment"),
        ("state: open", "state: closed", "6: a closed experiment needs 'verdict'"),
        ("risk: low", "risk: low\nexpected_percent: [2, 1]", "is the least, then the most"),
        ("risk: low", "risk: low\nrisk: low", "13: duplicate key 'risk'; first on line 12"),
        ("schema: 1", "schema: 2", "'schema' must be 1, not 2"),
        ("metric: time_ms", "metric: ''", "9: 'metric' is empty"),
    ],
)
def test_a_mistake_in_a_front_matter_is_named_with_its_line(
    root: Path, old: str, put_in: str, said: str
) -> None:
    (root / FOLDER).mkdir()
    (root / FOLDER / "a.md").write_text(FRONT.replace(old, put_in, 1))
    with pytest.raises(ConfigError) as caught:
        load_experiments(root)
    assert caught.value.message.startswith("kernel/experiments/a.md:")
    assert said in caught.value.message


def test_a_file_is_read_as_it_was_written(root: Path) -> None:
    (root / FOLDER).mkdir()
    (root / FOLDER / "a.md").write_text(FRONT)
    file = load_experiments(root)["a"]
    assert file.body == "text"
    odd = 'yes: # "no" \\ [1] \u2028 é'
    changed = ExperimentFile(
        replace(file.experiment, title=odd, hypothesis=f"1.5 {odd}"), "b\n---\nc"
    )
    write_experiment(root, changed)
    assert load_experiments(root)["a"] == changed
    assert render(changed) == (root / FOLDER / "a.md").read_text()


def test_a_bench_decides_by_its_interval(root: Path, typed: Typed) -> None:
    run = bench(root)
    rules = {
        "go": ("change_percent > 1", 0),
        "no-go": ("change_percent < -1", 1),
        "inconclusive": ("change_percent < 2.0", 0),
    }
    for verdict, (rule, code) in rules.items():
        new(typed, verdict, rule)
        found, text = typed("experiment", "close", verdict, "--result", run)
        assert (found, text.partition(":")[0]) == (code, verdict), text
    files = read_experiments(root)
    assert {name: str(f.experiment.verdict) for name, f in files.items()} == {n: n for n in rules}
    e = files["no-go"].experiment
    assert (e.state, e.rank, e.result) == (ExperimentState.CLOSED, Rank.RULED_OUT, run)
    assert e.commit == "c0ffee0123456789"
    low, high = e.observed["change_percent"]  # type: ignore[misc]
    assert low < 2 < high
    assert {"time_ms", "baseline.time_ms"} < set(e.observed)
    assert f"of run {run}." in files["no-go"].body


def test_a_metric_that_the_run_has_not_is_exit_5_and_changes_nothing(
    root: Path, typed: Typed
) -> None:
    run = bench(root)
    new(typed, "a", f"{DRAM} > 80 and change_percent < 0")
    before = (root / FOLDER / "a.md").read_text()
    code, text = typed("experiment", "close", "a", "--result", run)
    assert code == 5
    assert text.startswith(f"there is no number for '{DRAM}', which ")
    assert (root / FOLDER / "a.md").read_text() == before


def test_two_runs_differ_only_by_the_spread_of_their_baseline(root: Path, typed: Typed) -> None:
    """Samples of one process agree to 1%: that says nothing of another process."""
    _, a = put(root, 20, 1.0)
    _, b = put(root, 21, 0.95)
    new(typed, "a", "time_ms < baseline.time_ms", "--baseline", a.id)
    code, text = typed("experiment", "close", "a", "--result", b.id)
    assert code == 0
    assert text.startswith("inconclusive: a stays open: how much runs on NVIDIA H200, 700 W")
    assert read_experiments(root)["a"].experiment.state is ExperimentState.OPEN
    accept(root, (1.0, 1.002, 0.999))
    new(typed, "near", "time_ms < baseline.time_ms")
    _, c = put(root, 22, 0.995)
    code, text = typed("experiment", "close", "near", "--result", c.id, "--baseline", a.id)
    assert (code, text.partition(":")[0]) == (0, "inconclusive")
    code, text = typed("experiment", "close", "a", "--result", b.id)
    assert (code, text.partition(":")[0]) == (0, "go"), text
    e = read_experiments(root)["a"].experiment
    assert (e.baseline, e.result) == (a.id, b.id)


def test_runs_of_two_hosts_are_not_compared(root: Path, typed: Typed) -> None:
    _, a = put(root, 1, 1.0)
    _, b = put(root, 2, 0.5, spoil={"device.uuid": "GPU-other"})
    new(typed, "a", "time_ms < baseline.time_ms", "--baseline", a.id)
    code, text = typed("experiment", "close", "a", "--result", b.id)
    assert (code, "they differ in" in text) == (2, True)


def test_a_profile_decides_by_its_metrics(root: Path, typed: Typed) -> None:
    before, after = profile(root, 1, **{DRAM: 40.0}), profile(root, 2, **{DRAM: 85.0})
    new(typed, "a", f"{DRAM} > 2 * baseline.{DRAM}", "--metric", DRAM)
    code, text = typed("experiment", "close", "a", "--baseline", before, "--result", after)
    assert (code, text.partition(":")[0]) == (0, "go")
    observed = read_experiments(root)["a"].experiment.observed
    assert observed == {f"baseline.{DRAM}": 40.0, DRAM: 85.0}


def test_a_verdict_that_its_figures_do_not_give_is_refused(root: Path, typed: Typed) -> None:
    new(typed, "a", "change_percent < -1")
    typed("experiment", "close", "a", "--result", bench(root))
    path = root / FOLDER / "a.md"
    path.write_text(path.read_text().replace("verdict: no-go", "verdict: go"))
    code, text = typed("experiment", "list")
    assert code == 2
    assert text.startswith(
        "experiment a says 'go', and its rule 'change_percent < -1' says 'no-go'"
    )


def test_a_closed_experiment_is_closed(root: Path, typed: Typed) -> None:
    run = bench(root)
    new(typed, "a", "change_percent < -1")
    typed("experiment", "close", "a", "--result", run)
    for words in (("close", "a", "--result", run), ("park", "a", "--reopen", "x > 1")):
        code, text = typed("experiment", *words)
        assert (code, "was closed on" in text) == (2, True)


def test_a_parked_experiment_is_opened_again_by_the_run_that_fulfils_its_condition(
    root: Path, typed: Typed
) -> None:
    new(typed, "a", "change_percent < -1")
    code, text = typed("experiment", "park", "a", "--reopen", f"{DRAM} > 80", "--why", "not bound")
    assert (code, text) == (
        0,
        f"kernel/experiments/a.md: parked; a run with {DRAM} > 80 opens it again\n",
    )
    low, high = profile(root, 1, **{DRAM: 40.0}), profile(root, 2, **{DRAM: 85.0})
    lines = {name: announce(root, past_runs.read_entry(root / RUNS / name)) for name in (low, high)}
    assert lines == {
        low: (),
        high: (f"experiment a can be opened again: {DRAM} > 80 ({DRAM} = 85)",),
    }
    past_runs.rebuild(root)
    assert (
        f"a can be opened again: {DRAM} > 80 ({DRAM} = 85 in {high})"
        in typed("experiment", "list")[1]
    )
    profile(root, 3, **{DRAM: 50.0})  # the last run that has the metric counts
    past_runs.rebuild(root)
    assert "can be opened again" not in typed("experiment", "list")[1]


def test_a_run_of_another_build_opens_nothing(root: Path, typed: Typed) -> None:
    words = ("--arch", "sm_100a", "--hypothesis", "h", "--rule", "x > 1")
    assert typed("experiment", "new", "a", *words)[0] == 0
    typed("experiment", "park", "a", "--reopen", f"{DRAM} > 80")
    name = profile(root, 1, **{DRAM: 85.0})
    assert announce(root, past_runs.read_entry(root / RUNS / name)) == ()


def test_the_engine_says_what_is_opened_and_what_is_wrong_with_the_notebook(
    root: Path, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    new(typed, "a", "change_percent < -1")
    typed("experiment", "park", "a", "--reopen", f"{DRAM} > 80")
    folder = root / RUNS / profile(root, 1, **{DRAM: 85.0})
    run = serialization.from_json(Run, folder / "run.json")
    engine._remember(RunDirectory(root, folder, run))
    assert f"experiment a can be opened again: {DRAM} > 80" in capsys.readouterr().err
    (root / FOLDER / "b.md").write_text("no front matter")
    engine._remember(RunDirectory(root, folder, run))
    said = capsys.readouterr().err
    assert f"the notebook does not have all of {run.id}: kernel/experiments/b.md:1: no fr" in said


def test_list_is_the_history_of_what_was_tried(root: Path, typed: Typed) -> None:
    new(typed, "tried", "change_percent < -1")
    typed("experiment", "close", "tried", "--result", bench(root))
    new(typed, "soon", "time_ms < 1", "--expect", "-3..-1")
    new(typed, "late", "time_ms < 1", "--rank", "last resort")
    new(typed, "off", "time_ms < 1")
    typed("experiment", "park", "off", "--reopen", "registers > 200")
    code, text = typed("experiment", "list", "--json")
    document = json.loads(text)
    assert code == 0
    states = {e["name"]: e["state"] for e in document["experiments"]}
    assert states == {"late": "open", "off": "parked", "soon": "open", "tried": "closed"}
    closed, opened, parked = (part.splitlines() for part in document["text"].split("\n\n"))
    assert closed[1].split()[-1] == "no-go"
    assert [row.split()[2] for row in opened[1:2]] == ["soon"]
    assert "time_ms -3 to -1%" in opened[1]
    assert "not estimated" in opened[2]
    assert "registers > 200" in parked[1]
    code, text = typed("experiment", "list", "--state", "parked")
    assert [line.split()[2] for line in text.splitlines()[1:]] == ["off"]


def test_the_notebook_of_this_repository_is_consistent() -> None:
    files = read_experiments(REPOSITORY)
    tried = [f.experiment for f in files.values() if f.experiment.state is ExperimentState.CLOSED]
    parked = [f.experiment for f in files.values() if f.experiment.state is ExperimentState.PARKED]
    on_gpus = [e for e in tried if e.arch == "sm_90a"]
    assert len(on_gpus) == 14
    assert {e.verdict for e in on_gpus} == set(Decision)
    assert all("driver 580.159.04" in e.source for e in on_gpus)
    assert len([e for e in parked if e.arch == "sm_100a"]) >= 2
    assert experiments.listing(REPOSITORY, state="closed")[1].count("\n") == len(tried)
