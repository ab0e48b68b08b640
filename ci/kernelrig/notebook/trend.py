"""The values of a metric over commits: medians of runs with their spread, by class of hosts.

Values are put side by side where they may be compared: of one kernel, arch, variant, case and
regime, on one class of hosts. A run is one observation, however many samples it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from statistics import median

from kernelrig.model import Observed, Trend, TrendPoint
from kernelrig.terminal.text import render_rows

_WIDTH = 40
"""Characters of the plot: a resolution of 2.5% of the span."""


def trends(found: Iterable[tuple[str, str, Observed]]) -> tuple[Trend, ...]:
    """Join (run, start in UTC, figure) to trends; the points of each in the order of their time."""
    grouped: dict[Trend, list[tuple[str, str, Observed]]] = {}
    for run, started, o in found:
        series = Trend(
            *(o.metric, o.unit, o.kernel, o.arch, o.variant), *(o.case, o.regime, o.host_class)
        )
        grouped.setdefault(series, []).append((started, run, o))
    return tuple(
        replace(series, points=tuple(_points(sorted(held, key=lambda h: h[:2]))))
        for series, held in sorted(grouped.items(), key=lambda item: astuple(item[0]))
    )


def _points(held: Sequence[tuple[str, str, Observed]]) -> Iterable[TrendPoint]:
    by_commit: dict[tuple[str, bool, str], list[tuple[str, str, Observed]]] = {}
    for entry in held:
        o = entry[2]
        # Two trees with changes on top of one commit are two states of the source.
        build = o.build if o.dirty or not o.commit else ""
        by_commit.setdefault((o.commit, o.dirty, build), []).append(entry)
    for (commit, dirty, build), entries in by_commit.items():
        # A bench has several figures of one build: they are one run, and count once.
        of_runs = {
            run: [o for _, _, o in group] for run, group in groupby(entries, key=lambda e: e[1])
        }
        values = [median(o.value for o in figures) for figures in of_runs.values()]
        alone = len(values) == 1
        yield TrendPoint(
            commit=commit,
            dirty=dirty,
            build=build,
            started_utc=entries[0][0],
            value=median(values),
            low=min(o.low for _, _, o in entries) if alone else min(values),
            high=max(o.high for _, _, o in entries) if alone else max(values),
            runs=tuple(of_runs),
            cards=len({o.card for _, _, o in entries if o.card}),
        )


def render_trends(found: Sequence[Trend]) -> str:
    """Render each trend as rows with a plot: the spread as a line, the median as a dot in it."""
    return "\n\n".join(map(_render, found))


def _render(trend: Trend) -> str:
    where = trend.host_class or "read from the build, on no device"
    of = ", ".join(filter(None, (trend.case, trend.regime, where)))
    unit = f" in {trend.unit}" if trend.unit else ""
    head = f"{trend.metric}{unit} of {trend.kernel}-{trend.arch}-{trend.variant}: {of}"
    least = min(p.low for p in trend.points)
    most = max(p.high for p in trend.points)
    rows = [("commit", "first run (UTC)", "runs", "median", "spread", "of", "")]
    for point in trend.points:
        cards = f" on {point.cards} GPUs" if point.cards > 1 else ""
        rows.append(
            (
                " ".join(filter(None, (commit_text(point.commit, point.dirty), point.build[:8]))),
                point.started_utc,
                f"{len(point.runs)}{cards}",
                f"{point.value:.5g}",
                f"{point.low:.5g} to {point.high:.5g}" if point.low < point.high else "-",
                "the runs" if len(point.runs) > 1 else "one run" if point.low < point.high else "-",
                _bar(point, least, most),
            )
        )
    return f"{head}\n{render_rows(rows)}"


def _bar(point: TrendPoint, least: float, most: float) -> str:
    """Return a line of _WIDTH characters from `least` to `most`: `├──●───┤`."""

    def place(value: float) -> int:
        return round((value - least) / (most - least) * (_WIDTH - 1)) if most > least else 0

    first, middle, last = place(point.low), place(point.value), place(point.high)
    line = [" "] * _WIDTH
    line[first : last + 1] = "─" * (last - first + 1)
    if first < last:
        line[first], line[last] = "├", "┤"
    line[middle] = "●"
    return f"|{''.join(line)}|"


def commit_text(commit: str, dirty: bool) -> str:
    """Return a commit as tables show it: 12 letters, `+` where changes were on top of it."""
    return f"{commit[:12]}{'+' if dirty else ''}" if commit else "no commit"
