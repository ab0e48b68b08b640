"""The outcome of a whole run: its word, its exit code, and what keeps it from passing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelrig.findings.demangling import readable
from kernelrig.model import (
    Check,
    DeviceKind,
    Emulation,
    EndedBy,
    Finding,
    Outcome,
    Pattern,
    Purpose,
    Run,
    StageKind,
    StageRecord,
    Verdict,
    broken,
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
        name = shown_name(self.stage)
        return f"{name} / {self.check.name}" if self.check else name

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

    A run that does not establish what it was for is an error, whatever else has passed in it: a
    kernel that compiled, a host that passed preflight, say nothing of the kernel. So is one of
    whose results something is missing that never comes.
    """
    outcome = combine(v for stage in run.stages for v in stage_verdicts(stage))
    if outcome is Outcome.FAIL:
        return outcome
    lost = bool(run.missing) and run.state == "finished"
    return Outcome.ERROR if lost or was_killed(run) or unestablished(run) else outcome


_ESTABLISHED: Mapping[Purpose, tuple[tuple[StageKind, ...], str]] = {
    Purpose.BUILD: ((StageKind.BUILD,), "nothing was built"),
    Purpose.CHECK: ((StageKind.CHECK, StageKind.TUNABLES), "nothing was checked"),
    Purpose.EMULATE: (
        (StageKind.CHECKSUM, StageKind.SANITIZER, StageKind.FAULT, StageKind.TUNABLES),
        "nothing judged an emulated launch",
    ),
    Purpose.TEST: (
        (StageKind.CHECKSUM, StageKind.EXIT_STATUS, StageKind.SANITIZER),
        "nothing judged the kernel",
    ),
    Purpose.PROFILE: ((StageKind.PROFILE,), "nothing was profiled"),
    Purpose.BENCH: ((StageKind.BENCH,), "nothing was compared"),
    Purpose.SWEEP: (
        (StageKind.CHECKSUM, StageKind.EXIT_STATUS, StageKind.BENCH),
        "no set of tunables was judged",
    ),
}
"""What must have passed for a run to pass: a stage of one of these kinds, by what the run is for.

A time counts only behind a checksum of the same run, so that it judges nothing by itself.
"""


def unestablished(run: Run) -> str:
    """Say what a run without a failure did not establish, empty if it did what it was for."""
    kinds, nothing = _ESTABLISHED[run.purpose]
    if any(stage.kind in kinds and _establishes(stage) for stage in run.stages):
        return ""
    if run.remote is None or run.purpose not in (Purpose.TEST, Purpose.PROFILE, Purpose.BENCH):
        return nothing
    seen = (s for s in run.stages if s.device is not DeviceKind.STATIC and s.machine)
    machine = next((one_line(s.machine) for s in seen), f"remote {run.remote.name}")
    emulated = run.remote.device is DeviceKind.EMULATOR and run.kernel.cuda
    return f"{nothing} on {'the emulator' if emulated else machine}"


def _establishes(stage: StageRecord) -> bool:
    """Return whether a stage passed by a check of its own, of something that was executed."""
    checks = [c for c in stage.checks if c.verdict.outcome is Outcome.PASS]
    if stage.kind is StageKind.BENCH:
        checks = [c for c in checks if "result" in c.facts]
    executed = stage.kind.static or has_run(stage)
    return stage.verdict.outcome is Outcome.PASS and executed and bool(checks)


def was_killed(run: Run) -> bool:
    """Return whether our process was killed before a launch: the stages until then may all pass."""
    return run.state == "prepared" and bool(missing(run))


def is_incomplete(run: Run) -> bool:
    """Return whether results may still be brought back; a run never launched has none.

    Of a finished run nothing more comes, even if something is missing. One that was cancelled has
    not established what it was for, and is to be run again.
    """
    over = run.state == "finished" and not run.cancelled
    return run.state != "prepared" and bool(_silent(run) or not over)


def missing(run: Run) -> tuple[str, ...]:
    """Name what did not come back; a planned stage without a record is missing, never passed."""
    if run.state == "prepared" and not run.stages:
        return (*run.missing, "nothing was launched: its client prepares it, or ended before")
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
    """The run in a word or two: `pass`, `pass (1 accepted)`, `fail`, `error`, `incomplete`.

    What the run was narrowed to is part of it: `pass, of smoke only`.
    """
    outcome = run_outcome(run)
    if outcome is not Outcome.FAIL and is_incomplete(run):
        word = "cancelled" if run.cancelled and run.state == "finished" else "incomplete"
    else:
        word = _word(outcome, (c for stage in run.stages for c in stage.checks))
    return ", of ".join(filter(None, (word, scope(run))))


def scope(run: Run) -> str:
    """Return what the word of the run is of, empty if that is its whole plan.

    Of a plain program that prints no line that is expected, nothing but its exit status was judged.
    """
    if run.only:
        shown = {s.name: run.kernel.judged_as(s.kind).shown(s.name) for s in run.plan.stages}
        return f"{_joined([one_line(shown.get(name, name)) for name in run.only])} only"
    if run.purpose is Purpose.EMULATE and run.plan.name == "emulate":
        left = _left_of_emulation(run)
        return f"{_joined(left)} only" if left else ""
    kinds, _ = _ESTABLISHED[run.purpose]
    judged = {s.kind for s in run.stages if s.kind in kinds and _establishes(s)}
    bare = judged == {StageKind.EXIT_STATUS} and not run.kernel.judges_output
    return "the exit status only" if bare else ""


def _left_of_emulation(run: Run) -> list[str]:
    """Name what an emulation was narrowed to: it has several cases, every pattern and observer, and
    as many schedules as findings that depend on the order of warps need.
    """
    checked = [s for s in run.plan.stages if s.kind is StageKind.CHECKSUM]
    tools = [s.tool for s in run.plan.stages if s.kind is StageKind.SANITIZER]
    patterns = dict.fromkeys(p for s in checked for p in s.patterns)
    return [
        *(f"case {one_line(s.case)}" for s in checked if len(checked) == 1),
        *(f"{p} data" for p in patterns if len(patterns) < len(Pattern)),
        *(t for t in tools if len(tools) < len(_TOOLS)),
        *_fewer_schedules(run.emulation),
        *_other_severities(run.emulation),
    ]


def _fewer_schedules(how: Emulation | None) -> list[str]:
    usual = Emulation()
    if how is None:
        return []
    given = ((how.schedules, usual.schedules), (how.checked_schedules, usual.checked_schedules))
    least = min((have for have, wanted in given if have < wanted), default=0)
    return [f"{least} schedule{'s' if least > 1 else ''} a launch"] if least else []


def _other_severities(how: Emulation | None) -> list[str]:
    """Name rules that were made less than the table says: what counts is narrower."""
    said = how.severities if how else ()
    return [f"severity {one_line(word)}" for word in said if not word.endswith("=error")]


_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def shown_name(stage: StageRecord) -> str:
    """Return a stage's name as reports show it."""
    return stage.kind.shown(stage.name)


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def not_run(run: Run) -> tuple[str, ...]:
    """Name the stages that are recorded, and of which nothing was run."""
    return tuple(one_line(shown_name(s)) for s in run.stages if stage_word(s) == Outcome.SKIP)


def stage_word(stage: StageRecord) -> str:
    word = _word(combine(stage_verdicts(stage)), stage.checks)
    return f"{word} (reused)" if stage.reused_from else word


def reused(run: Run) -> tuple[str, ...]:
    """Name the stages of which nothing was run again."""
    return tuple(one_line(shown_name(s)) for s in run.stages if s.reused_from)


def stage_verdicts(stage: StageRecord) -> tuple[Verdict, ...]:
    return (stage.verdict, *(check.verdict for check in stage.checks))


def faults(run: Run) -> tuple[Fault, ...]:
    """Name what went wrong: the kernel's faults first, then errors, each in the plan's order.

    Where nothing did, and the run yet established nothing, that is what went wrong; the reasons of
    what was skipped follow.
    """
    if (own := own_verdict(run)) is None:
        return _faults(run)
    kinds, _ = _ESTABLISHED[run.purpose]
    judging = (stage for stage in run.stages if stage.kind in kinds or stage.kind.on_host)
    skips = (f for stage in judging for f in _stage_faults(stage, Outcome.SKIP))
    return (Fault(own, own.verdict), *skips)


VERDICT = "verdict"
"""The name under which reports show what a run did not establish."""


def own_verdict(run: Run) -> StageRecord | None:
    """Return the error of a run that went well and established nothing, as a stage's record."""
    if not run.stages or _faults(run) or was_killed(run) or is_incomplete(run):
        return None
    if not (nothing := unestablished(run)):
        return None
    return StageRecord(VERDICT, StageKind.PREFLIGHT, DeviceKind.STATIC, "", broken(nothing), ())


def _faults(run: Run) -> tuple[Fault, ...]:
    bad = (Outcome.FAIL, Outcome.ERROR)
    return tuple(f for o in bad for stage in run.stages for f in _stage_faults(stage, o))


def device_label(stage: StageRecord) -> str:
    """`gpu NVIDIA H200`, `cpu hostname`, `emulated` (of any device), or `static`."""
    if stage.device is DeviceKind.EMULATOR:
        return EMULATED
    if stage.device is DeviceKind.STATIC:
        return str(stage.device)
    return f"{stage.device} {one_line(stage.machine) or '(name unknown)'}"


def describe_devices(run: Run) -> str:
    """Return the devices of a run: `gpu NVIDIA H200`, or `nothing ran`."""
    # A static stage ran on no device: `static` is shown only where no other stage has one.
    ran = [s for s in run.stages if s.device is not DeviceKind.STATIC] or run.stages
    return ", ".join(dict.fromkeys(device_label(s) for s in ran)) or "nothing ran"


def labelled(stage: StageRecord, text: str) -> str:
    """Return `text` so that no line of an emulated stage can be read as measured."""
    emulated = stage.device is DeviceKind.EMULATOR and not text.startswith(EMULATED)
    return f"{EMULATED}: {text}" if emulated else text


def stages_by_gpu(run: Run) -> dict[str, list[str]]:
    """Return the names of the stages that ran on each GPU, by its UUID, where there are several."""
    found: dict[str, list[str]] = {}
    for stage in run.stages:
        if stage.gpu and has_run(stage):
            found.setdefault(stage.gpu, []).append(shown_name(stage))
    return found if len(found) > 1 else {}


def has_run(stage: StageRecord) -> bool:
    """Return whether the device ran anything: what was lost before its start was not measured."""
    never = (EndedBy.NOT_STARTED, EndedBy.HELD_BACK)
    return any(c.ended_by not in never for c in stage.commands)


def measured(stage: StageRecord) -> str:
    if stage.device is DeviceKind.STATIC:
        return "read from the build, nothing was run"
    if not has_run(stage):
        return "not run on the device"
    how = "not measured" if stage.device is DeviceKind.EMULATOR else "measured"
    return f"{how}, in {one_line(stage.reused_from)}" if stage.reused_from else how


def describe_finding(finding: Finding) -> str:
    """One line: what, in which kernel and line, which threads, the suggested fix, fingerprint."""
    parts = [
        " ".join(filter(None, (finding.tool, finding.kind))) + f": {finding.message}",
        finding.kernel and f"kernel {finding.kernel}",
        finding.at and f"at {finding.at}",
        finding.threads and f"threads {finding.threads}",
        finding.times,
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
