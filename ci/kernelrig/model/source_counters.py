"""Counters and samples by instruction (ncu's SourceCounters), and what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.frame import Frame


@dataclass(frozen=True, slots=True)
class CountedInstruction:
    """One SASS instruction of a profiled kernel.

    `address` is absolute. `stalls` are samples by reason, without reasons that have none;
    `executed` counts warps, `threads` and `predicated_on` threads. `counters` are further columns,
    by name.
    """

    address: int
    sass: str
    samples: int
    not_issued: int
    executed: int
    threads: int
    predicated_on: int
    stalls: dict[str, int] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    line: Frame | None = None


@dataclass(frozen=True, slots=True)
class SourceCounters:
    """The instructions of one launch, by address. `warps` are those of a CTA, 0 if not known."""

    kernel: str
    instructions: tuple[CountedInstruction, ...]
    warps: int = 0


@dataclass(frozen=True, slots=True)
class StallShare:
    """Samples with one reason; `share` is of all samples of what they are part of, 0 to 1."""

    reason: str
    samples: int
    share: float
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a role: a loop, or what the same warps execute outside of one.

    `at` is its lowest address from the kernel's start. `times` is how often a warp goes through it,
    summed over warps; `per_time` the instructions that this takes.
    """

    at: int
    what: str
    warps: str
    loop: bool
    instructions: int
    times: int
    per_time: float
    samples: int
    stalls: tuple[StallShare, ...]


@dataclass(frozen=True, slots=True)
class SourceRole:
    """What the warps of one role execute.

    `per_iteration` are the instructions of one turn of its main loop, without dispatch and without
    waits that are tried again; `iterations` how many turns its warps take together. `per_tile` is
    over all its warps, None where the number of tiles is not known.
    """

    name: str
    warps: str
    instructions: int
    executed: int
    iterations: int
    per_iteration: float
    per_tile: float | None
    retried: int
    samples: int
    share: float
    predicated_on: float
    stalls: tuple[StallShare, ...]
    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class TensorUse:
    """The instructions of one mnemonic that the tensor core executes."""

    opcode: str
    instructions: int
    executed: int
    samples: int
    stalls: tuple[StallShare, ...]


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """One place that waits for an mbarrier, or for a barrier of the CTA or the cluster.

    `passes` is how often it was gone through, `retries` how often its loop tried again. `samples`
    are those of the wait, of its loop, and of what branches on it.
    """

    at: int
    sass: str
    role: str
    passes: int
    retries: int
    samples: int
    share: float
    line: Frame | None = None


@dataclass(frozen=True, slots=True)
class StalledInstruction:
    """An instruction on which many samples lie; `waits_for` is what wrote what it reads."""

    at: int
    sass: str
    role: str
    samples: int
    share: float
    reason: str
    waits_for: str = ""
    line: Frame | None = None


@dataclass(frozen=True, slots=True)
class MixShare:
    """Executed instructions of one class; `share` is of all, 0 to 1."""

    what: str
    instructions: int
    executed: int
    share: float


@dataclass(frozen=True, slots=True)
class MemoryExcess:
    """An access that moves more than it must: `needed` and `moved` in `unit`, summed."""

    at: int
    sass: str
    role: str
    unit: str
    needed: int
    moved: int
    line: Frame | None = None


@dataclass(frozen=True, slots=True)
class PredictedCount:
    """A count of executed instructions as an expression, and as measured."""

    opcode: str
    expression: str
    predicted: int
    measured: int


@dataclass(frozen=True, slots=True)
class LayoutBlock:
    """A basic block: bytes from the kernel's start, and where control goes from it."""

    at: int
    size: int
    role: str
    depth: int
    executed: int
    samples: int
    to: tuple[int, ...]
    last: str


@dataclass(frozen=True, slots=True)
class SourceAnalysis:
    """What counters by instruction mean. `warps` and `tiles` are 0 where they are not known."""

    kernel: str
    instructions: int
    executed: int
    samples: int
    samples_executed: int
    not_issued: int
    warps: int
    tiles: int
    stalls: tuple[StallShare, ...]
    roles: tuple[SourceRole, ...]
    tensor: tuple[TensorUse, ...]
    waits: tuple[BarrierWait, ...]
    top: tuple[StalledInstruction, ...]
    mix: tuple[MixShare, ...]
    excess: tuple[MemoryExcess, ...]
    predictions: tuple[PredictedCount, ...]
    layout: tuple[LayoutBlock, ...]
    notes: tuple[str, ...]
