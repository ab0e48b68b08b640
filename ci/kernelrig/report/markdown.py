"""summary.md: a run in ten lines, the verdict first and the next command last."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kernelrig.files.rundir import build_folder
from kernelrig.model import (
    BASELINE_CHECK,
    Bench,
    Candidate,
    Check,
    DeviceKind,
    Outcome,
    Remote,
    Run,
    StageKind,
    StageRecord,
)
from kernelrig.report.outcome import (
    EMULATED,
    describe_finding,
    device_label,
    faults,
    has_run,
    is_incomplete,
    measured,
    missing,
    run_outcome,
    run_word,
    stage_word,
)
from kernelrig.terminal.text import markdown, markdown_code


def render_summary(run: Run) -> str:
    """Render the ten lines. Every label derives from the records, never from what was asked for."""
    emulated = f" ({EMULATED})" if any(s.device is DeviceKind.EMULATOR for s in run.stages) else ""
    what = f"{markdown(run.kernel.name)}, {run.arch}, {markdown(run.variant)}{emulated}"
    lines = [
        f"# {run_word(run)}: {what}",
        _item("first fault", _first_fault(run)),
        _item("ran on", _where(run)),
        _item("stages", _stages(run)),
        _item("checks", _checks(run)),
        _item("accepted", _accepted(run)),
        _item("timing", _timing(run)),
        _item("missing", _missing(run)),
        _item("built from", _origin(run)),
        _item("next", markdown_code(next_command(run))),
    ]
    return "\n".join(lines) + "\n"


def next_command(run: Run) -> str:
    """Say what brings a person further from here."""
    first = next(iter(faults(run)), None)
    if first and first.stage.kind is StageKind.BUILD:
        words = ["--kernel", run.kernel.name]
        words += ["--variant", run.variant] if run.variant in run.kernel.variants else []
        return f"ci/invoke build {shlex.join(words)}"
    if run.remote is None and run.plan.name in ("emulate", "fault"):
        return _next_emulation(run)
    if run.remote is None or (first and first.stage.kind is StageKind.CHECK):
        return _next_check(run, first.stage if first else None)
    if run.bench is not None:
        return _next_bench(run, run.bench, run.remote)
    words = ["--remote", run.remote.name, "--kernel", run.kernel.name]
    words += ["--variant", run.variant] if run.variant != "production" else []
    profile = f"ci/invoke profile {shlex.join(words)}"
    words += ["--plan", run.plan.name] if run.plan.name not in ("default", "profile") else []
    again = f"ci/invoke remote-test {shlex.join(words)}"
    if is_incomplete(run):
        return f"ci/invoke collect {run.id}"
    if run_outcome(run) is Outcome.PASS:
        profiled = any(stage.kind is StageKind.PROFILE for stage in run.stages)
        on_gpu = run.kernel.cuda and run.remote.device is DeviceKind.GPU
        return profile if on_gpu and not profiled else again
    if first is None:
        return "ci/invoke doctor"
    if first.stage.kind is StageKind.PREFLIGHT:  # mended on the host, and then all of it again
        return again
    if first.stage.kind is StageKind.PROFILE:
        return profile
    return f"{again} --only {shlex.quote(first.stage.name)}"


def _next_check(run: Run, first: StageRecord | None) -> str:
    """Go on from a verdict that took no host: to the host, or to the same question once more."""
    words = ["--kernel", run.kernel.name]
    if first is None:
        return f"ci/invoke remote-test {shlex.join(words)}"
    words += ["--arch", run.arch] if run.arch in run.kernel.sources else []
    words += ["--tunables"] if run.plan.name == "tunables" else ["--variant", first.variant]
    return f"ci/invoke check {shlex.join(words)}"


def _next_emulation(run: Run) -> str:
    """Go on from an emulation that found nothing to a GPU; else look at it once more."""
    words = ["--kernel", run.kernel.name]
    words += ["--variant", run.variant] if run.variant != "production" else []
    if run.plan.name == "fault":
        name = run.fault.name if run.fault else run.plan.stages[0].name
        return f"ci/invoke emulate {shlex.join([*words, '--only-fault', name])}"
    if run_outcome(run) is Outcome.PASS:
        return f"ci/invoke remote-test {shlex.join(words)}"
    words += ["--arch", run.arch]
    return f"ci/invoke emulate {shlex.join(words)}"


def _next_bench(run: Run, bench: Bench, remote: Remote) -> str:
    """Compare again: what was given, or is of a commit, lies in the run's own folder."""
    if is_incomplete(run):
        return f"ci/invoke collect {run.id}"
    names = [_named_again(run, c) for c in bench.candidates]
    return f"ci/invoke bench {shlex.join(names)} --remote {shlex.quote(remote.name)}"


def _named_again(run: Run, candidate: Candidate) -> str:
    name = candidate.name.split("#")[0]
    ours = name.startswith((candidate.kernel.name, "@"))
    folder = build_folder(Path("artifacts/runs") / run.id, candidate.place)
    return name if ours else f"{name}={folder}"


def _item(name: str, text: str) -> str:
    return f"- **{name}**: {text}"


def _first_fault(run: Run) -> str:
    found = faults(run)
    if not found and run.stages:
        return "none so far" if is_incomplete(run) else "none"
    if not found:
        return "no stage left a record"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{markdown(found[0].sentence)}{more}"


def _where(run: Run) -> str:
    """Name the devices that answered."""
    seen = dict.fromkeys(f"{device_label(s)}, {measured(s)}" for s in run.stages if has_run(s))
    nothing = "no stage was run" if run.remote else "the builds were read, nothing was run"
    where = "; ".join(markdown(label) for label in seen) or f"no device: {nothing}"
    driver = run.host.driver if run.host else ""
    details = [
        f"remote {markdown(run.remote.name)}" if run.remote else "",
        driver and f"driver {markdown(driver)}",
        f"{run.started_utc} to {run.finished_utc or 'unknown'}",
    ]
    return f"{where}; {', '.join(filter(None, details))}"


def _stages(run: Run) -> str:
    """Name each stage with its word; one of another variant than the run's with that as well."""
    named = ((s, "" if s.variant in ("", run.variant) else f" ({s.variant})") for s in run.stages)
    return ", ".join(f"{markdown(s.name + v)} {stage_word(s)}" for s, v in named) or "none"


def _checks(run: Run) -> str:
    counts = Counter(str(c.verdict.outcome) for s in run.stages for c in s.checks)
    words = ("pass", "fail", "error", "skip")
    notes = dict.fromkeys(note for s in run.stages for note in s.notes)
    said = "; ".join(markdown(note) for note in notes)
    return ", ".join(f"{counts[word]} {word}" for word in words) + (f"; {said}" if said else "")


def _accepted(run: Run) -> str:
    found = [f for s in run.stages for c in s.checks for f in c.findings if f.accepted]
    return "; ".join(markdown(describe_finding(f)) for f in found) or "none"


def _timing(run: Run) -> str:
    """The figure with what it was taken on: a stand-in's or an emulator's time is called that."""
    if run.bench is not None:
        compared = [s for s in run.stages if s.kind is StageKind.BENCH]
        return "; ".join(markdown(_compared(s)) for s in compared) or "not in this run"
    stages = [s for s in run.stages if s.kind is StageKind.TIMING]
    if not stages:
        return "not in this run"
    return "; ".join(_timing_of(stage, run.kernel.label_for(run.arch)) for stage in stages)


def _compared(stage: StageRecord) -> str:
    said = [f"{c.name} {c.verdict.summary}" for c in stage.checks if "result" in c.facts]
    stale = [c.name for c in stage.checks if c.facts.get("checks", "").startswith("outdated")]
    if not said:
        return f"{stage_word(stage)}: {stage.verdict.summary}"
    told = f" ({device_label(stage)}, {measured(stage)})"
    return "; ".join(said) + told + (f"; outdated: {', '.join(stale)}" if stale else "")


def _timing_of(stage: StageRecord, label: str) -> str:
    facts = [_fact(stage.checks, name) for name in ("median", "throughput", "samples", "regime")]
    if not has_run(stage) or not any(value for _, value in facts):
        return markdown(f"{stage_word(stage)}: {stage.verdict.summary}")
    said = ", ".join(f"{name} {value}" for name, value in facts if value)
    # What the binary says of itself counts: kernels.yaml may be newer than the build.
    _, own = _fact(stage.checks, "label")
    beside = (c.verdict.summary for c in stage.checks if c.name == BASELINE_CHECK)
    _, checks = _fact(stage.checks, "checks")
    stale = checks if checks.startswith("outdated") else ""
    tail = "".join(f"; {text}" for text in (own or label, *beside, stale) if text)
    return markdown(f"{stage_word(stage)}: {said} ({device_label(stage)}, {measured(stage)}){tail}")


def _fact(checks: Iterable[Check], name: str) -> tuple[str, str]:
    return name, next((c.facts[name] for c in checks if name in c.facts), "")


def _missing(run: Run) -> str:
    absent = [*missing(run), *_not_run(run)]
    return "; ".join(markdown(reason) for reason in absent) or "nothing"


def _not_run(run: Run) -> Iterable[str]:
    """Stages that were skipped, grouped by their reason: most share one."""
    reasons: dict[str, list[str]] = {}
    for stage in run.stages:
        if stage_word(stage) == "skip":
            reasons.setdefault(stage.verdict.summary, []).append(stage.name)
    return (f"{', '.join(names)} not run: {reason}" for reason, names in reasons.items())


def _origin(run: Run) -> str:
    p = run.provenance
    changed = f" with changes {p.dirty_sha256[:12]}" if p.dirty_sha256 else ""
    commit = f"commit {p.commit[:12]}{changed}" if p.commit else "no git commit"
    builds = ", ".join(f"{name} {key[:12]}" for name, key in p.builds.items())
    return markdown("; ".join(filter(None, (commit, builds and f"builds {builds}", p.toolchain))))
