"""What to do after a run: a step that follows from its verdict, with the command for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from kernelrig.files.rundir import build_folder
from kernelrig.model import (
    Bench,
    BenchVerdict,
    Candidate,
    DeviceKind,
    Outcome,
    Remote,
    Run,
    Stage,
    StageKind,
)
from kernelrig.report.entries import Entry, entries, is_symptom
from kernelrig.report.outcome import is_incomplete, run_outcome
from kernelrig.terminal.text import one_line

RUNS = Path("artifacts/runs")


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command, and what has to be done before it; `before` is empty where nothing has."""

    command: str
    before: str = ""

    @property
    def text(self) -> str:
        return f"{self.before}, then {self.command}" if self.before else self.command


def next_command(run: Run) -> str:
    return next_step(run).command


def next_step(run: Run) -> NextStep:
    """Return the step that follows from the run's verdict."""
    first = next(iter(entries(run)), None)
    if is_incomplete(run) and run.stages:
        return NextStep(f"ci/invoke collect {run.id}")
    if run.fault is not None:
        return _after_fault(run, run.fault.name)
    if run.bench is not None and run.remote is not None:
        return _after_bench(run, run.bench, run.remote)
    if first is None or run_outcome(run) is Outcome.PASS:
        return _after_pass(run) if run.stages else NextStep("ci/invoke doctor")
    return NextStep(_narrowest(run, first), _repair(first))


def _after_pass(run: Run) -> NextStep:
    """Go from what needs nothing to what needs a GPU: check, emulate, remote-test, profile."""
    words = ["--kernel", run.kernel.name, *_variant(run)]
    if run.remote is None and run.plan.name == "emulate":
        return NextStep(_command("remote-test", words))
    if run.remote is None:
        emulated = bool(run.kernel.level) and run.kernel.cuda
        return NextStep(_command("emulate" if emulated else "remote-test", words))
    if run.kernel.cuda and run.remote.device is DeviceKind.EMULATOR:
        return NextStep(
            f"{_command('remote-test', words)} --remote NAME", "choose a GPU of remotes.yaml"
        )
    there = ["--remote", run.remote.name, *words]
    if run.kernel.cuda and all(s.kind is not StageKind.PROFILE for s in run.stages):
        return NextStep(_command("profile", there))
    name = run.kernel.name
    compared = _command("bench", [f"{name}@HEAD", name, "--remote", run.remote.name])
    return NextStep(compared, "change the kernel")


def _after_fault(run: Run, name: str) -> NextStep:
    """A fault that is caught leaves the kernel to emulate; a missed one wants more schedules."""
    words = ["--kernel", run.kernel.name, "--arch", run.arch]
    if run_outcome(run) is Outcome.PASS:
        return NextStep(_command("emulate", words))
    fault = [*words, "--only-fault", name]
    if run_outcome(run) is Outcome.FAIL:
        return NextStep(_command("emulate", [*fault, "--schedules", "16"]))
    first = next(iter(entries(run)), None)
    return NextStep(_command("emulate", fault), _repair(first) if first else "")


def _after_bench(run: Run, bench: Bench, remote: Remote) -> NextStep:
    """An inconclusive comparison needs more time; one that is decided, a look at the loser."""
    names = [_named_again(run, c) for c in bench.candidates]
    compare = _command("bench", [*names, "--remote", remote.name])
    checks = [c for s in run.stages for c in s.checks]
    if any(c.facts.get("word") == BenchVerdict.INCONCLUSIVE for c in checks):
        return NextStep(f"{compare} --minutes 5")
    if run_outcome(run) is not Outcome.PASS:
        first = next(iter(entries(run)), None)
        return NextStep(compare, _repair(first) if first else "")
    last = bench.candidates[-1].kernel.name
    return NextStep(_command("profile", ["--remote", remote.name, "--kernel", last]))


def _repair(entry: Entry) -> str:
    """Name what comes first: the kernel's line to fix, or what kept us from a verdict."""
    if entry.finding is not None and entry.finding.at:
        verb = "start at" if is_symptom(entry.finding) else "fix"
        return f"{verb} {one_line(entry.finding.at)}"
    if entry.fault.verdict.outcome is Outcome.FAIL:
        return f"fix what {one_line(entry.fault.stage.name)} found"
    return f"repair what {one_line(entry.fault.stage.name)} names"


def _narrowest(run: Run, entry: Entry) -> str:
    """Return the shortest run that shows the entry again."""
    words = ["--kernel", run.kernel.name]
    stage = entry.fault.stage
    if stage.kind is StageKind.BUILD:
        known = run.variant in run.kernel.variants
        return _command("build", [*words, *(_variant(run) if known else [])])
    if run.remote is None and run.plan.name == "emulate":
        return _command("emulate", [*words, *_variant(run), "--arch", run.arch, *_case(run, entry)])
    if run.remote is None or stage.kind in (StageKind.CHECK, StageKind.TUNABLES):
        words += ["--arch", run.arch] if run.arch in run.kernel.sources else []
        tunables = stage.kind is StageKind.TUNABLES or run.plan.name == "tunables"
        words += ["--tunables"] if tunables else ["--variant", stage.variant or run.variant]
        return _command("check", words)
    there = ["--remote", run.remote.name, *words, *_variant(run)]
    if stage.kind is StageKind.PROFILE:
        return _command("profile", there)
    there += ["--plan", run.plan.name] if run.plan.name not in ("default", "profile") else []
    # After preflight nothing was run: all of the plan is still to do.
    only = [] if stage.kind is StageKind.PREFLIGHT else ["--only", stage.name]
    return _command("remote-test", [*there, *only])


def _case(run: Run, entry: Entry) -> list[str]:
    """Return the case and pattern of the first stage that shows it: plans start with the small."""
    planned = {stage.name: stage for stage in run.plan.stages}
    stage: Stage | None = planned.get(entry.fault.stage.name)
    if stage is None or not stage.case:
        return []
    pattern = entry.fault.check.facts.get("pattern", "") if entry.fault.check else ""
    return ["--case", stage.case, *(["--pattern", pattern] if pattern else [])]


def _variant(run: Run) -> list[str]:
    several = "+" in run.variant  # a check of all of them
    return ["--variant", run.variant] if not several and run.variant != "production" else []


def _command(task: str, words: list[str]) -> str:
    return f"ci/invoke {task} {shlex.join(words)}"


def _named_again(run: Run, candidate: Candidate) -> str:
    """Name a candidate as `bench` takes it; one of a commit or a folder is kept with the run."""
    name = candidate.name.split("#")[0]
    ours = name.startswith((candidate.kernel.name, "@"))
    return name if ours else f"{name}={build_folder(RUNS / run.id, candidate.place)}"
