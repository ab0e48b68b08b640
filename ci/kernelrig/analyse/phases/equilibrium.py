"""The equilibrium of roles that wait for one another: which one is slower, and by how much.

Two structures are known by the names of their phases: an MMA warp that fills accumulators which
epilogue warps empty (Blackwell), and two warpgroups that take turns at the tensor core (Hopper).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kernelrig.analyse.phases.phase_names import ACCUMULATOR_WAIT, READ_BACK, STORES
from kernelrig.model import Bound, Equilibrium, PhaseCapture, RoleBudget

ACCUMULATORS = 2
"""In tensor memory: while one is filled, the other is emptied."""


class Structure(Protocol):
    """Roles that wait for one another. `work` are the mean cycles of each phase of a row."""

    @property
    def cycle(self) -> float: ...
    @property
    def work(self) -> Mapping[str, float]: ...
    @property
    def times(self) -> Mapping[str, int]:
        """How often a phase's work may follow on itself within a row; 1 where it is not named."""

    def floor(self, work: Mapping[str, float]) -> float:
        """Return the shortest row that mean work alone allows, if no row differed from another."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """An MMA warp, and the epilogue warp that holds an accumulator for longest."""

    mma: RoleBudget
    epilogue: RoleBudget
    read_back: float
    released_before_stores: bool

    @property
    def cycle(self) -> float:
        return self.mma.total

    @property
    def work(self) -> dict[str, float]:
        """The slowest warp's read-back counts: the accumulator is free when all have read it."""
        own = {line.phase: line.cycles for line in self.mma.lines if line.phase != ACCUMULATOR_WAIT}
        return {**own, READ_BACK: self.read_back, STORES: _cycles(self.epilogue, STORES)}

    @property
    def times(self) -> dict[str, int]:
        return {}

    def floor(self, work: Mapping[str, float]) -> float:
        epilogue = work[READ_BACK] + work[STORES]
        held = work[READ_BACK] if self.released_before_stores else epilogue
        productive = sum(work.values()) - epilogue
        return max(productive, epilogue, (productive + held) / ACCUMULATORS)

    @property
    def held(self) -> float:
        """Cycles of the epilogue's row until it hands the accumulator back."""
        after = _cycles(self.epilogue, STORES) if self.released_before_stores else 0.0
        return self.epilogue.total - after


@dataclass(frozen=True, slots=True)
class Turns:
    """Two warpgroups that alternate: one multiplies while the other stores."""

    consumers: tuple[RoleBudget, RoleBudget]
    multiply: str

    @property
    def cycle(self) -> float:
        return sum(c.total for c in self.consumers) / 2

    @property
    def work(self) -> dict[str, float]:
        a, b = self.consumers
        return {
            line.phase: (line.cycles + _cycles(b, line.phase)) / 2
            for line in a.lines
            if not line.waits
        }

    @property
    def overlap(self) -> float:
        """Cycles of a row in which both multiply; negative where neither does."""
        return 2 * self.work[self.multiply] - self.cycle

    @property
    def times(self) -> dict[str, int]:
        return {} if self.overlap > 0 else {self.multiply: 2}

    def floor(self, work: Mapping[str, float]) -> float:
        """Return a warpgroup's own work, or both MMAs if one's begin when the other's are done."""
        return max(sum(work.values()), work[self.multiply] * self.times.get(self.multiply, 0))


@dataclass(frozen=True, slots=True)
class Alone:
    """A role that waits for nothing that was measured: its phases follow one another."""

    budget: RoleBudget

    @property
    def cycle(self) -> float:
        return self.budget.total

    @property
    def work(self) -> dict[str, float]:
        return {line.phase: line.cycles for line in self.budget.lines}

    @property
    def times(self) -> dict[str, int]:
        return {}

    def floor(self, work: Mapping[str, float]) -> float:
        return sum(work.values())


def structure_of(capture: PhaseCapture, budgets: tuple[RoleBudget, ...]) -> Structure | None:
    """Return how the roles of a capture depend on one another; None if it has no whole role."""
    mma = [b for b in budgets if b.kind == "MMA"]
    epilogues = [b for b in budgets if b.kind == "epilogue"]
    if len(mma) == 1 and epilogues and _has(mma[0], ACCUMULATOR_WAIT):
        reads = [
            p.mean_cycles
            for role in capture.roles
            for p in role.phases
            if p.name == READ_BACK and p.mean_cycles is not None
        ]
        early = capture.released_before_stores
        pipelines = [Pipeline(mma[0], b, max(reads), early) for b in epilogues]
        return max(pipelines, key=lambda p: p.held)
    consumers = [b for b in budgets if b.kind == "consumer"]
    if len(consumers) == 2:
        names = [[line.phase for line in b.lines] for b in consumers]
        multiply = next((n for n in names[0] if "MMA" in n), "")
        if names[0] == names[1] and multiply and any("turn" in n for n in names[0]):
            return Turns((consumers[0], consumers[1]), multiply)
    return Alone(max(budgets, key=lambda b: b.total)) if budgets else None


def equilibrium(structure: Structure | None) -> Equilibrium | None:
    """Return which of the roles is slower; None where none waits for another."""
    if isinstance(structure, Pipeline):
        return _of_pipeline(structure)
    return _of_turns(structure) if isinstance(structure, Turns) else None


def critical_share(structure: Structure) -> float:
    """Return how much of the roles' work a row is long, at most 1.

    Scaling every duration scales the row alike, so the row is the sum of all work, each part by its
    chance of lying on the critical path; this is the mean of those chances.
    """
    work = sum(cycles * structure.times.get(name, 1) for name, cycles in structure.work.items())
    return min(1.0, structure.cycle / work) if work > 0 else 1.0


def _of_pipeline(pipeline: Pipeline) -> Equilibrium:
    waited = _cycles(pipeline.mma, ACCUMULATOR_WAIT)
    productive = sum(line.cycles for line in pipeline.mma.lines) - waited
    effective = pipeline.held
    deficit = effective - productive
    bound = Bound.EPILOGUE if deficit > 0 else Bound.MMA
    amplified = waited / deficit if deficit > 0 else None
    longer, shorter = ("epilogue", "MMA warp") if deficit > 0 else ("MMA warp", "epilogue")
    text = (
        f"{bound}-bound: the {longer} needs {max(effective, productive):,.0f} cycles a tile, the"
        f" {shorter} {min(effective, productive):,.0f}: {abs(deficit):,.0f} more"
    )
    if amplified is not None:
        text += f", for which the MMA warp waits {waited:,.0f} ({amplified:.2f} for each)"
    floor = pipeline.floor(pipeline.work)
    share = critical_share(pipeline)
    return Equilibrium(
        bound, pipeline.cycle, productive, effective, deficit, amplified, floor, share, text
    )


def _of_turns(turns: Turns) -> Equilibrium:
    work, cycle = turns.work, turns.cycle
    multiply, productive = work[turns.multiply], sum(turns.work.values())
    bound = Bound.MMA if multiply >= productive - multiply else Bound.STORE
    parts = [*work.items(), ("waiting for its turn", cycle - productive)]
    said = ", ".join(f"{name} {100 * cycles / cycle:.1f}%" for name, cycles in parts)
    both = "both multiply" if turns.overlap > 0 else "neither multiplies"
    text = (
        f"{bound}-bound: of a warpgroup's {cycle:,.0f} cycles {said};"
        f" {both} for {abs(turns.overlap):,.0f}"
    )
    floor, share = turns.floor(work), critical_share(turns)
    return Equilibrium(
        bound, cycle, productive, cycle, cycle - productive, None, floor, share, text
    )


def _cycles(budget: RoleBudget, phase: str) -> float:
    return next((line.cycles for line in budget.lines if line.phase == phase), 0.0)


def _has(budget: RoleBudget, phase: str) -> bool:
    return any(line.phase == phase for line in budget.lines)
