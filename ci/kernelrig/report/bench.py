"""What the terminal shows of a comparison: a row a pair, then who took part and at which clocks."""

from __future__ import annotations

from kernelrig.model import Check, Run, StageKind
from kernelrig.terminal.text import columns, one_line

_PAIR = {
    "word": "verdict",
    "ratio": "ratio",
    "interval": "99% interval",
    "noise": "noise",
    "resolves": "resolves",
    "medians": "medians",
}
_BESIDE = ("build", "label", "SM clock", "power", "temperature", "throttle reasons", "checks")


def render_bench(run: Run) -> str:
    """Render every pair that was compared; without one, nothing: the faults say why."""
    checks = [c for s in run.stages if s.kind is StageKind.BENCH for c in s.checks]
    pairs = [c for c in checks if "word" in c.facts]
    if not pairs:
        return ""
    rows: list[tuple[str, ...]] = [("pair", *_PAIR.values())]
    rows += [(one_line(c.name), *(one_line(c.facts[key]) for key in _PAIR)) for c in pairs]
    more = [f"{c.name}: {c.facts['more']}" for c in pairs if "more" in c.facts]
    beside = [_beside(c) for c in checks if "word" not in c.facts and c.facts]
    return "\n".join([columns(rows), *map(one_line, (*more, *beside))]) + "\n"


def _beside(check: Check) -> str:
    facts = (f"{key} {check.facts[key]}" for key in _BESIDE if key in check.facts)
    return f"{check.name}: {check.verdict.summary}; {', '.join(facts)}"
