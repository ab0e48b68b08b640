"""Two measurements of a kernel, counter by counter: what moved by more than its noise."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Counted:
    """One counter in its base unit."""

    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class LineSamples:
    """Samples of stalled warps on a source line, and the reason of most of them."""

    samples: int
    reason: str


@dataclass(frozen=True, slots=True)
class CounterSide:
    """What one measurement says of a kernel.

    `lines` are by `file:line`; `phases` mean cycles by `role: phase`, with `phase_row` the cycles
    of each role's whole row. `conditions` must be equal on both sides of a comparison.
    """

    name: str
    kernel: str = ""
    counters: dict[str, Counted] = field(default_factory=dict)
    lines: dict[str, LineSamples] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    phase_row: dict[str, float] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    sm_hz: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedCounter:
    """A counter whose values differ by more than `noise`, in its unit.

    `percent` is of A's value, None where that is 0. `better` is whether less or more of it is good
    and it moved that way, None where neither is. `times_noise` ranks counters of unlike units.
    """

    group: str
    counter: str
    unit: str
    a: float
    b: float
    percent: float | None
    noise: float
    times_noise: float
    better: bool | None


@dataclass(frozen=True, slots=True)
class MovedLine:
    """A source line whose share of all samples differs by more than chance; shares are 0 to 1."""

    line: str
    a: float
    b: float
    reason: str


@dataclass(frozen=True, slots=True)
class CounterComparison:
    """B compared with A. `compared` counters are on both sides, the others on one alone.

    `unlike` is what differs between the two machines, or in what they measured: then it is
    inconclusive, and names nothing that moved, unless it was `forced`. `time` is what the runs'
    own timing stages say; a profile says nothing of time.
    """

    a: str
    b: str
    compared: int
    moved: tuple[MovedCounter, ...]
    lines: tuple[MovedLine, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    unlike: tuple[str, ...]
    forced: bool
    time: str = ""
    notes: tuple[str, ...] = ()

    @property
    def inconclusive(self) -> bool:
        return bool(self.unlike) and not self.forced

    @property
    def worse(self) -> tuple[MovedCounter, ...]:
        return tuple(m for m in self.moved if m.better is False)
