"""Chains of atomics on one variable: who is behind one of them is ordered behind all before.

An atomic observes the write that it reads, and by way of that all atomics before it in the chain.
What was observed comes before what the observing thread does then, without a fence (observation
order and causality order, PTX ISA 8.9.2 and 8.9.6): the last of many threads that count may set the
counter to 0 by a plain store. It holds for that variable alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import ATOMIC, LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import LEVELS, SAME, Warp, lanes_of
from kernelrig.emu.observe.order_check import Access


@dataclass
class Chain:
    """`first`: the record from which on atomics are in it. `last`: lanes (bits) and times of warps
    whose atomics came last, together: each of them may have been the very last.
    """

    first: int = 0
    last: list[tuple[Warp, int, int]] = field(default_factory=list)


class AtomicChains:
    """The chains of global memory, by the flat byte of their variable."""

    def __init__(self, records: AccessRecords) -> None:
        self.records = records
        self._chains: dict[int, Chain] = {}

    def goes_on(self, uses: list[tuple[Warp, int, int]]) -> None:
        """Lanes of warps used variables by one atomic: (warp, flat byte, lanes)."""
        begun: set[int] = set()
        for warp, flat, lanes in uses:
            chain = self._chains.setdefault(flat, Chain())
            if flat not in begun:
                chain.last.clear()
                begun.add(flat)
            chain.last.append((warp, lanes, warp.time))

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
            or entry.write != ATOMIC
            or entry.level < LEVELS["gpu"]
            or self.records.table[-1, code >> LANE_BITS] != access.size
            or code >> LANE_BITS < chain.first
        ):
            return False
        return any(self._is_behind(access, *each) for each in chain.last)

    def _is_behind(self, access: Access, warp: Warp, lanes: int, time: int) -> bool:
        if access.who is warp and access.bits & lanes:
            return True
        own = warp.cluster is access.cluster
        clock: Array | None = access.clock if own else access.known.get(warp.cluster.number)
        if clock is None:
            return False
        return any(clock[SAME, warp.column + lane] >= time for lane in lanes_of(lanes))
