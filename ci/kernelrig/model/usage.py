"""What a kernel takes of an SM, and what of it was reviewed and accepted."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.verdict import SCHEMA


@dataclass(frozen=True, slots=True)
class Usage:
    """What one build's kernel takes; of several functions the worst. Fields as in Budget.

    Bytes are per thread, shared memory per CTA, static + dynamic. None: nobody could say.
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
    """What a build came to when somebody looked at it; `fingerprints` by function."""

    toolchain: str
    usage: Usage
    fingerprints: dict[str, str]


@dataclass(frozen=True, slots=True)
class AcceptedBuilds:
    """kernel/accepted.json: by KERNEL-ARCH-VARIANT. `invoke check --accept` writes it."""

    builds: dict[str, AcceptedBuild] = field(default_factory=dict)
    schema: int = SCHEMA
