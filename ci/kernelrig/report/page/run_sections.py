"""What every run has: its verdict, findings, stages and times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kernelrig.model import Check, DeviceKind, Outcome, Run, StageKind, StageRecord
from kernelrig.report.entries import Entry, entries
from kernelrig.report.next_step import next_step
from kernelrig.report.outcome import (
    EMULATED,
    describe_devices,
    device_label,
    has_run,
    is_incomplete,
    labelled,
    measured,
    missing,
    run_outcome,
    run_word,
    shown_name,
    stage_word,
    stages_by_gpu,
)
from kernelrig.report.page.chart import Chart
from kernelrig.report.page.content import Content
from kernelrig.report.page.markup import Html, join, table, tag
from kernelrig.report.page.run_charts import sample_charts, stage_chart, trend_chart
from kernelrig.report.page.section import Section, absent
from kernelrig.report.screen import entry_lines, source_text
from kernelrig.terminal.text import one_line

_SIGNS = {Outcome.PASS: "✓", Outcome.FAIL: "✗", Outcome.ERROR: "!", Outcome.SKIP: "·"}
"""A verdict is a sign and a word, and only then a colour."""

_MOST_FACTS = 40
_MOST_ENTRIES = 200


def sections(content: Content) -> Iterator[Section]:
    """Yield the findings, the stages and the times."""
    yield _findings(content.run)
    yield _stages(content.run)
    yield _times(content)


def banner(content: Content) -> Html:
    """Return the head of the page: the verdict, of what, where, when, and what comes next."""
    run = content.run
    outcome = run_outcome(run)
    open_still = outcome is not Outcome.FAIL and is_incomplete(run)
    kind = "incomplete" if open_still else str(outcome)
    sign = "…" if open_still else _SIGNS[outcome]
    emulated = any(s.device is DeviceKind.EMULATOR for s in run.stages)
    label = tag("span", EMULATED, class_="label strong") if emulated else Html()
    step = next_step(run)
    facts = [
        ("ran on", _where(run)),
        ("when", _when(run)),
        ("source", _source(run)),
        ("build", _builds(run)),
        ("label", run.kernel.label_for(run.arch)),
        ("missing", "; ".join(missing(run))),
    ]
    listed = [
        tag("div", tag("dt", name), tag("dd", one_line(said))) for name, said in facts if said
    ]
    before = f"{step.before}, then " if step.before else ""
    listed.append(
        tag(
            "div",
            tag("dt", "next"),
            tag("dd", one_line(before) + " " * bool(before), tag("code", one_line(step.command))),
        )
    )
    return tag(
        "header",
        tag("p", run.id, class_="run"),
        tag(
            "h1",
            tag(
                "span",
                tag("span", sign, aria_hidden="true"),
                " ",
                run_word(run),
                class_=f"badge {kind}",
            ),
            tag("span", run.kernel.name, class_="kernel"),
            tag("span", f"{run.arch} · {run.variant}", class_="arch"),
            label,
        ),
        tag("dl", listed, class_="facts"),
        class_=kind,
    )


def _findings(run: Run) -> Section:
    found = entries(run)
    if not found:
        if not run.stages:
            said = "No stage left a record."
        else:
            said = "None so far: the run is incomplete." if is_incomplete(run) else "None."
        return Section("findings", "Findings", absent(said))
    shown = [_entry(e, n) for n, e in enumerate(found[:_MOST_ENTRIES], 1)]
    more = len(found) - len(shown)
    rest = absent(f"And {more} more, in summary.md.") if more else Html()
    return Section("findings", f"Findings ({len(found)})", join(shown, rest))


def _entry(entry: Entry, number: int) -> Html:
    head, *rest = entry_lines(entry, number)
    code = source_text(entry.finding) if entry.finding else ""
    outcome = entry.fault.verdict.outcome
    if entry.finding is not None and outcome is Outcome.PASS:
        outcome = Outcome.FAIL  # what a fault that was made on purpose shows
    lines = [
        tag("pre", tag("code", line), tabindex="0", aria_label="source line")
        if line == code
        else _line(line)
        for line in rest
        if line
    ]
    emulated = entry.fault.stage.device is DeviceKind.EMULATOR
    label = tag("span", EMULATED, class_="label") if emulated else Html()
    return tag("article", tag("h3", head, label), lines, class_=f"entry {outcome}")


def _line(line: str) -> Html:
    """Return a line of an entry; `suggested fix: ...` has its name in front."""
    name, colon, said = line.partition(": ")
    if colon and name in ("suggested fix", "seen", "inlined"):
        return tag("p", tag("b", name), " ", said, class_="fix" if "fix" in name else "more")
    return tag("p", line)


def _stages(run: Run) -> Section:
    if not run.stages:
        return Section("stages", "Stages", absent("No stage left a record."))
    by_gpu = stages_by_gpu(run)
    rows = [
        (
            _word(s),
            shown_name(s),
            f"{s.seconds:.1f}",
            labelled(s, one_line(s.verdict.summary)),
            device_label(s) + (f", {one_line(s.gpu)}" if by_gpu and s.gpu else ""),
        )
        for s in run.stages
    ]
    overview = table(("verdict", "stage", "seconds", "summary", "device"), rows, numbers=(2,))
    details = [_checks(s) for s in run.stages if s.checks]
    chart = stage_chart(run)
    lead = overview
    body = join(tag("h3", "Checks"), details) if details else Html()
    return Section("stages", "Stages", body, (chart,) if chart else (), lead)


def _word(stage: StageRecord) -> Html:
    word = stage_word(stage)
    outcome = next((o for o in Outcome if word.startswith(o)), Outcome.SKIP)
    sign = tag("span", _SIGNS[outcome], aria_hidden="true")
    return tag("span", sign, " ", word, class_=f"word {outcome}")


def _checks(stage: StageRecord) -> Html:
    rows = [_check(c) for c in stage.checks]
    notes = [tag("p", labelled(stage, one_line(n)), class_="more") for n in stage.notes]
    counted = f"{len(rows)} check{'s' * (len(rows) != 1)}"
    bad = any(c.verdict.outcome in (Outcome.FAIL, Outcome.ERROR) for c in stage.checks)
    return tag(
        "details",
        tag("summary", _word(stage), " ", shown_name(stage), tag("span", counted, class_="label")),
        notes,
        table(("verdict", "check", "seconds", "summary", "facts"), rows, numbers=(2,)),
        **({"open": "open"} if bad else {}),
    )


def _check(check: Check) -> tuple[str, ...]:
    outcome = check.verdict.outcome
    word = tag(
        "span",
        tag("span", _SIGNS[outcome], aria_hidden="true"),
        " ",
        str(outcome),
        class_=f"word {outcome}",
    )
    facts = [
        tag("li", tag("b", one_line(name)), " ", one_line(value))
        for name, value in list(check.facts.items())[:_MOST_FACTS]
    ]
    said = [one_line(check.verdict.summary), *map(one_line, check.verdict.evidence)]
    seconds = f"{check.seconds:.1f}" if check.seconds else ""
    summary = join(said[0], [tag("p", e, class_="more") for e in said[1:]])
    return (word, one_line(check.name), seconds, summary, tag("ul", facts) if facts else "")


def _times(content: Content) -> Section:
    charts: list[Chart] = []
    for number, timed in enumerate(content.timed):
        record = next(s for s in content.run.stages if s.name == timed.stage)
        label = f"{measured(record)} on {device_label(record)}"
        charts += sample_charts(timed, one_line(label), f"samples-{number}")
    lead = join([_timing(content.run, s) for s in content.run.stages if s.kind is StageKind.TIMING])
    for number, trend in enumerate(content.trends):
        charts.append(trend_chart(trend, content.run.id, f"trend-{number}"))
    said = content.absent.get("timing", "")
    history = content.absent.get("history", "")
    body = join([absent(why) for why in (said, history) if why])
    return Section("timing", "Timing", body, tuple(charts), lead)


def _timing(run: Run, stage: StageRecord) -> Html:
    facts = {name: value for c in stage.checks for name, value in c.facts.items()}
    shown = [(n, facts[n]) for n in ("median", "throughput", "samples", "regime") if n in facts]
    if not has_run(stage) or not shown or stage.device is DeviceKind.EMULATOR:
        return Html()
    cells = [tag("div", tag("dt", name), tag("dd", one_line(value))) for name, value in shown]
    said = f"{shown_name(stage)}: {measured(stage)} on {device_label(stage)}"
    label = run.kernel.label_for(run.arch)
    return join(
        tag("p", said + (f"; {label}" if label else ""), class_="more"),
        tag("dl", cells, class_="figures-in-words"),
    )


def _where(run: Run) -> str:
    remote = f", remote {run.remote.name}" if run.remote else ""
    driver = f", driver {run.host.driver}" if run.host and run.host.driver else ""
    return f"{describe_devices(run)}{remote}{driver}"


def _when(run: Run) -> str:
    try:
        began, ended = map(datetime.fromisoformat, (run.started_utc, run.finished_utc))
    except ValueError:
        return f"{run.started_utc} to {run.finished_utc or 'unknown'}"
    return f"{began:%Y-%m-%d %H:%M:%S} UTC, {(ended - began).total_seconds():.0f} s"


def _source(run: Run) -> str:
    p = run.provenance
    if not p.commit:
        return p.no_commit or "no git commit"
    return f"commit {p.commit[:12]}{' with changes' if p.dirty_sha256 else ''}"


def _builds(run: Run) -> str:
    builds = [f"{name} {key[:12]}" for name, key in run.provenance.builds.items()]
    return ", ".join(filter(None, (*builds, run.provenance.toolchain)))
