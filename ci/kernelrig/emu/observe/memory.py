"""Memory used against its declaration (memcheck), and how shared memory's banks were hit.

Bounds and alignment are found where an address is resolved (`machine.addressing`): an access out of
bounds has no meaning that could be executed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import name_of, object_of
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.region_names import SharedRegion
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.numerics.arrays import LANES, Array, Mask
from kernelrig.emu.observe.marks import any_marked, mark
from kernelrig.emu.observe.shared_arrays import arrays_of
from kernelrig.findings.demangling import demangled

BANKS = 32
BANK_BYTES = 4
_NON_COHERENT, _WROTE = 1, 2
BARRIER_BYTES = 8


class MemoryUse(Hooks):
    """Watches plain accesses to live mbarriers, and writes to what ld.global.nc reads.

    It counts bytes that threads and operations move, and wavefronts of shared memory beyond the
    fewest, into the machine's counts.
    """

    def __init__(self) -> None:
        self.non_coherent: NDArray[np.uint8] | None = (
            None  # of global memory; None: no ld.global.nc
        )
        self.live: tuple[int, ...] = ()  # mbarriers, and where they begin and end in their CTAs
        self.span = (0, 0)
        self.arrays: Mapping[int, SharedRegion] = {}

    def started(self, machine: Machine) -> None:
        machine.part(Barriers)  # made here, whichever access is first
        code = machine.program.function.instructions
        if self.non_coherent is None and any(i.opcode == "ld" and "nc" in i.flags for i in code):
            self.non_coherent = np.zeros(len(machine.memory.global_), np.uint8)
        self.arrays = arrays_of(machine.program.function, machine.memory.names)

    def accessed(
        self,
        batch: WarpBatch,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        lanes = batch.mask_of(mask)
        kind = "atomic" if atomic else "write" if write else "read"
        _count(batch.machine, f"{space}_bytes_{kind}", int(lanes.sum()) * size)
        if space == "shared":
            _count(batch.machine, "bank_conflicts", bank_conflicts(index, size, lanes))
            self._spare_barriers(batch, lanes, index, size, write)
            self._stay_inside(batch, lanes, index, size, write)
        elif space == "global" and write and self.non_coherent is not None:
            starts = np.broadcast_to(index, lanes.shape)[lanes]
            broken = any_marked(self.non_coherent, starts, size, _NON_COHERENT)
            if broken.any():
                wrong = np.zeros_like(lanes)
                wrong[lanes] = broken
                text, context = _written(batch.machine, int(starts[broken][0]))
                batch.report("race", text, wrong, same="nc before", context=context)
            mark(self.non_coherent, starts, size, _WROTE)

    def read_non_coherent(self, batch: WarpBatch, mask: Mask, index: Array, size: int) -> None:
        if self.non_coherent is None:
            return
        lanes = batch.mask_of(mask)
        starts = np.broadcast_to(index, lanes.shape)[lanes]
        broken = any_marked(self.non_coherent, starts, size, _WROTE)
        if broken.any():
            wrong = np.zeros_like(lanes)
            wrong[lanes] = broken
            text, context = _read_again(batch.machine, int(starts[broken][0]))
            batch.report("race", text, wrong, same="nc", context=context)
        mark(self.non_coherent, starts, size, _NON_COHERENT)

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        kind = "write" if write else "read"
        _count(op.machine, f"{space}_bytes_async_{kind}", starts.size * size)
        if space != "global" or not write or self.non_coherent is None or not starts.size:
            return
        broken = any_marked(self.non_coherent, starts, size, _NON_COHERENT)
        if broken.any():
            text, context = _written(op.machine, int(starts[broken][0]))
            op.machine.report_op(op, "race", text, same="nc before", context=context)
        mark(self.non_coherent, starts, size, _WROTE)

    def _stay_inside(
        self, batch: WarpBatch, lanes: NDArray[np.bool_], index: Array, size: int, write: bool
    ) -> None:
        """Report accesses to another array than the one whose address they are computed from."""
        array = self.arrays.get(batch.at)
        if array is None:
            return
        offset = np.broadcast_to(index & (SLOT_BYTES - 1), lanes.shape)
        wrong = lanes & ((offset < array.start) | (offset + size > array.end))
        if not wrong.any():
            return
        first = int(np.broadcast_to(index, lanes.shape)[wrong][0])
        name, past = demangled(array.name), (first & (SLOT_BYTES - 1)) + size - array.end
        where = f"{past} bytes past the end" if past > 0 else "before the start"
        kind, place = "store" if write else "load", name_of(batch.machine.memory, "shared", first)
        text = (
            f"{kind} of {size} bytes at {place}: its address is computed from {name}"
            f" ({array.size} bytes), and lies {where} of that"
        )
        context = Context("shared-array-bounds", (name,))
        batch.report("out-of-bounds", text, wrong, same="array", context=context)

    def _spare_barriers(
        self, batch: WarpBatch, lanes: NDArray[np.bool_], index: Array, size: int, write: bool
    ) -> None:
        """Report plain accesses to the bytes of a live mbarrier."""
        live = batch.machine.part(Barriers).places
        if not live:
            return
        # Most accesses are nowhere near: compare with the first and last barrier before all.
        if live != self.live:
            self.live = live
            offsets = [place % SLOT_BYTES for place in live]
            self.span = (min(offsets), max(offsets) + BARRIER_BYTES)
        inside = index & (SLOT_BYTES - 1)
        near = (inside < self.span[1]) & (inside > self.span[0] - size) & lanes
        if not near.any():
            return
        places = np.array(live)
        starts = np.broadcast_to(index, lanes.shape)
        some = starts[near][:, None]
        hit = ((some < places + BARRIER_BYTES) & (some + size > places)).any(axis=1)
        if hit.any():
            wrong = np.zeros_like(lanes)
            wrong[near] = hit
            at = int(some[hit][0, 0])
            where = name_of(batch.machine.memory, "shared", at)
            name = object_of(batch.machine.memory, "shared", at)
            text = (
                f"{'store to' if write else 'load of'} {size} bytes at {where}, a live mbarrier:"
                " only mbarrier instructions may access it"
            )
            context = Context("mbarrier-plain-access", (name,))
            batch.report("barrier-misuse", text, wrong, same="plain access", context=context)


def _count(machine: Machine, name: str, amount: int) -> None:
    machine.counts[name] = machine.counts.get(name, 0) + amount


def bank_conflicts(index: Array, size: int, lanes: NDArray[np.bool_]) -> int:
    """Return how many wavefronts an access takes beyond the fewest that its bytes need.

    A wavefront brings each bank one 4-byte word. Lanes go in groups of 128 bytes: all 32 of up to
    4 bytes each, halves of 8, quarters of 16. Words that lanes share are brought once.
    """
    if index.shape[1] == 1 or (lanes.all() and (index[:, 1:] - index[:, :-1] == size).all()):
        return 0  # one place for all lanes, or one behind the other: most accesses are
    unit = max(size, BANK_BYTES)
    banks = BANKS * BANK_BYTES // unit  # as wide as the access: it hits one of them whole
    starts = index if lanes.all() and index.shape == lanes.shape else np.where(lanes, index, -1)
    words = np.sort(starts.reshape(-1, min(banks, LANES)) // unit, axis=1)
    distinct = words >= 0
    distinct[:, 1:] &= words[:, 1:] != words[:, :-1]
    group, column = np.nonzero(distinct)
    hits = np.bincount(group * banks + words[group, column] % banks, minlength=len(words) * banks)
    most = hits.reshape(-1, banks).max(axis=1)
    return int((most[most > 0] - 1).sum())


def _read_again(machine: Machine, flat: int) -> tuple[str, Context]:
    """Return what is said of an ld.global.nc of what the grid has written."""
    text = (
        f"{name_of(machine.memory, 'global', flat)} was written by the same grid, and is read by"
        " ld.global.nc: such a load may return any value it ever held, whatever the order"
    )
    return text, Context("non-coherent-load", (object_of(machine.memory, "global", flat),))


def _written(machine: Machine, flat: int) -> tuple[str, Context]:
    """Return what is said of a write behind an ld.global.nc: whether it is ordered behind it, the
    race detector knows.
    """
    text = (
        f"{name_of(machine.memory, 'global', flat)} was read by ld.global.nc, for data that the"
        " grid never writes, and is written"
    )
    rule = "non-coherent-load-before-write"
    return text, Context(rule, (object_of(machine.memory, "global", flat),))
