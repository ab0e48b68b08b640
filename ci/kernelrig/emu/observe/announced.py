"""Strong (volatile or relaxed) accesses that do not race, and that nothing orders where it matters.

Data that a flag announces, with no fence between. Strong accesses do not race (PTX ISA
8.7), and yet nothing orders these: who reads the flag, and then the data, may read data of before
(8.8, 8.9). Found is a strong load of what another CTA stored strongly, before a strong write that
the loading thread, or one that it is ordered behind, has read.

Lanes of a warp that exchange data by volatile memory, with no __syncwarp between: they were taken
to run in step once, and are threads of their own. Found is a strong load of what another lane of
the warp stored strongly.

A load whose value decides how the loop around it goes on waits for that value itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import FOLLOWED, LEVELS, SAME
from kernelrig.emu.observe.order_check import Access, OrderCheck, is_seen
from kernelrig.emu.observe.shadow import Wrong
from kernelrig.ptx import Flow, Function, Instruction, control_flow, registers_in, results


def announced(records: AccessRecords, access: Access, codes: Array) -> Wrong:
    """Return which last writes (code, and an element of each) a flag alone announced."""
    found, first = np.unique(codes, return_index=True)
    return [
        (code, element)
        for code, element in zip(found.tolist(), first.tolist(), strict=True)
        if code and _is_announced(records, access, code)
    ]


def of_other_lanes(
    records: AccessRecords, access: Access, codes: Array, own: Array | int, strict: OrderCheck
) -> Wrong:
    """Return which last writes other lanes of the warp stored strongly, unordered."""
    bad = strict(codes, own)
    if bad is None:
        return []
    found, first = np.unique(codes[bad], return_index=True)
    places = np.flatnonzero(bad)[first]
    entries = [records.entries[code >> LANE_BITS] for code in found.tolist()]
    return [
        (int(code), int(place))
        for code, place, entry in zip(found, places, entries, strict=True)
        if entry.who is access.who and entry.write == 1 and entry.level
    ]


def _is_announced(records: AccessRecords, access: Access, code: int) -> bool:
    entry = records.entries[code >> LANE_BITS]
    # A store, no atomic (of which `write` is 2) and no operation, of another CTA.
    if (
        entry.write != 1
        or entry.asynchronous
        or entry.level < LEVELS["gpu"]
        or entry.cta == access.cta
    ):
        return False
    own = entry.cluster == access.cluster.number
    clock = access.clock if own else access.known.get(entry.cluster)
    return is_seen(records, code, clock, FOLLOWED) and not is_seen(records, code, clock, SAME)


@dataclass
class Polls:
    """The loads of a function whose value decides how a loop around them goes on."""

    function: Function

    def __post_init__(self) -> None:
        self._known: dict[int, bool] = {}

    @cached_property
    def _flow(self) -> Flow:
        return control_flow(self.function)

    def is_one(self, at: int) -> bool:
        if at not in self._known:
            self._known[at] = self._decides(at)
        return self._known[at]

    def _decides(self, at: int) -> bool:
        loop = self._flow.loop_of(self._flow.block_of[at])
        code = [i for b in loop for i in self._flow.instructions(self._flow.blocks[b])]
        values = {r.index for r in results(self.function.instructions[at])}
        grows = True
        while grows:
            grows = False
            for instruction in code:
                made = {r.index for r in results(instruction)}
                if not made <= values and not values.isdisjoint(_named(instruction)):
                    values |= made
                    grows = True
        branches = (i for i in code if i.opcode in ("bra", "brx", "exit", "ret"))
        return any(not values.isdisjoint(_named(i)) for i in branches)


def _named(instruction: Instruction) -> set[int]:
    guard = (instruction.guard.register,) if instruction.guard else ()
    named = (r for operand in instruction.operands for r in registers_in(operand))
    return {r.index for r in (*guard, *named)}
