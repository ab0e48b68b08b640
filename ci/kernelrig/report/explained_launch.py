"""An explanation of a launch as text for a terminal, and as explain.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelrig.model import CostCause, Explanation, PowerUse, SharedMap
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import markdown, one_line, render_rows

NOTHING = "nothing to gain is seen: no cause explains enough of the time"


def render_explanation(x: Explanation) -> str:
    """Render what bounds the launch, what costs it time, and what is worth trying."""
    return "\n".join(f"{name}: {text}" if name else text for name, text in _lines(x))


def render_explain_file(x: Explanation) -> str:
    """Render the same as Markdown, for explain.md."""
    lines = [f"# {markdown(x.kernel)}: bound by {markdown(x.bound)}", ""]
    for name, text in list(_lines(x))[1:]:
        said = "; ".join(map(markdown, text.splitlines()))
        lines.append(f"- **{name}**: {said}" if name else f"- {said}")
    return "\n".join(lines) + "\n"


def _lines(x: Explanation) -> Iterator[tuple[str, str]]:
    yield "", one_line(f"{x.kernel} on {x.device or 'an unknown GPU'} is bound by {x.bound}")
    yield "busy, % of peak", _numbers(x.units)
    if x.roofline:
        yield "the shape needs, % of these cycles", _numbers(x.roofline)
    clock = f"{x.sm_mhz:.0f} of {x.most_sm_mhz:.0f} MHz under ncu" if x.sm_mhz else "not measured"
    yield "SM clock", clock
    yield "power", _power(x.power)
    if o := x.occupancy:
        limits = ", ".join(f"{name} {n}" for name, n in sorted(o.limits.items(), key=_second))
        yield (
            "occupancy",
            f"{o.active_warps} warps of {o.possible_warps} that fit ({o.most_warps} at most);"
            f" {o.ctas} CTAs an SM, {o.waves} waves; CTAs by {limits}",
        )
    for name, found in (
        ("stalls, % of a warp's time", x.stalls),
        ("lanes of 32", x.lanes),
        ("memory", x.memory),
        ("tensor", x.tensor),
    ):
        if found:
            yield name, one_line(_numbers(found))
    if x.shared:
        yield "shared memory of a CTA", _shared(x.shared)
    for rule in x.rules:
        yield "rule", one_line(f"{rule.plan}/{rule.name} ({_numbers(rule.numbers)})")
    tried = [c for c in x.causes if c.name in x.suggestions]
    for number, cause in enumerate(sorted(tried, key=lambda c: x.suggestions.index(c.name)), 1):
        yield f"try {number}", one_line(_cause(cause))
    if not tried:
        yield "try", NOTHING
    others = [c for c in x.causes if c not in tried]
    for cause in others:
        yield "also", one_line(f"{cause.name}, {_interval(cause)} ({_numbers(cause.figures)})")
    for note in x.notes:
        yield "note", one_line(note)
    if x.evidence:
        yield (
            "evidence",
            one_line(f"{', '.join(x.evidence)} (for ncu-ui, or {COMMAND} analyze-source)"),
        )


def _cause(c: CostCause) -> str:
    where = f" at {', '.join(c.at)}" if c.at else ""
    return (
        f"{c.name}{where}: {c.means}; {c.do}; removing it saves {_interval(c)}"
        f" ({_numbers(c.figures)})"
    )


def _interval(c: CostCause) -> str:
    least, most = (1 / (1 - percent / 100) for percent in (c.least_percent, c.most_percent))
    return f"{time_saved(c)} ({least:.2f} to {most:.2f} times as fast), estimated"


def time_saved(c: CostCause) -> str:
    """Return the interval that removing a cause is estimated to save."""
    return f"{c.least_percent:.1f} to {c.most_percent:.1f}% of the time"


def _power(p: PowerUse | None) -> str:
    if p is None:
        return "not sampled: a timing run of the same build says it (--timing RUN)"
    limit = f" of {p.limit_w:.0f} W" if p.limit_w else ""
    at = ", the card's limit: it bounds the clock" if p.is_limit else ""
    return (
        f"{p.joules:.3f} J a launch at {p.watt:.0f}{limit}{at}; {p.sm_mhz:.0f} MHz,"
        f" {p.median_ms:.4g} ms (NVML, {one_line(p.run)})"
    )


def _shared(m: SharedMap) -> str:
    rows = [("name", "offset", "bytes", "count")]
    rows += [(s.name, f"{s.offset:,}", f"{s.size_bytes:,}", f"{s.count}") for s in m.pieces]
    return f"{m.used_bytes:,} bytes used, {m.free_bytes:,} free\n{render_rows(rows)}"


def _numbers(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in found.items())


def _second(pair: tuple[str, int]) -> int:
    return pair[1]
