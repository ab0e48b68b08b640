"""Two measurements compared as text: what moved, by group, the clearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kernelrig.model import CounterComparison, MovedCounter
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line, render_rows

SHOWN = 12
"""Counters of a group, and source lines; --json has all."""
_NAMED = 4


def render_comparison(found: CounterComparison) -> str:
    """Render a comparison, its conclusion first."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: CounterComparison) -> Iterator[str]:
    yield one_line(f"{found.b} compared with {found.a}: {_conclusion(found)}")
    yield one_line(f"time: {found.time or _NO_TIME}")
    if found.unlike and found.forced:
        yield one_line(f"compared by --force, though they differ in {'; '.join(found.unlike)}")
    for note in found.notes:
        yield one_line(note)
    for group, members in groupby(found.moved, key=lambda m: m.group):
        yield from ("", _table(group, list(members)))
    if found.lines:
        rows = [("source line", "A", "B", "mostly")]
        rows += [
            (m.line, f"{100 * m.a:.1f}%", f"{100 * m.b:.1f}%", m.reason)
            for m in found.lines[:SHOWN]
        ]
        yield from ("", render_rows(rows))
    for side, names in ((found.a, found.only_a), (found.b, found.only_b)):
        if names:
            yield one_line(f"only in {side}: {_named(names)}")


_NO_TIME = f"no bench data; counters do not say what is faster: `{COMMAND} bench` does"


def _conclusion(found: CounterComparison) -> str:
    if found.inconclusive:
        return f"inconclusive: they differ in {'; '.join(found.unlike)}; --force compares them"
    if not found.moved and not found.lines:
        return f"nothing moved: {found.compared} counters are within their noise"
    better = sum(m.better is True for m in found.moved)
    lines = f", {len(found.lines)} source lines" if found.lines else ""
    return (
        f"{len(found.moved)} of {found.compared} counters moved{lines}:"
        f" {better} for the better, {len(found.worse)} for the worse"
    )


def _table(group: str, moved: Sequence[MovedCounter]) -> str:
    rows = [(group, "A", "B", "change", "noise", "unit", "")]
    rows += [
        (
            m.counter,
            _number(m.a),
            _number(m.b),
            f"{m.percent:+.1f}%" if m.percent is not None else "from 0",
            _number(m.noise),
            m.unit,
            {True: "better", False: "worse", None: ""}[m.better],
        )
        for m in moved[:SHOWN]
    ]
    more = f"\n{len(moved) - SHOWN} more in {group}: --json names them" if moved[SHOWN:] else ""
    return render_rows(rows) + more


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
