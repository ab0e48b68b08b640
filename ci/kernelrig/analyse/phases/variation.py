"""How phases vary: from row to row (jitter), and from warp to warp (contention)."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.analyse.phases.phase_names import READ_BACK, waits
from kernelrig.model import Contention, Jitter, Phase, PhaseCapture

ASYMMETRIC_CYCLES = 200.0
"""Of a tile: the report of a timing build calls its warps asymmetric from here on."""
ASYMMETRIC_SHARE = 0.05
"""Of the mean, where a row is not a tile."""

_STEADY = 1.1
_FAT_TAIL = 1.5
"""The slowest row as a multiple of p95: above it a few rows are far from all others."""


def jitter(capture: PhaseCapture) -> Iterator[Jitter]:
    """Yield how each phase varies whose least and largest are known."""
    for role in capture.roles:
        for phase in (*role.phases, *((role.total,) if role.total else ())):
            if found := _jitter(role.role, phase):
                yield found


def _jitter(role: str, phase: Phase) -> Jitter | None:
    mean, least, most = phase.mean_cycles, phase.min_cycles, phase.max_cycles
    if not mean or least is None or most is None:
        return None
    p95 = phase.p95_cycles / mean if phase.p95_cycles is not None else None
    if phase.p95_cycles and most > _FAT_TAIL * phase.p95_cycles:
        text = f"fat tail: the slowest is {most / phase.p95_cycles:.1f} times p95"
    elif most <= _STEADY * mean or (p95 is not None and p95 <= _STEADY and most <= 2 * mean):
        text = "steady"
    else:
        text = f"varies: the slowest is {most / mean:.1f} times the mean"
    return Jitter(role, phase.name, mean, least, most, p95, most / mean, text)


def contention(capture: PhaseCapture) -> Iterator[Contention]:
    """Yield, for each phase of work that several warps have, how far apart they are."""
    names = dict.fromkeys(p.name for r in capture.roles for p in r.phases if not waits(p.name))
    for name in names:
        held = [
            (role.role, p, p.mean_cycles)
            for role in capture.roles
            for p in role.phases
            if p.name == name and p.mean_cycles is not None
        ]
        if len(held) > 1:
            spread = capture.spread.mean_cycles if capture.spread else None
            in_a_row = spread if name == READ_BACK else None
            yield _contention(name, held, in_a_row, capture.row)


def _contention(
    name: str, held: list[tuple[str, Phase, float]], in_a_row: float | None, row: str
) -> Contention:
    means = tuple((role, mean) for role, _, mean in held)
    slowest, fastest = max(m for _, m in means), min(m for _, m in means)
    apart = slowest - fastest
    limit = ASYMMETRIC_CYCLES if row == "tile" else ASYMMETRIC_SHARE * slowest
    asymmetric = apart >= limit
    fat = tuple(
        role
        for role, p, _ in held
        if p.p95_cycles and p.max_cycles and p.max_cycles > _FAT_TAIL * p.p95_cycles
    )
    late = ", ".join(role for role, mean in means if mean - fastest >= apart / 2)
    text = f"means {fastest:,.0f} to {slowest:,.0f}, {apart:,.0f} apart"
    text += f": asymmetric, {late} slower" if asymmetric else ": symmetric"
    if in_a_row:
        always = min(1.0, apart / in_a_row)
        text += (
            f"; within a {row} {in_a_row:,.0f} apart, {100 * always:.0f}% of it always the same"
            " warps', the rest contention that changes"
        )
    if fat:
        text += f"; fat tail in {', '.join(fat)}"
    return Contention(name, means, apart, in_a_row, asymmetric, fat, text)
