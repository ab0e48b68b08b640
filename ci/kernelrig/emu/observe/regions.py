"""The regions of the shadow memory: each buffer, each CTA's shared and tensor memory.

They are made when they are accessed first: a launch may have many CTAs, of which few run at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES, SLOT_BYTES
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import MOST_OPERATIONS, Cluster, Warp
from kernelrig.emu.observe.conflicts import TENSOR_COLUMNS
from kernelrig.emu.observe.readers import Readers
from kernelrig.emu.observe.shadow import Region
from kernelrig.emu.observe.view_changes import free_columns

TENSOR_LANES = 128
LANES_A_GRANULE = 16  # of tensor memory: the fewest that instructions with M 64 leave to others


class Regions:
    """The regions of a run; those of shared and tensor memory live as long as their wave."""

    def __init__(self, records: AccessRecords) -> None:
        self.machine: Machine
        self.records = records
        self.warps: list[Warp] = []
        self._buffers: dict[int, Region] = {}
        self._shared: dict[int, Region] = {}
        self._tensor: dict[int, Region] = {}
        self._cells: dict[tuple[int, ...], Array] = {}

    def forget_wave(self) -> None:
        """Shared and tensor memory of the CTAs that have run is no more."""
        self._shared.clear()
        self._tensor.clear()

    @property
    def of_wave(self) -> Iterable[Region]:
        """Shared and tensor memory of the CTAs that run."""
        return (*self._shared.values(), *self._tensor.values())

    def _buffer(self, flat: int) -> Region | None:
        found = self.machine.memory.global_.find(flat)
        if found is None or found.read_only:
            return None
        region = self._buffers.get(found.start)
        if region is None:
            region = Region(found.name, found.start, found.size, self.records, lazy=True)
            self._buffers[found.start] = region
        return region

    def _slot(self, slot: int) -> Region:
        region = self._shared.get(slot)
        if region is None:
            first = self.machine.slot_of.tolist().index(slot)
            size = self.machine.memory.shared_bytes + RESERVED_BYTES
            name = f"CTA {int(self.machine.cta_of[first])}"
            region = Region(name, slot * SLOT_BYTES, size, self.records)
            own = self.warps[first : first + self.machine.geometry.warps]
            region.readers = Readers(first, [w.column for w in own], len(region.writes))
            self._shared[slot] = region
        return region

    def of(self, space: str, flat: Array, size: int) -> list[tuple[Region, Array | None]]:
        """Return the regions of flat bytes, with the numbers of those in each; None is all."""
        low, high = int(flat.min()), int(flat.max())
        if space == "shared":
            first = low // SLOT_BYTES
            if high // SLOT_BYTES == first:
                return [(self._slot(first), None)]
            slots = flat // SLOT_BYTES
            return [(self._slot(int(s)), np.flatnonzero(slots == s)) for s in np.unique(slots)]
        region = self._buffer(low)
        if region and high + size <= region.start + region.size:
            return [(region, None)]
        found = self.machine.memory.global_.find(low)
        if found and high + size <= found.start + found.size:
            return []  # parameters and the like, which are never written
        each = [self._buffer(int(f)) for f in flat]
        unique = {id(r): r for r in each if r}
        return [
            (r, np.array([i for i, other in enumerate(each) if other is r]))
            for r in unique.values()
        ]

    def tensor_of(self, slot: int) -> Region:
        """Return the tensor memory of the CTA in `slot`; its granules are lanes by columns."""
        region = self._tensor.get(slot)
        if region is None:
            number = int(self.machine.cta_of[self.machine.slot_of.tolist().index(slot)])
            granules = TENSOR_LANES // LANES_A_GRANULE * TENSOR_COLUMNS
            region = self._tensor[slot] = Region(f"CTA {number}", 0, granules * 4, self.records)
            region.step = LANES_A_GRANULE
        return region

    def cells(self, region: Region, piece: tuple[int, ...]) -> Array:
        _, top, bottom, left, right = piece
        if (top | bottom) % region.step:
            region.split_rows(region.step, TENSOR_COLUMNS)
            region.step = 1
        key = (region.step, *piece[1:])
        cells = self._cells.get(key)
        if cells is None:
            rows = np.arange(top // region.step, bottom // region.step) * TENSOR_COLUMNS
            cells = self._cells[key] = (rows[:, None] + np.arange(left, right)).reshape(-1)
        return cells

    def column_of(self, cluster: Cluster) -> int:
        """Return a column for an operation.

        What operations did to global memory keeps no column: a grid writes all of its output. Who
        knows a later operation of the column seems to know the old one too, so that a race over
        its bytes may be missed; none is invented.
        """
        if not cluster.free:
            in_use = np.zeros(cluster.columns, np.bool_)
            for region in self.of_wave:
                for codes in (region.writes, region.reads):
                    used = np.unique(codes) >> LANE_BITS
                    used = used[self.records.cluster[used] == cluster.number]
                    in_use[self.records.column[used]] = True
            free_columns(cluster, in_use)
            # Half free at least, or this search would come again at once.
            if len(cluster.free) < len(cluster.taken) // 2:
                done = [c for c, a in cluster.taken.items() if a.done]
                if cluster.columns < MOST_OPERATIONS or not done:
                    cluster.grow()
                else:  # what the oldest did may pass for known: a race may be missed, none invented
                    cluster.release(iter(done[: len(done) // 2 + 1]))
        return cluster.free.pop()
