"""The outcome of a whole run: its word, its exit code, and what keeps it from passing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelrig.findings.demangling import readable
from kernelrig.model import (
    Check,
    DeviceKind,
    EndedBy,
    Finding,
    Outcome,
    Run,
    StageKind,
    StageRecord,
    Verdict,
    combine,
)
from kernelrig.terminal.text import one_line

EMULATED = "emulated"
"""What every line and case of an emulated stage says."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that keeps a run from passing, and where in the kernel it is if a tool said so."""

    stage: StageRecord
    verdict: Verdict
    check: Check | None = None
    finding: Finding | None = None

    @property
    def name(self) -> str:
        return f"{self.stage.name} / {self.check.name}" if self.check else self.stage.name

    @property
    def sentence(self) -> str:
        """Return one sentence: of the finding if there is one, as it has the line."""
        if self.finding is None:
            return labelled(self.stage, one_line(f"{self.name}: {self.verdict.summary}"))
        found = describe_finding(self.finding)
        own = self.finding.tool == self.stage.name
        return labelled(self.stage, found if own else f"{self.stage.name}: {found}")


def run_outcome(run: Run) -> Outcome:
    """Join every verdict of the run. A check that fails counts even if its stage passed.

    A kernel that compiled, and a host that passed preflight, say nothing of the kernel as long as
    no other stage passed: a skip. What is missing of the results and never comes is an error.
    """
    outcome = combine(v for stage in run.stages for v in stage_verdicts(stage))
    judging = [s for s in run.stages if s.kind.on_host]
    judging = judging or [s for s in run.stages if s.kind is not StageKind.BUILD]
    nothing = bool(judging) and all(s.verdict.outcome is not Outcome.PASS for s in judging)
    nothing = nothing or was_killed(run)
    if run.missing and run.state == "finished" and outcome is Outcome.PASS:
        return Outcome.ERROR
    return Outcome.SKIP if nothing and outcome is Outcome.PASS else outcome


def was_killed(run: Run) -> bool:
    """Return whether our process was killed before a launch: the stages until then may all pass."""
    return run.state == "prepared" and bool(missing(run))


def is_incomplete(run: Run) -> bool:
    """Return whether results may still be brought back; a run never launched has none.

    Of a finished run nothing more comes, even if something is missing.
    """
    return run.state != "prepared" and bool(_silent(run) or run.state != "finished")


def missing(run: Run) -> tuple[str, ...]:
    """Name what did not come back; a planned stage without a record is missing, never passed."""
    return (*run.missing, *(f"stage {name}: it left no record" for name in _silent(run)))


def _silent(run: Run) -> list[str]:
    recorded = {stage.name for stage in run.stages}
    planned = dict.fromkeys([*(s.name for s in run.plan.stages), *(j.name for j in run.jobs)])
    return [name for name in planned if name not in recorded]


def exit_code(run: Run) -> int:
    """Return what the task exits with: no build 3, fail 1, incomplete 6, unreadable 5, error 4."""
    outcome = run_outcome(run)
    if any(s.kind is StageKind.BUILD and s.verdict.outcome is Outcome.FAIL for s in run.stages):
        return 3
    if outcome is Outcome.FAIL:
        return 1
    if is_incomplete(run):
        return 6
    if outcome is Outcome.PASS:
        return 0
    verdicts = (v for stage in run.stages for v in stage_verdicts(stage))
    return 5 if any(v.unreadable and v.outcome is Outcome.ERROR for v in verdicts) else 4


def run_word(run: Run) -> str:
    """The run in a word or two: `pass`, `pass (1 accepted)`, `fail`, `error`, `incomplete`."""
    outcome = run_outcome(run)
    if outcome is not Outcome.FAIL and is_incomplete(run):
        return "incomplete"
    if outcome is Outcome.SKIP:  # nothing was run, so nothing is known
        return str(Outcome.ERROR)
    return _word(outcome, (c for stage in run.stages for c in stage.checks))


def stage_word(stage: StageRecord) -> str:
    return _word(combine(stage_verdicts(stage)), stage.checks)


def stage_verdicts(stage: StageRecord) -> tuple[Verdict, ...]:
    return (stage.verdict, *(check.verdict for check in stage.checks))


def faults(run: Run) -> tuple[Fault, ...]:
    """Name what went wrong: the kernel's faults first, then errors, each in the plan's order.

    Where all that was to run was skipped, the reasons for that are what went wrong.
    """
    stages, outcomes = run.stages, [Outcome.FAIL, Outcome.ERROR]
    if run_outcome(run) is Outcome.SKIP and not was_killed(run):
        stages = tuple(s for s in stages if s.kind.on_host) or stages
        outcomes = [Outcome.SKIP]
    return tuple(fault for o in outcomes for stage in stages for fault in _stage_faults(stage, o))


def device_label(stage: StageRecord) -> str:
    """`gpu NVIDIA H200`, `cpu hostname`, `emulated` (of any device), or `static`."""
    if stage.device is DeviceKind.EMULATOR:
        return EMULATED
    if stage.device is DeviceKind.STATIC:
        return str(stage.device)
    return f"{stage.device} {one_line(stage.machine) or '(name unknown)'}"


def labelled(stage: StageRecord, text: str) -> str:
    """Return `text` so that no line of an emulated stage can be read as measured."""
    emulated = stage.device is DeviceKind.EMULATOR and not text.startswith(EMULATED)
    return f"{EMULATED}: {text}" if emulated else text


def has_run(stage: StageRecord) -> bool:
    """Return whether the device ran anything: what was lost before its start was not measured."""
    return any(c.ended_by is not EndedBy.NOT_STARTED for c in stage.commands)


def measured(stage: StageRecord) -> str:
    if stage.device is DeviceKind.STATIC:
        return "read from the build, nothing was run"
    if not has_run(stage):
        return "not run on the device"
    return "not measured" if stage.device is DeviceKind.EMULATOR else "measured"


def describe_finding(finding: Finding) -> str:
    """One line: what, in which kernel and line, which threads, the suggested fix, fingerprint."""
    parts = [
        " ".join(filter(None, (finding.tool, finding.kind))) + f": {finding.message}",
        finding.kernel and f"kernel {finding.kernel}",
        finding.at and f"at {finding.at}",
        finding.threads and f"threads {finding.threads}",
        f"{finding.count} times" if finding.count > 1 else "",
        finding.fix and f"suggested fix: {finding.fix}",
        finding.fingerprint and f"fingerprint {finding.fingerprint}",
        finding.accepted and f"accepted: {finding.accepted}",
    ]
    return one_line(readable("; ".join(filter(None, parts))))


def _word(outcome: Outcome, checks: Iterable[Check]) -> str:
    accepted = sum(1 for check in checks for f in check.findings if f.accepted)
    if outcome is Outcome.PASS and accepted:
        return f"{outcome} ({accepted} accepted)"
    return str(outcome)


def _stage_faults(stage: StageRecord, outcome: Outcome) -> Iterable[Fault]:
    """A stage's faults of one kind; what a tool found comes before that it found something."""
    checks = [check for check in stage.checks if check.verdict.outcome is outcome]
    found = [(c, tuple(f for f in c.findings if not f.accepted)) for c in checks]
    for check, findings in found:
        for finding in findings:
            yield Fault(stage, check.verdict, check, finding)
    for check, findings in found:
        if not findings:
            yield Fault(stage, check.verdict, check)
    if stage.verdict.outcome is outcome and not checks:
        yield Fault(stage, stage.verdict)
