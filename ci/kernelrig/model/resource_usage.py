"""The resources of an SM that a kernel uses, and the reviewed, accepted ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.verdict import SCHEMA


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources of one build's kernel; of several functions the largest. Fields as in Budget.

    Bytes are per thread; shared memory is per CTA, static + dynamic. None = unknown.
    """

    registers: int
    spill_bytes: int
    stack_bytes: int
    local_instructions: int
    barriers: int
    shared_bytes: int | None = None
    ctas_per_sm: int | None = None


@dataclass(frozen=True, slots=True)
class AcceptedBuild:
    """The resources of a build when they were accepted; `fingerprints` by function."""

    toolchain: str
    usage: Usage
    fingerprints: dict[str, str]


@dataclass(frozen=True, slots=True)
class AcceptedBuilds:
    """kernel/accepted.json: by KERNEL-ARCH-VARIANT. `invoke check --accept` writes it."""

    builds: dict[str, AcceptedBuild] = field(default_factory=dict)
    schema: int = SCHEMA
