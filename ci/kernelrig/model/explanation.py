"""What the profile of a launch means: what bounds it, what costs it time, what is worth trying."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SharedPiece:
    """A part of a CTA's shared memory. `offset` is from the start of dynamic shared memory.

    There are `count` of them, each of `size_bytes`, one every `stride_bytes`.
    """

    name: str
    offset: int
    size_bytes: int
    count: int = 1
    stride_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """shared-layout.json of a run: the parts of shared memory, as its program names them."""

    pieces: tuple[SharedPiece, ...]
    schema: int = 1


@dataclass(frozen=True, slots=True)
class SharedMap:
    """Shared memory of a CTA in bytes; `free_bytes` is what one CTA an SM could have besides."""

    used_bytes: int
    free_bytes: int
    pieces: tuple[SharedPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Warps of an SM. `limits` are the CTAs an SM that each resource allows, by its name."""

    active_warps: float
    possible_warps: int
    most_warps: int
    ctas: int
    waves: float
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PowerUse:
    """Power as NVML sampled it under load, in a timing stage: never from ncu.

    `joules` are of one launch: its median time at the median power. `limit_w` is the card's.
    """

    run: str
    median_ms: float
    watt: float
    limit_w: float
    joules: float
    sm_mhz: float

    @property
    def is_limit(self) -> bool:
        """Whether the card could not draw more."""
        return self.limit_w > 0 and self.watt >= 0.97 * self.limit_w


@dataclass(frozen=True, slots=True)
class CostCause:
    """Something that a launch spends time on, and the share of its time that it explains.

    `least_percent` and `most_percent` are estimates of a model, of the launch's time as it is.
    `figures` are what they follow from; `at` are the places in the code.
    """

    name: str
    means: str
    do: str
    least_percent: float
    most_percent: float
    figures: dict[str, float]
    at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FiredRule:
    """A rule of a profile plan that fired, with the numbers that it compares."""

    plan: str
    name: str
    numbers: dict[str, float]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the profile of one launch means. Percentages are 0 to 100.

    `units` are busy shares of the launch's cycles, `roofline` what the shape needs at the least of
    them at the clock of the profile; empty where the shape is not known. `causes` are all that
    explain time, the first explains most; `suggestions` name those that are worth trying.
    `evidence` are the reports whose numbers these are: files of the run, or the one that was given.
    """

    kernel: str
    device: str
    bound: str
    units: dict[str, float]
    roofline: dict[str, float]
    sm_mhz: float
    most_sm_mhz: float
    occupancy: Occupancy | None
    stalls: dict[str, float]
    lanes: dict[str, float]
    memory: dict[str, float]
    tensor: dict[str, float]
    shared: SharedMap | None
    power: PowerUse | None
    causes: tuple[CostCause, ...]
    suggestions: tuple[str, ...]
    rules: tuple[FiredRule, ...]
    notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
