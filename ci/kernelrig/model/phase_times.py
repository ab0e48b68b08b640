"""Cycles of the phases of each warp role, as a timing build counts them, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Phase:
    """The cycles of one phase of a role's work, over the rows that have it.

    p95 is the smallest value that at least 95% of them do not exceed. None is what was not said; of
    no rows all are.
    """

    name: str
    rows: int
    mean_cycles: float | None
    min_cycles: int | None
    max_cycles: int | None
    p95_cycles: int | None


@dataclass(frozen=True, slots=True)
class RolePhases:
    """What one warp, or warpgroup, does in a row: its phases in their order.

    `total` is over whole rows; a role of which only some phases are known has none.
    """

    role: str
    phases: tuple[Phase, ...]
    total: Phase | None = None


@dataclass(frozen=True, slots=True)
class PhaseCapture:
    """One launch of a timing build. `row` is what a figure is per: a tile, or a CTA.

    `tiles`, `clusters`, `sm_ghz` and `launch_ms` are 0 where they are not known. `spread` is, over
    the tiles, the slowest minus the fastest epilogue warp in one phase. `released_before_stores`
    says whether the epilogue hands the accumulator back before it stores.
    """

    roles: tuple[RolePhases, ...]
    row: str
    rows: int
    tiles: int = 0
    clusters: int = 0
    sm_ghz: float = 0.0
    launch_ms: float = 0.0
    spread: Phase | None = None
    released_before_stores: bool = True


class Bound(StrEnum):
    """Which role the others wait for."""

    EPILOGUE = "epilogue"
    MMA = "MMA"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One phase of a role's mean row; `share` is of the role's total, from 0 to 1."""

    phase: str
    cycles: float
    share: float
    waits: bool


@dataclass(frozen=True, slots=True)
class RoleBudget:
    """How the mean row of a role divides, in cycles. `kind` is what the role does."""

    role: str
    kind: str
    total: float
    waiting: float
    working: float
    lines: tuple[BudgetLine, ...]


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """The two roles that wait for one another, in cycles of a row.

    A pipeline of an MMA warp and its epilogue: `productive` is the MMA warp's row without its wait
    for an accumulator, `effective` the epilogue's until it hands the accumulator back, `deficit`
    how much longer that is, `amplification` the MMA warp's wait for each cycle of it (None without
    a deficit). Two warpgroups in turn: `productive` is the work of one, `effective` its row.
    `floor` is the least that the mean work alone needs, without variation between tiles, and
    `critical_share` the part of the work that the row is long.
    """

    bound: Bound
    cycle: float
    productive: float
    effective: float
    deficit: float
    amplification: float | None
    floor: float
    critical_share: float
    text: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How much faster a role's row would be without what it waits for."""

    role: str
    without: str
    cycles: float
    factor: float


@dataclass(frozen=True, slots=True)
class Projection:
    """Estimated, never measured: the row after `changes`, with the least and the most it can be."""

    changes: tuple[tuple[str, float], ...]
    before: float
    estimated: float
    least: float
    most: float
    text: str

    @property
    def factor(self) -> float:
        return self.before / self.estimated


@dataclass(frozen=True, slots=True)
class Jitter:
    """How one phase varies over its rows; `p95_ratio` and `max_ratio` are to its mean."""

    role: str
    phase: str
    mean: float
    least: int
    most: int
    p95_ratio: float | None
    max_ratio: float
    text: str


@dataclass(frozen=True, slots=True)
class Contention:
    """The same phase in several warps: how much of their spread is always on the same ones.

    `spread_of_means` is the slowest mean minus the fastest, `in_a_row` the mean over rows of the
    slowest minus the fastest warp (None where it was not measured); cycles.
    """

    phase: str
    means: tuple[tuple[str, float], ...]
    spread_of_means: float
    in_a_row: float | None
    asymmetric: bool
    fat_tails: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a launch the measured rows fill: cycles of one CTA, or of one cluster."""

    measured: float
    launch: float
    text: str


@dataclass(frozen=True, slots=True)
class TimingAnalysis:
    """What the phases of a timing build mean; parts that its roles do not allow are empty."""

    capture: PhaseCapture
    budgets: tuple[RoleBudget, ...]
    equilibrium: Equilibrium | None
    ceilings: tuple[Ceiling, ...]
    jitter: tuple[Jitter, ...]
    contention: tuple[Contention, ...]
    coverage: Coverage | None
    projection: Projection | None = None
    production: str = ""

    @property
    def headline(self) -> str:
        """One sentence: what the launch is bound by."""
        if self.equilibrium:
            return self.equilibrium.text
        longest = max(self.budgets, key=lambda b: b.total)
        line = max(longest.lines, key=lambda line: line.cycles)
        share = f"{100 * line.share:.1f}% of its {longest.total:,.0f} cycles"
        return f"{longest.role}: {line.phase} is {share}"
