"""What to do after a run: a step that follows from its verdict, with the command for it."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import INTERRUPTED
from kernelrig.files.rundir import build_folder
from kernelrig.model import (
    BASELINE_CHECK,
    MORE_MINUTES,
    Bench,
    BenchVerdict,
    Candidate,
    DeviceKind,
    Fault,
    Outcome,
    Purpose,
    RecordedRemote,
    Run,
    Stage,
    StageKind,
    StageRecord,
)
from kernelrig.report.entries import Entry, entries, is_symptom
from kernelrig.report.outcome import VERDICT, is_incomplete, run_outcome, shown_name, was_killed
from kernelrig.terminal.command_name import COMMAND
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
    if run.cancelled and run.state == "finished":
        return NextStep(command_again(run))
    if is_incomplete(run) and run.stages:
        return NextStep(f"{COMMAND} collect {run.id}")
    if was_killed(run) or (run.stages and first and _is_interruption(first)):
        return NextStep(command_again(run))
    if first is not None and first.fault.stage.name == VERDICT:
        return _after_nothing(run)
    if run.fault is not None:
        return _after_fault(run, run.fault, first)
    if run.bench is not None and run.remote is not None:
        return _after_bench(run, run.bench, run.remote, first)
    if first is None or run_outcome(run) is Outcome.PASS:
        return _after_pass(run) if run.stages else NextStep(f"{COMMAND} doctor")
    return _after_failure(run, first)


def command_again(run: Run) -> str:
    """Return the command line that made the run, as it is typed in the project's folder."""
    try:
        words = shlex.split(run.provenance.command_line)[1:]
    except ValueError:  # edited
        words = []
    if words[:1] == ["--root"]:  # put there by ci/invoke
        words = words[2:]
    if not words or not all(map(str.isprintable, words)):
        # Nothing that was typed in one line: shown as it is, a word could look like lines of ours.
        return _command("remote-test", ["--kernel", run.kernel.name])
    return f"{COMMAND} {shlex.join(words)}"


def _is_interruption(entry: Entry) -> bool:
    verdict = entry.fault.verdict
    return verdict.outcome is Outcome.ERROR and verdict.summary.startswith(INTERRUPTED)


def _after_pass(run: Run) -> NextStep:
    """Go from what needs nothing to what needs a GPU: check, emulate, remote-test, profile.

    After a part of the cases or of the stages, as after a repair, all of them follow.
    """
    words = ["--kernel", run.kernel.name, *_variant(run)]
    if run.remote is None and run.plan.name == "emulate":
        cases = {s.case for s in run.plan.stages if s.kind is StageKind.CHECKSUM}
        if len(cases) == 1:
            return NextStep(_command("emulate", [*words, *_arch(run)]))
        return NextStep(_command("remote-test", words))
    if run.remote is None:
        if run.kernel.level and run.kernel.cuda:
            return NextStep(_command("emulate", [*words, *_arch(run)]))
        return NextStep(_command("remote-test", words))
    if run.kernel.cuda and run.remote.device is DeviceKind.EMULATOR:
        return NextStep(
            f"{_command('remote-test', words)} --remote NAME",
            "choose a host with a GPU (remote-add adds one)",
        )
    there = ["--remote", run.remote.name, *words]
    kinds = {s.kind for s in run.plan.stages}
    if run.kernel.cuda and StageKind.PROFILE not in kinds:
        timed = StageKind.TIMING in kinds
        return NextStep(_command("profile" if timed else "remote-test", there))
    name = run.kernel.name
    compared = _command("bench", [f"{name}@HEAD", name, "--remote", run.remote.name])
    return NextStep(compared, f"{'' if run.provenance.commit else 'commit and '}change the kernel")


def _after_nothing(run: Run) -> NextStep:
    """Run the whole plan where a part of it established nothing; else what was skipped says why."""
    if not run.only:
        return NextStep(command_again(run), "resolve why nothing was judged")
    assert run.remote is not None, "--only is of plans that a remote runs"
    plan = ["--plan", run.plan.name] if run.plan.name != "default" else []
    words = ["--remote", run.remote.name, "--kernel", run.kernel.name, *_variant(run), *plan]
    return NextStep(_command("remote-test", words))


def _after_failure(run: Run, first: Entry) -> NextStep:
    """Fix or resolve the first entry, then show it again by the shortest run."""
    stage, check, verdict = first.fault.stage, first.fault.check, first.fault.verdict
    if check is not None and check.name == BASELINE_CHECK and run.remote is not None:
        # The outputs are right and the time is taken: what failed is the comparison of the time.
        if verdict.outcome is Outcome.FAIL:
            there = ["--remote", run.remote.name, "--kernel", run.kernel.name]
            return NextStep(_command("profile", [*there, *_variant(run, stage)]))
        return NextStep(f"{COMMAND} baselines")
    wrong = stage.kind is StageKind.CHECKSUM and verdict.outcome is Outcome.FAIL
    located = first.finding is not None and first.finding.at
    emulated = run.kernel.level and run.kernel.cuda and stage.device is DeviceKind.GPU
    if wrong and emulated and not located:
        # A wrong output of a GPU has no source line; the emulator names the store that wrote it.
        words = ["--kernel", run.kernel.name, *_variant(run, stage), "--arch", run.arch]
        return NextStep(_command("emulate", words))
    return NextStep(_narrowest(run, first), _repair(first))


def _after_fault(run: Run, fault: Fault, first: Entry | None) -> NextStep:
    """Return to the unbroken kernel after a fault that is found; look longer for a missed one."""
    words = ["--kernel", run.kernel.name, "--arch", run.arch]
    if run_outcome(run) is Outcome.PASS:
        return NextStep(_command("emulate", words))
    again = _command("emulate", [*words, "--only-fault", fault.name])
    judged = [s for s in run.stages if s.kind is StageKind.FAULT]
    if any(s.verdict.outcome is Outcome.FAIL for s in judged):
        checks = [c for s in judged for c in s.checks]
        if any(c.findings for c in checks):
            return NextStep(again, f"correct 'shows as' in {fault.name}.patch")
        schedules = next((int(c.facts["schedules"]) for c in checks if "schedules" in c.facts), 4)
        return NextStep(f"{again} --schedules {4 * schedules}")
    return NextStep(again, _repair(first) if first else "")


def _after_bench(run: Run, bench: Bench, remote: RecordedRemote, first: Entry | None) -> NextStep:
    """Measure longer if that decides it; else profile the last candidate, or test a faster one."""
    names = [_named_again(run, c) for c in bench.candidates]
    compare = _command("bench", [*names, "--remote", remote.name])
    if first is not None and not (first.fault.check and "result" in first.fault.check.facts):
        return NextStep(compare, _repair(first))
    stages = [s for s in run.stages if s.kind is StageKind.BENCH]
    checks = {c.name: c for s in stages for c in s.checks}
    longer = [float(c.facts[MORE_MINUTES]) for c in checks.values() if MORE_MINUTES in c.facts]
    if longer:
        spent = sum(s.seconds for s in stages) / 60
        return NextStep(f"{compare} --minutes {math.ceil(spent + max(longer))}")
    a, b = bench.candidates[0], bench.candidates[-1]
    pair = checks.get(f"{b.name} compared with {a.name}")
    result = pair.facts.get("result") if pair else ""
    if result not in (BenchVerdict.FASTER, BenchVerdict.SLOWER):
        return NextStep(compare, "change the kernel")  # no difference that is worth more time
    own = checks.get(b.name)
    untested = own is not None and own.facts.get("checks", "").startswith("outdated")
    task = "remote-test" if result == BenchVerdict.FASTER and untested else "profile"
    return NextStep(_command(task, ["--remote", remote.name, *_build_of(run, b)]))


def _repair(entry: Entry) -> str:
    """Name what comes first: the kernel's line to fix, or the error without a verdict."""
    if entry.finding is not None and entry.finding.at:
        verb = "start at" if is_symptom(entry.finding) else "fix"
        return f"{verb} {one_line(entry.finding.at)}"
    verb = "fix" if entry.fault.verdict.outcome is Outcome.FAIL else "resolve"
    return f"{verb} what stage {one_line(shown_name(entry.fault.stage))} reports"


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
        if run.purpose is Purpose.EMULATE:
            return _command("emulate", [*words, "--tunables"])
        tunables = stage.kind is StageKind.TUNABLES or run.plan.name == "tunables"
        words += ["--tunables"] if tunables else ["--variant", stage.variant or run.variant]
        return _command("check", words)
    there = ["--remote", run.remote.name, *words, *_variant(run)]
    if StageKind.PROFILE in {stage.kind, *(s.kind for s in run.plan.stages)}:
        return _command("profile", there)
    there += ["--plan", run.plan.name] if run.plan.name != "default" else []
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


def _variant(run: Run, stage: StageRecord | None = None) -> list[str]:
    """Return the flag for the variant of the run or of one of its stages; none for production."""
    variant = (stage.variant if stage else "") or run.variant
    several = "+" in variant  # a check of all of them
    return ["--variant", variant] if not several and variant != "production" else []


def _arch(run: Run) -> list[str]:
    """Return the flag for the arch where the kernel has others, which would come first."""
    first = next(iter(run.kernel.sources), run.arch)
    return ["--arch", run.arch] if run.arch in run.kernel.sources and run.arch != first else []


def _command(task: str, words: list[str]) -> str:
    return f"{COMMAND} {task} {shlex.join(words)}"


def _named_again(run: Run, candidate: Candidate) -> str:
    """Name a candidate as `bench` takes it; a build that was given is kept with the run."""
    name = candidate.name.split("#")[0]
    if _is_of_sources(candidate):
        return name
    return f"{name}={build_folder(RUNS / run.id, candidate.place)}"


def _is_of_sources(candidate: Candidate) -> bool:
    """Return whether a candidate was named as a kernel, `KERNEL[:VARIANT][@REV]` or `@REV`."""
    kernel = candidate.name.split("#")[0].partition("@")[0]
    return kernel in ("", candidate.kernel.name, f"{candidate.kernel.name}:{candidate.variant}")


def _build_of(run: Run, candidate: Candidate) -> list[str]:
    """Return the flags that mean a candidate's build: of this tree, or kept with the run."""
    if candidate.commit or not _is_of_sources(candidate):
        return ["--build", str(build_folder(RUNS / run.id, candidate.place))]
    variant = candidate.variant
    more = ["--variant", variant] if variant != "production" else []
    return ["--kernel", candidate.kernel.name, *more]
