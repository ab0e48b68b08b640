"""What the terminal shows of checks: a row a rule, and beneath it what it was judged by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernelrig.model import Check, Outcome, Run, StageKind, StageRecord
from kernelrig.terminal.text import columns, one_line, printable

_SHORT = 120
"""Facts that fit on a line of this length stand in the row, longer ones beneath it."""


def render_checks(run: Run) -> str:
    """Render each checked build: its rules with their verdicts and facts, what is told beside."""
    stages = [s for s in run.stages if s.kind is StageKind.CHECK]
    return "\n".join(_stage(stage) for stage in stages)


def render_sets(run: Run) -> str:
    """Render what came of sets of tunables: the counts, the sentences, and each set that fails."""
    lines: list[str] = []
    for stage in run.stages:
        lines += [stage.name, *(f"  {printable(note)}" for note in stage.notes)]
        bad = [c for c in stage.checks if c.verdict.outcome is not Outcome.PASS]
        lines += (f"  {c.verdict.outcome}  {c.name}: {one_line(c.verdict.summary)}" for c in bad)
    return "\n".join(lines) + "\n"


def _stage(stage: StageRecord) -> str:
    rows = [("code", "rule", "verdict", "found")]
    found = [_found(check) for check in stage.checks]
    for check, (said, _) in zip(stage.checks, found, strict=True):
        code, _, name = check.name.partition(" ")
        rows.append((code, one_line(name), str(check.verdict.outcome), said))
    head, *lines = columns(rows).split("\n")
    out = [f"{stage.name}", head]
    for line, (_, beneath) in zip(lines, found, strict=True):
        out += [line, *(f"        {one_line(text)}" for text in beneath)]
    out += [f"beside: {one_line(note)}" for note in stage.notes]
    return "\n".join(out) + "\n"


def _found(check: Check) -> tuple[str, Iterator[str]]:
    """Return what stands in a rule's row, and what beneath: facts, and the places that break it."""
    facts = [f"{k}: {v}" for k, v in check.facts.items()]
    joined = ", ".join(facts)
    plain = check.verdict.outcome is Outcome.PASS and facts and len(joined) <= _SHORT
    said = joined if plain else check.verdict.summary
    told = plain or check.verdict.outcome is Outcome.SKIP  # why it was not judged is enough
    return one_line(said), _beneath(check, () if told else facts)


def _beneath(check: Check, facts: Iterable[str]) -> Iterator[str]:
    yield from facts
    for f in check.findings:
        yield f"{f.file}:{f.line}: {f.message}" if f.file else f.message
    if check.verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
        yield from check.verdict.evidence
