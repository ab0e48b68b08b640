"""Sums of values that nothing wrote, out of which one is taken again.

CUB's exclusive sums subtract what a thread put in from the inclusive ones: where that was never
written, as of threads behind the last digit of a radix sort, nothing of it is left. So what a
register has beside values that were written gets a random number in each lane, and integer sums,
differences, copies and shuffles are computed of these numbers: where one comes to 0, the value
follows from nothing that was not written. All else gives a value a number of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import LANES, lane_bits
from kernelrig.emu.observe.bit_flow import Flow
from kernelrig.emu.observe.value_origin import Held, chosen

Numbers = NDArray[np.uint64]
_SIGNS = {"add": (1, 1), "sub": (1, -1), "neg": (-1,), "mov": (1,)}
_TYPES = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})


class LinearValues:
    """Gives values their numbers, the same in every run."""

    def __init__(self) -> None:
        self._draws = np.random.default_rng(0)

    def named(self, value: Held) -> Held:
        """Return a value whose lanes have numbers."""
        if value.sums is not None:
            return value
        return value._replace(sums=self._draws.integers(1, 1 << 64, LANES, np.uint64))


def left_of_sums(
    flow: Flow, lanes: int, held: Mapping[int, Held], made: Sequence[Held]
) -> Sequence[Held]:
    """Return what an instruction makes, with what its sums come to."""
    i = flow.instruction
    signs = _SIGNS.get(i.opcode, ())
    of_words = len(i.operands) == 1 + len(signs) and bool(i.flags & _TYPES)
    if len(made) != 1 or len(flow.outs) != 1 or not of_words or i.flags & {"sat", "cc"}:
        return made
    total = np.zeros(LANES, np.uint64)
    for number, register in flow.values:
        value = held.get(register)
        if value is None or not value.lanes & lanes:
            continue
        if value.sums is None or value.decided or number >= len(signs):
            return made
        numbers = np.where(chosen(value.lanes), value.sums, np.uint64(0))
        total = total + numbers if signs[number] > 0 else total - numbers
    result = made[0]
    if i.opcode == "mov":  # a copy has what it is a copy of
        return [result._replace(sums=total)]
    left = result.lanes & lane_bits(total != 0)
    return [result._replace(lanes=left, sums=total)]


def moved_by(value: Held, sources: NDArray[np.uint32]) -> Numbers | None:
    """Return the numbers of lanes that have each taken another lane's value."""
    if value.sums is None:
        return None
    numbers = np.where(chosen(value.lanes), value.sums, np.uint64(0))
    return np.asarray(numbers[sources & np.uint32(LANES - 1)])


def merged(lanes: int, new: Held | None, left: int, before: Held | None) -> Numbers | None:
    """Return the numbers of a register of which some lanes are written and others left."""
    if (lanes and (new is None or new.sums is None)) or (
        left and (before is None or before.sums is None)
    ):
        return None
    none = np.zeros(LANES, np.uint64)
    written = new.sums if new is not None and new.sums is not None else none
    kept = before.sums if before is not None and before.sums is not None else none
    return np.where(chosen(lanes), written, np.where(chosen(left), kept, none))
