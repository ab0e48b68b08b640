"""What operations of the core are called: by number, in the order of core/sync/sync.hpp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa.wgmma import PRODUCT, form_of
from kernelrig.emu.machine.program import Program
from kernelrig.emu.tensor.instruction_descriptor import KINDS

NAMES = (
    "cp.async.bulk", "cp.async.bulk.tensor", "tcgen05.ld", "tcgen05.st",
    "tcgen05.commit.cta_group::1", "tcgen05.commit.cta_group::2",
    "cp.async", "cp.async.mbarrier.arrive",
    *(f"tcgen05.mma.cta_group::{group}.kind::{kind}" for kind in KINDS for group in (1, 2)),
    *(f"tcgen05.mma.ws.cta_group::1.kind::{kind}" for kind in KINDS),
)  # fmt: skip
"""Those that every program may have; behind them those of its products of warpgroups."""


def names_of(program: Program) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the names of a program's operations, and the number of that of each instruction's."""
    names = dict.fromkeys(NAMES)
    numbers = np.zeros(len(program.codegen.steps), np.int32)
    for at, step in enumerate(program.codegen.steps):
        if step is not None and step.native is not None and step.native.name == PRODUCT:
            name = form_of(program.function.instructions[at]).name
            names.setdefault(name)
            numbers[at] = list(names).index(name)
    return tuple(names), numbers
