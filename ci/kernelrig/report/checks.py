"""What the terminal shows of checked builds: a line for what passed, rows for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernelrig.model import Check, Outcome, Run, StageKind, StageRecord
from kernelrig.terminal.text import columns, one_line, printable

_SHORT = 120
"""Facts that fit on a line of this length are in the row, longer ones below it."""


def render_checks(run: Run, *, verbose: bool = False) -> str:
    """Render each checked build: how many rules passed, and the codes of those that did not.

    With `verbose` every rule with its figures, and the notes that no rule judges.
    """
    stages = [s for s in run.stages if s.kind is StageKind.CHECK]
    return "\n".join(map(_all, stages)) if verbose else "".join(map(_brief, stages))


def render_sets(run: Run) -> str:
    """Render the sets of tunables: the counts, the notes, and each set that does not pass."""
    lines: list[str] = []
    for stage in run.stages:
        lines += [one_line(stage.name), *(f"  {printable(note)}" for note in stage.notes)]
        bad = [c for c in stage.checks if c.verdict.outcome is not Outcome.PASS]
        lines += (
            f"  {c.verdict.outcome}  {one_line(f'{c.name}: {c.verdict.summary}')}" for c in bad
        )
    return "\n".join(lines) + "\n"


def _brief(stage: StageRecord) -> str:
    """Return a build's counts in one line, with the codes of rules that fail or have no verdict."""
    by_outcome: dict[Outcome, list[str]] = {outcome: [] for outcome in Outcome}
    for check in stage.checks:
        by_outcome[check.verdict.outcome].append(one_line(check.name).partition(" ")[0])
    said = [f"{len(by_outcome[Outcome.PASS])} of {len(stage.checks)} rules pass"]
    for outcome in (Outcome.FAIL, Outcome.ERROR):
        codes = by_outcome[outcome]
        said += [f"{len(codes)} {outcome} ({', '.join(dict.fromkeys(codes))})"] if codes else []
    skipped = len(by_outcome[Outcome.SKIP])
    said += [f"{skipped} not applicable"] if skipped else []
    return f"{one_line(stage.name)}: {', '.join(said)}\n"


def _all(stage: StageRecord) -> str:
    rows = [("code", "rule", "verdict", "found")]
    found = [_found(check) for check in stage.checks]
    for check, (said, _) in zip(stage.checks, found, strict=True):
        code, _, name = one_line(check.name).partition(" ")
        rows.append((code, name, str(check.verdict.outcome), said))
    head, *lines = columns(rows).split("\n")
    out = [one_line(stage.name), head]
    for line, (_, below) in zip(lines, found, strict=True):
        out += [line, *(f"        {one_line(text)}" for text in below)]
    out += [f"note: {one_line(note)}" for note in stage.notes]
    return "\n".join(out) + "\n"


def _found(check: Check) -> tuple[str, Iterator[str]]:
    """Return a rule's row and what is below it: facts, and where the rule does not hold."""
    facts = [f"{k}: {v}" for k, v in check.facts.items()]
    joined = ", ".join(facts)
    plain = check.verdict.outcome is Outcome.PASS and facts and len(joined) <= _SHORT
    said = joined if plain else check.verdict.summary
    complete = plain or check.verdict.outcome is Outcome.SKIP  # why it was not judged is enough
    return one_line(said), _below(check, () if complete else facts)


def _below(check: Check, facts: Iterable[str]) -> Iterator[str]:
    yield from facts
    for f in check.findings:
        yield f"{f.file}:{f.line}: {f.message}" if f.file else f.message
    if check.verdict.outcome in (Outcome.FAIL, Outcome.ERROR):
        yield from check.verdict.evidence
