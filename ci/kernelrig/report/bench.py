"""The terminal's table of a comparison: a row per pair, then the candidates and their clocks."""

from __future__ import annotations

from kernelrig.model import Check, Run, StageKind
from kernelrig.terminal.text import columns, one_line

_PAIR = {
    "result": "result",
    "ratio": "ratio",
    "interval": "99% interval",
    "noise": "noise",
    "MDD": "MDD",
    "medians": "medians",
}
_SHOWN = (
    "build",
    "label",
    "SM clock",
    "power",
    "temperature",
    "throttle reasons",
    "checks",
)


def render_bench(run: Run) -> str:
    """Render every pair that was compared; empty without one: the failed checks name the reason."""
    checks = [c for s in run.stages if s.kind is StageKind.BENCH for c in s.checks]
    pairs = [c for c in checks if "result" in c.facts]
    if not pairs:
        return ""
    rows: list[tuple[str, ...]] = [("pair", *_PAIR.values())]
    rows += [(one_line(c.name), *(one_line(c.facts[key]) for key in _PAIR)) for c in pairs]
    more = [f"{c.name}: {c.facts['more']}" for c in pairs if "more" in c.facts]
    candidates = [_candidate(c) for c in checks if "result" not in c.facts and c.facts]
    return "\n".join([columns(rows), *map(one_line, (*more, *candidates))]) + "\n"


def _candidate(check: Check) -> str:
    facts = (f"{key} {check.facts[key]}" for key in _SHOWN if key in check.facts)
    return f"{check.name}: {check.verdict.summary}; {', '.join(facts)}"
