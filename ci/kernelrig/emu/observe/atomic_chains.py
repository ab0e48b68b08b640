"""Chains of atomics on one variable: who is behind one of them is ordered behind all before.

An atomic observes the write that it reads, and by way of that all atomics before it in the chain.
What was observed comes before what the observing thread does then, without a fence (observation
order and causality order, PTX ISA 8.9.2 and 8.9.6): the last of many threads that count may set the
counter to 0 by a plain store. It holds for that variable alone. A red is in the chain, and reads
nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.emu.observe.access_records import ATOMIC, LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import LEVELS, SAME, Known, Warp, lanes_of
from kernelrig.emu.observe.order_check import Access

Use = tuple[Warp, int, int]
"""Lanes (bits) of a warp that used a variable, and its time."""


@dataclass
class Chain:
    """`first`: the record from which on atomics are in it. `last`: the last of them, None where
    there is none, or where nobody is behind all: red that came last have observed nothing.
    """

    first: int = 0
    last: Use | None = None
    blind: bool = False


class AtomicChains:
    """The chains of global memory, by the flat byte of their variable."""

    def __init__(self, records: AccessRecords) -> None:
        self.records = records
        self._chains: dict[int, Chain] = {}

    def goes_on(self, warp: Warp, flat: int, lanes: int, observed: bool) -> None:
        """Lanes of a warp used a variable by an atomic, which has observed those before, or not."""
        chain = self._chains.setdefault(flat, Chain())
        if not observed:
            others = chain.last is not None and not self._knows(warp, lanes, chain.last)
            chain.blind |= others or lanes.bit_count() > 1
        else:
            chain.blind = False
        chain.last = None if chain.blind else (warp, lanes, warp.time)

    def breaks(self, flat: int) -> None:
        """A strong store, which observes nothing, wrote the variable."""
        if flat in self._chains:
            self._chains[flat] = Chain(self.records.count)

    def is_observed(self, access: Access, flat: int, code: int) -> bool:
        """Say whether `access`, by one lane, comes behind an atomic that observed that one."""
        entry = self.records.entries[code >> LANE_BITS]
        chain = self._chains.get(flat)
        if (
            chain is None
            or chain.last is None
            or entry.write != ATOMIC
            or entry.level < LEVELS["gpu"]
            or self.records.table[-1, code >> LANE_BITS] != access.size
            or code >> LANE_BITS < chain.first
        ):
            return False
        return _is_behind(access.who, access.bits, access.known, chain.last)

    def _knows(self, warp: Warp, lanes: int, use: Use) -> bool:
        return all(_is_behind(warp, bits, view.known, use) for bits, view in warp.parts(lanes))


def _is_behind(who: object, bits: int, known: Known, use: Use) -> bool:
    warp, lanes, time = use
    if who is warp and bits & lanes:
        return True
    clock = known.get(warp.cluster.number)
    if clock is None:
        return False
    return any(clock[SAME, warp.column + lane] >= time for lane in lanes_of(lanes))
