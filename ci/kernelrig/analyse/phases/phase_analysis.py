"""All that the phases of one launch mean."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrig.analyse.phases.equilibrium import equilibrium, structure_of
from kernelrig.analyse.phases.projection import Change, project
from kernelrig.analyse.phases.role_budget import ceilings, role_budgets
from kernelrig.analyse.phases.variation import contention, jitter
from kernelrig.errors import ProtocolError
from kernelrig.model import Coverage, PhaseCapture, RoleBudget, TimingAnalysis


def analyse_phases(
    capture: PhaseCapture, changes: Sequence[Change] = (), production_ms: float = 0.0
) -> TimingAnalysis:
    """Return what a capture means; ProtocolError where no role of it was recorded as a whole.

    `production_ms` is the time of the build without clocks, 0 if it is not known.
    """
    budgets = role_budgets(capture)
    structure = structure_of(capture, budgets)
    if structure is None:
        names = ", ".join(role.role for role in capture.roles) or "none"
        raise ProtocolError(f"no role has all of its phases recorded; roles: {names}")
    return TimingAnalysis(
        capture,
        budgets,
        equilibrium(structure),
        tuple(ceilings(budgets)),
        tuple(jitter(capture)),
        tuple(contention(capture)),
        _coverage(capture, budgets),
        project(structure, changes, capture.row) if changes else None,
        _against_production(capture, production_ms),
    )


def _coverage(capture: PhaseCapture, budgets: tuple[RoleBudget, ...]) -> Coverage | None:
    """Compare the rows of one cluster, or of one CTA, with the launch that they are of."""
    launch = capture.launch_ms * capture.sm_ghz * 1e6
    if launch <= 0 or capture.row not in ("tile", "CTA"):
        return None
    rows = capture.tiles / capture.clusters if capture.row == "tile" and capture.clusters else 1.0
    timed = [b for b in budgets if b.kind == "MMA"] or list(budgets)
    measured = rows * max(b.total for b in timed)
    ghz = capture.sm_ghz * measured / launch
    text = (
        f"{measured:,.0f} of the launch's {launch:,.0f} cycles at {capture.sm_ghz:g} GHz"
        f" ({100 * measured / launch:.1f}%)"
    )
    if measured <= launch:
        text += f"; the rest is start, drain, or a clock that is lower: {ghz:.2f} GHz leaves none"
    else:
        text += ": the clock was higher than that, or the phases are of another launch"
    return Coverage(measured, launch, text)


def _against_production(capture: PhaseCapture, production_ms: float) -> str:
    if not production_ms or not capture.launch_ms:
        return ""
    percent = 100 * (capture.launch_ms / production_ms - 1)
    return (
        f"the timing build took {capture.launch_ms:.4f} ms, production {production_ms:.4f} ms"
        f" ({percent:+.1f}%): its phases are those of production only as far as these agree"
    )


def phase_facts(analysis: TimingAnalysis) -> dict[str, str]:
    """Return an analysis as facts of a check, label -> sentence."""
    facts = {f"phases of {b.role}": budget_text(b) for b in analysis.budgets}
    facts |= {
        f"{c.role} without {c.without}": f"{c.factor:.2f}x" for c in analysis.ceilings if c.factor
    }
    facts |= {f"contention in {c.phase}": c.text for c in analysis.contention}
    if analysis.coverage:
        facts["phases of the launch"] = analysis.coverage.text
    return facts


def budget_text(budget: RoleBudget) -> str:
    """Return `6,066 cycles: accumulator wait 1,344 (22.2%), ...`."""
    parts = (f"{b.phase} {b.cycles:,.0f} ({100 * b.share:.1f}%)" for b in budget.lines)
    return f"{budget.total:,.0f} cycles: {', '.join(parts)}"
