"""summary.md: a run in ten lines, the verdict first and the next step last; then every cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kernelrig.model import (
    BASELINE_CHECK,
    Check,
    DeviceKind,
    Run,
    StageKind,
    StageRecord,
)
from kernelrig.report.entries import Entry, entries
from kernelrig.report.next_step import next_step
from kernelrig.report.outcome import (
    EMULATED,
    describe_finding,
    device_label,
    has_run,
    is_incomplete,
    measured,
    missing,
    run_word,
    shown_name,
    stage_word,
    stages_by_gpu,
)
from kernelrig.report.screen import entry_lines, source_text
from kernelrig.terminal.text import markdown, markdown_code

LEAST_KNOWN = 0.95
"""Of a run's time for which there must be samples for a share of all of it."""


def render_summary(run: Run) -> str:
    """Render the ten lines, then the causes. Labels derive from the records, not from the plan."""
    found = entries(run)
    emulated = f" ({EMULATED})" if any(s.device is DeviceKind.EMULATOR for s in run.stages) else ""
    what = f"{markdown(run.kernel.name)}, {markdown(run.arch)}, {markdown(run.variant)}{emulated}"
    lines = [
        f"# {markdown(run_word(run))}: {what}",
        _item("first cause", _first_cause(run, found)),
        _item("ran on", _where(run)),
        _item("stages", _stages(run)),
        _item("checks", _checks(run)),
        _item("accepted", _accepted(run)),
        _item("timing", _timing(run)),
        _item("missing", _missing(run)),
        _item("built from", _origin(run)),
        _item("next", _next(run)),
    ]
    for number, entry in enumerate(found, start=1):
        lines += _entry(entry, number)
    return "\n".join(lines) + "\n"


def _entry(entry: Entry, number: int) -> list[str]:
    """Render an entry as a heading and a list of everything known of it."""
    head, *rest = entry_lines(entry, number)
    code = source_text(entry.finding) if entry.finding else ""
    shown = (markdown_code(line) if line == code else markdown(line) for line in rest)
    return ["", f"## {markdown(head)}", "", *(f"- {line}" for line in shown)]


def _item(name: str, text: str) -> str:
    return f"- **{name}**: {text}"


def _next(run: Run) -> str:
    step = next_step(run)
    before = f"{markdown(step.before)}, then " if step.before else ""
    return before + markdown_code(step.command)


def _first_cause(run: Run, found: Sequence[Entry]) -> str:
    if not found and run.stages:
        return "none so far" if is_incomplete(run) else "none"
    if not found:
        return "no stage left a record"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{markdown(found[0].fault.sentence)}{more}"


def _where(run: Run) -> str:
    """Name the devices that answered."""
    seen = dict.fromkeys(f"{device_label(s)}, {measured(s)}" for s in run.stages if has_run(s))
    nothing = "no stage was run" if run.remote else "the builds were read, nothing was run"
    none = "not known until it is collected" if is_incomplete(run) else f"no device: {nothing}"
    where = "; ".join(markdown(label) for label in seen) or none
    driver = run.host.driver if run.host else ""
    by_gpu = stages_by_gpu(run)
    details = [
        f"remote {markdown(run.remote.name)}" if run.remote else "",
        driver and f"driver {markdown(driver)}",
        *(f"{markdown(', '.join(names))} on {markdown(gpu)}" for gpu, names in by_gpu.items()),
        "shared power: other GPUs of the host could be in use" if shares_power(run) else "",
        markdown(f"{run.started_utc} to {run.finished_utc or 'unknown'}"),
        _busy(run),
        _cost(run),
    ]
    return f"{where}; {', '.join(filter(None, details))}"


def _busy(run: Run) -> str:
    """Say how much of the time from its first kernel to its last the GPU was busy."""
    found = run.gpu_busy
    if found is None:
        any_gpu = any(s.device is DeviceKind.GPU and has_run(s) for s in run.stages)
        return "GPU busy: not measured" if any_gpu else ""
    gpu = "the first GPU" if stages_by_gpu(run) else "GPU"
    if found.unknown:
        return f"{gpu} busy: not measured, {markdown(found.unknown)}"
    share = 100 * found.busy_s / found.known_s if found.known_s else 0.0
    whole = f"{found.window_s:.1f} s from the first kernel to the last"
    busy = f"{gpu} busy {share:.0f}% of"
    if found.known_s < LEAST_KNOWN * found.window_s:
        return f"{busy} {found.known_s:.1f} s for which there are samples of {whole}"
    return f"{busy} {whole} (samples of the driver)"


def shares_power(run: Run) -> bool:
    return run.host is not None and run.host.shared_power


def _cost(run: Run) -> str:
    """Say what the run cost, where the host has a price; of one that was left nobody knows it."""
    if run.price_per_hour is None:
        return ""
    if run.held_s is None:
        return f"cost unknown, at {run.price_per_hour:.2f} an hour"
    cost = run.price_per_hour * run.held_s / 3600
    held = f"{run.held_s / 60:.1f} min"
    return f"held for {held}, cost {cost:.2f} at {run.price_per_hour:.2f} an hour"


def _stages(run: Run) -> str:
    """Name each stage with its word; one of another variant than the run's with that as well."""
    named = ((s, "" if s.variant in ("", run.variant) else f" ({s.variant})") for s in run.stages)
    return ", ".join(f"{markdown(shown_name(s) + v)} {stage_word(s)}" for s, v in named) or "none"


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
    """The figure with what it was taken on: a stand-in's or an emulator's time is labelled."""
    if run.bench is not None:
        compared = [s for s in run.stages if s.kind is StageKind.BENCH]
        return "; ".join(markdown(_compared(s)) for s in compared) or "not in this run"
    stages = [s for s in run.stages if s.kind in (StageKind.TIMING, StageKind.METRICS)]
    if not stages:
        return "not in this run"
    return "; ".join(_timing_of(stage, run.kernel.label_for(run.arch)) for stage in stages)


def _compared(stage: StageRecord) -> str:
    said = [f"{c.name} {c.verdict.summary}" for c in stage.checks if "result" in c.facts]
    stale = [c.name for c in stage.checks if c.facts.get("checks", "").startswith("outdated")]
    if not said:
        return f"{stage_word(stage)}: {stage.verdict.summary}"
    device = f" ({device_label(stage)}, {measured(stage)})"
    return "; ".join(said) + device + (f"; outdated: {', '.join(stale)}" if stale else "")


def _timing_of(stage: StageRecord, label: str) -> str:
    facts = [_fact(stage.checks, name) for name in ("median", "throughput", "samples", "regime")]
    plain = stage.kind is StageKind.METRICS
    if plain or not has_run(stage) or not any(value for _, value in facts):
        return markdown(f"{stage_word(stage)}: {stage.verdict.summary}")
    said = ", ".join(f"{name} {value}" for name, value in facts if value)
    baseline = (c.verdict.summary for c in stage.checks if c.name == BASELINE_CHECK)
    _, checks = _fact(stage.checks, "checks")
    stale = checks if checks.startswith("outdated") else ""
    tail = "".join(f"; {text}" for text in (label, *baseline, stale) if text)
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
            reasons.setdefault(stage.verdict.summary, []).append(shown_name(stage))
    return (f"{', '.join(names)} not run: {reason}" for reason, names in reasons.items())


def _origin(run: Run) -> str:
    p = run.provenance
    changed = f" with changes {p.dirty_sha256[:12]}" if p.dirty_sha256 else ""
    if p.not_in_commit:
        more = f" and {len(p.not_in_commit) - 1} more" if len(p.not_in_commit) > 1 else ""
        changed += f" (of {p.not_in_commit[0]}{more})"
    commit = f"commit {p.commit[:12]}{changed}" if p.commit else "no git commit"
    if p.no_commit:
        commit += f": {p.no_commit}"
    builds = ", ".join(f"{name} {key[:12]}" for name, key in p.builds.items())
    seed = "" if run.seed is None else f"inputs of --seed {run.seed}"
    parts = (commit, builds and f"builds {builds}", p.toolchain, seed)
    return markdown("; ".join(filter(None, parts)))
