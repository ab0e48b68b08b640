"""tcgen05.alloc, dealloc, relinquish_alloc_permit: which CTA owns which columns of tensor memory.

PTX ISA 9.7.16.5 and 9.7.16.7. With cta_group::2 a warp of each CTA of the pair takes part: the even
CTA allocates for both and goes on, the odd one waits for it; to free, each may wait for the other.
Once it has freed, a CTA may exit at once, also before its peer frees ("no extra synchronization").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, read
from kernelrig.emu.machine.cta_barrier import ClusterBarriers
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.instruction_table import Blocked, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.thread_memory import MemorySemantics, store
from kernelrig.emu.numerics.arrays import I64, U32, Array, Mask
from kernelrig.emu.tensor.tensor_memory import COLUMN_MASK, LANE_SHIFT, TensorMemory
from kernelrig.ptx import Address, Instruction
from kernelrig.ptx.rules import DEALLOC_WITHOUT_THE_PEER

GROUPS = "cta_group::1 cta_group::2"


class _Answers:
    """The answers to warps at an alloc or dealloc, until they go on."""

    def __init__(self, machine: Machine) -> None:
        self.memory = machine.part(TensorMemory)
        self.columns: dict[int, int] = {}  # by warp
        self.places: dict[int, int] = {}  # slot of an odd CTA -> where the even one's address is
        self.freed: set[int] = set()


def _paired(i: Instruction) -> bool:
    if not i.flags & {"cta_group::1", "cta_group::2"}:
        raise Unsupported(f"{i.mnemonic} needs .cta_group::1 or .cta_group::2")
    return "cta_group::2" in i.flags


def _rows(
    batch: WarpBatch, mask: Mask, *arrays: Array
) -> Iterator[tuple[int, NDArray[Any], list[int]]]:
    """Yield each row of the mask with its lanes, and the values of its first lane."""
    lanes = batch.mask_of(mask)
    for at in np.nonzero(lanes.any(axis=1))[0]:
        chosen = np.zeros_like(lanes)
        chosen[at] = lanes[at]
        lane = int(np.argmax(lanes[at]))
        shape = lanes.shape
        yield int(at), chosen, [int(np.broadcast_to(a, shape)[at, lane]) for a in arrays]


def _no_pair(batch: WarpBatch, mask: Mask, name: str) -> bool:
    if batch.machine.geometry.cluster_ctas % 2 == 0:
        return False
    batch.report(
        "tmem",
        f"{name}.cta_group::2 in a cluster of {batch.machine.geometry.cluster_ctas}: a pair needs a"
        " cluster whose size is a multiple of 2",
        mask,
    )
    return True


def _blocked(
    batch: WarpBatch,
    mask: Mask,
    answer: Callable[[int, NDArray[Any], list[int]], bool],
    *arrays: Array,
) -> Blocked | None:
    """Request columns for each row of the mask; return which rows may go on.

    One may let another go on that stands here too, and is not waiting yet: all are asked again.
    """
    memory = batch.machine.part(TensorMemory)
    asking = list(_rows(batch, mask, *arrays))
    left = [entry for entry in asking if not answer(*entry)]
    while left and len(left) < len(asking):
        asking, left = left, [entry for entry in left if not answer(*entry)]
    if not left:
        return None
    ready = np.ones(batch.size, np.bool_)
    ready[[at for at, _, _ in left]] = False
    return Blocked(ready, tuple({memory.key(int(batch.slot[at, 0])): None for at, _, _ in left}))


def _alloc(i: Instruction) -> Step:
    paired = _paired(i)
    to, columns = expect(i, 2)
    if not isinstance(to, Address):
        raise Unsupported(f"{i.mnemonic} writes the address to memory, not to {to}")
    memory_semantics = MemorySemantics("shared::cta" if "shared::cta" in i.flags else "generic")

    def ready(batch: WarpBatch, mask: Mask, to: Array, columns: Array) -> Blocked | None:
        answers = batch.machine.part(_Answers)
        memory = answers.memory
        alone = paired and _no_pair(batch, mask, "tcgen05.alloc")
        if paired and not alone:
            _check_met(batch, mask)

        def answer(at: int, lanes: NDArray[Any], values: list[int]) -> bool:
            warp, slot = int(batch.warps[at]), int(batch.slot[at, 0])
            place, count = values
            if warp in answers.columns:
                return True
            wrong = memory.mistake(slot, count)
            if wrong or alone:
                if wrong:
                    batch.report("tmem", f"tcgen05.alloc of {wrong}", lanes, same=wrong)
                answers.columns[warp] = 0
                return True
            odd = paired and memory.even(slot) != slot
            if odd and memory.holdings(slot).granted:
                _compare(batch, lanes, answers, slot, place, count)
            column = memory.allocate(slot, paired, count, warp, batch.at)
            if column is None:
                return False
            if paired and not odd:
                answers.places[memory.peer(slot)] = place
            answers.columns[warp] = column
            return True

        return _blocked(batch, mask, answer, to, columns)

    def run(batch: WarpBatch, mask: Mask, to: Array, columns: Array) -> None:
        answers = batch.machine.part(_Answers)
        found = np.zeros((batch.size, 1), np.uint32)
        first = np.zeros((batch.size, 32), np.bool_)
        for at, lanes, _ in _rows(batch, mask):
            found[at] = answers.columns.pop(int(batch.warps[at]))
            first[at, int(np.argmax(lanes[at]))] = True
        store(batch, first, to, (found,), memory_semantics, "tcgen05.alloc")

    return Step(
        run, ((to, I64), read(columns, U32)), effect=True, stop=True, ready=ready, collective="warp"
    )


def _check_met(batch: WarpBatch, mask: Mask) -> None:
    """Report who allocates for a pair whose other CTA may not be there yet.

    A warning: the first of the two may block until the other one allocates (PTX ISA 9.7.16.5), and
    published kernels rely on it. Nothing but a barrier of the cluster can have said that the other
    is there: an mbarrier of one CTA may be used by the other only behind one.
    """
    clusters = batch.machine.part(ClusterBarriers)
    lanes = batch.mask_of(mask)
    early = lanes & np.array([[not clusters.has_met(int(s))] for s in batch.cluster_slot[:, 0]])
    if early.any():
        batch.report(
            "tmem",
            "tcgen05.alloc.cta_group::2 before any barrier.cluster: the other CTA may not have"
            " started",
            early,
            context=Context("pair-alloc-before-cluster-barrier", ("tensor memory",)),
        )


def _compare(
    batch: WarpBatch, lanes: NDArray[Any], answers: _Answers, slot: int, place: int, count: int
) -> None:
    """Check that both CTAs of a pair ask for the same, at the same place."""
    granted = answers.memory.holdings(slot).granted[0]
    if granted.columns != count:
        batch.report(
            "tmem",
            f"tcgen05.alloc of {count} columns, and the other CTA of the pair asks for"
            f" {granted.columns}: both must ask for the same",
            lanes,
        )
    other = answers.places.get(slot, place)
    if (other ^ place) & 0xFFFFFF:
        batch.report(
            "tmem",
            f"tcgen05.alloc.cta_group::2 writes to shared {place & 0xFFFFFF:#x}, and in the other"
            f" CTA of the pair to {other & 0xFFFFFF:#x}: the hardware writes to one offset in both",
            lanes,
        )


def _dealloc(i: Instruction) -> Step:
    paired = _paired(i)
    address, columns = expect(i, 2)

    def ready(batch: WarpBatch, mask: Mask, address: Array, columns: Array) -> Blocked | None:
        answers = batch.machine.part(_Answers)
        memory = answers.memory

        def answer(at: int, lanes: NDArray[Any], values: list[int]) -> bool:
            warp, slot = int(batch.warps[at]), int(batch.slot[at, 0])
            if warp in answers.freed:
                return True
            column, lane, count = values[0] & COLUMN_MASK, values[0] >> LANE_SHIFT, values[1]
            holdings = memory.holdings(slot)
            if lane or not holdings.has(column, count):
                batch.report(
                    "tmem",
                    f"tcgen05.dealloc of {count} columns at {values[0]:#x}, which is no allocation"
                    f" of this CTA (allocated: {holdings.text()}): free what alloc gave, whole",
                    lanes,
                )
            elif paired and memory.holdings(memory.peer(slot)).granted:
                batch.report(
                    "tmem",
                    "tcgen05.dealloc before the other CTA of the pair has reached its alloc",
                    lanes,
                    context=Context(DEALLOC_WITHOUT_THE_PEER.name, ("tensor memory",)),
                )
                memory.holdings(memory.peer(slot)).granted.clear()
                memory.holdings(slot).drop(column, count)
            elif paired and memory.left_behind(slot, column, count):
                batch.report(
                    "tmem",
                    "tcgen05.dealloc.cta_group::2 when the other CTA of the pair has exited without"
                    " its own: both must free the columns",
                    lanes,
                    context=Context(DEALLOC_WITHOUT_THE_PEER.name, ("tensor memory",)),
                )
                memory.holdings(slot).drop(column, count)
            elif not memory.free(slot, paired, column, count):
                return False
            answers.freed.add(warp)
            return True

        return _blocked(batch, mask, answer, address, columns)

    def run(batch: WarpBatch, mask: Mask, address: Array, columns: Array) -> None:
        freed = batch.machine.part(_Answers).freed
        for at, _, _ in _rows(batch, mask):
            freed.discard(int(batch.warps[at]))

    return Step(
        run,
        (read(address, U32), read(columns, U32)),
        effect=True,
        stop=True,
        ready=ready,
        collective="warp",
    )


def _relinquish(i: Instruction) -> Step:
    _paired(i)
    expect(i, 0)

    def run(batch: WarpBatch, mask: Mask) -> None:
        memory = batch.machine.part(TensorMemory)
        for at, _, _ in _rows(batch, mask):
            memory.holdings(int(batch.slot[at, 0])).relinquished = True

    return Step(run, effect=True, collective="warp")


ROWS: tuple[Row, ...] = (
    row("tcgen05", _alloc, "alloc sync aligned b32", f"{GROUPS} shared::cta"),
    row("tcgen05", _dealloc, "dealloc sync aligned b32", GROUPS),
    row("tcgen05", _relinquish, "relinquish_alloc_permit sync aligned", GROUPS),
)
