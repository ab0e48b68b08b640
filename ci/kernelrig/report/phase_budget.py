"""The phases of a timing build as text: budgets, equilibrium, ceilings, contention, jitter."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.model import PhaseCapture, TimingAnalysis
from kernelrig.terminal.text import one_line, render_rows


def render_phases(analysis: TimingAnalysis) -> str:
    """Render an analysis, the conclusion first. Whatever names phases have is escaped."""
    return "\n".join(_lines(analysis)) + "\n"


def _lines(analysis: TimingAnalysis) -> Iterator[str]:
    capture = analysis.capture
    yield one_line(analysis.headline)
    if analysis.equilibrium:
        e = analysis.equilibrium
        yield (
            f"the mean work alone needs {e.floor:,.0f} cycles a {capture.row}:"
            f" {e.cycle - e.floor:,.0f} of {e.cycle:,.0f} go to waiting for one another"
        )
    if analysis.coverage:
        yield f"measured: {analysis.coverage.text}"
    if analysis.production:
        yield analysis.production
    yield from ("", _title(capture), _budgets(analysis))
    if analysis.ceilings:
        rows = [("if it never waited", "cycles", "at most")]
        rows += [
            (f"{c.role} without {c.without}", f"{c.cycles:,.0f}", f"{c.factor:.2f}x")
            for c in analysis.ceilings
        ]
        yield from ("", render_rows(rows))
    if analysis.contention:
        apart = [(c.phase, c.text) for c in analysis.contention]
        yield from ("", render_rows([("several warps", "how far apart"), *apart]))
    if analysis.jitter:
        yield from ("", _jitter(analysis))
    if analysis.projection:
        yield from ("", f"what if {one_line(analysis.projection.text)}")


def _title(capture: PhaseCapture) -> str:
    rows = f"{capture.rows:,} {capture.row}{'s' if capture.rows != 1 else ''}"
    over = f" of {capture.clusters} clusters" if capture.clusters else ""
    return f"cycles of a {capture.row}, mean of {rows}{over}:"


def _budgets(analysis: TimingAnalysis) -> str:
    rows = [("role", "phase", "cycles", "share", "")]
    for budget in analysis.budgets:
        label = f"{budget.role} {budget.kind}".rstrip()
        for line in budget.lines:
            waits = "waits" if line.waits else ""
            cycles, share = f"{line.cycles:,.0f}", f"{100 * line.share:.1f}%"
            rows.append((label, line.phase, cycles, share, waits))
            label = ""
        waited = f"{100 * budget.waiting / budget.total:.1f}% waiting" if budget.waiting else ""
        rows.append(("", "total", f"{budget.total:,.0f}", "", waited))
    return render_rows(rows)


def _jitter(analysis: TimingAnalysis) -> str:
    rows = [("jitter", "least", "mean", "p95", "largest", "")]
    for j in analysis.jitter:
        p95 = f"{j.p95_ratio * j.mean:,.0f}" if j.p95_ratio is not None else "-"
        figures = (f"{j.least:,}", f"{j.mean:,.0f}", p95, f"{j.most:,}")
        rows.append((f"{j.role} {j.phase}", *figures, j.text))
    return render_rows(rows)
