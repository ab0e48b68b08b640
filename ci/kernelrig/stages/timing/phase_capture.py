"""The phases in the result file of a timing build, as a capture that `analyse` reads."""

from __future__ import annotations

from statistics import median

from kernelrig.analyse.phases import analyse_phases, roles_of
from kernelrig.errors import ProtocolError
from kernelrig.model import Kernel, PhaseCapture, RolePhases, TimingAnalysis
from kernelrig.stages.context import Context
from kernelrig.stages.harness.result import HarnessResult

CLOCKED = "KERNELRIG_TIMING"
"""The define of a variant whose programs count the cycles of their phases."""
EARLY_RELEASE = "EARLY_RELEASE"
"""The tunable of a kernel whose epilogue may hand the accumulator back before it stores."""

_SPREAD = "epilogue"


def phase_capture(seen: HarnessResult, *, released_before_stores: bool = True) -> PhaseCapture:
    """Return the phases of a result; ProtocolError if it has none.

    Where the program reports by role its figures count: they leave out tiles that are drained.
    """
    if not seen.phases:
        raise ProtocolError("the result has no phases: it is not of a timing build")
    samples = [s for s in seen.samples_ms if s is not None]
    clocks = [c.sm_mhz for c in seen.clocks.during if c is not None]
    if seen.roles is None:
        sms = seen.device.sm_count if seen.device else 0
        return PhaseCapture(
            roles=tuple(map(_with_total, roles_of(seen.phases))),
            row="CTA" if 0 < seen.phase_rows <= sms else "row",
            rows=seen.phase_rows,
            sm_ghz=median(clocks) / 1e3 if clocks else 0.0,
            launch_ms=median(samples) if samples else 0.0,
        )
    roles = seen.roles
    figures = roles_of(roles.figures)
    spread = next((p for r in figures if r.role == _SPREAD for p in r.phases if p.rows), None)
    return PhaseCapture(
        roles=tuple(_with_total(r) for r in figures if r.role != _SPREAD),
        row="tile",
        rows=seen.phase_rows,
        tiles=roles.tiles,
        clusters=roles.clusters,
        sm_ghz=roles.sm_ghz,
        launch_ms=roles.launch_ms,
        spread=spread,
        released_before_stores=released_before_stores,
    )


def stage_phases(seen: HarnessResult, context: Context) -> TimingAnalysis | None:
    """Return what the phases of a stage's result mean; None for a build without clocks."""
    kernel, build = context.kernel, context.build
    variant = kernel.variants.get(build.variant)
    if not seen.phases and not (variant and variant.defines.get(CLOCKED)):
        return None
    early = releases_early(kernel, build.arch, build.variant)
    return analyse_phases(phase_capture(seen, released_before_stores=early))


def releases_early(kernel: Kernel, arch: str, variant: str) -> bool:
    """Return whether the epilogue of a build hands the accumulator back before it stores."""
    tuned = kernel.tuned(arch, variant) if variant in kernel.variants else {}
    return bool(tuned.get(EARLY_RELEASE, 1))


def _with_total(role: RolePhases) -> RolePhases:
    """Take the phase `total`, which the program counted row by row, out of a role's phases."""
    total = next((p for p in role.phases if p.name == "total"), None)
    return RolePhases(role.role, tuple(p for p in role.phases if p is not total), total)
