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
from numpy.random import default_rng  # named here, or each process of a launch would load it
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import LANES, lane_bits, lanes_of_bits
from kernelrig.emu.observe.bit_flow import Flow
from kernelrig.emu.observe.value_origin import Held

Numbers = NDArray[np.uint64]
_SIGNS = {"add": (1, 1), "sub": (1, -1), "neg": (-1,), "mov": (1,)}
_TYPES = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})


class LinearValues:
    """Gives values their numbers, the same in every run."""

    def __init__(self) -> None:
        self._draws = default_rng(0)

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
        numbers = _numbers(value.sums, value.lanes)
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
    return np.asarray(_numbers(value.sums, value.lanes)[sources & np.uint32(LANES - 1)])


def merged(lanes: int, new: Held | None, left: int, before: Held | None) -> Numbers | None:
    """Return the numbers of a register of which some lanes are written and others left."""
    found = np.zeros(LANES, np.uint64)
    for chosen, value in ((left, before), (lanes, new)):
        if not chosen:
            continue
        if value is None or value.sums is None:
            return None
        found = np.where(lanes_of_bits(chosen), value.sums, found)
    return found


def _numbers(sums: Numbers, lanes: int) -> Numbers:
    """Return the numbers of lanes that hold such a value, 0 in others."""
    return np.where(lanes_of_bits(lanes), sums, np.uint64(0))
