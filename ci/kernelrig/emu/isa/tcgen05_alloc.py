"""tcgen05.alloc, dealloc, relinquish_alloc_permit: who owns columns of tensor memory.

PTX ISA 9.7.16.5 and 9.7.16.7. With cta_group::2 a warp of each CTA of the pair takes part: the even
CTA allocates for both and goes on, the odd one waits for it; to free, each may wait for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, read
from kernelrig.emu.machine.access import Manner, store
from kernelrig.emu.machine.addressing import is_running
from kernelrig.emu.machine.cta_barrier import ClusterBarriers
from kernelrig.emu.machine.instruction_table import Block, Refused, Row, Step, row
from kernelrig.emu.machine.state import Crew, Machine
from kernelrig.emu.numerics.arrays import I64, U32, Array, Mask
from kernelrig.emu.tensor.tensor_memory import COLUMN_MASK, LANE_SHIFT, TensorMemory
from kernelrig.ptx import Address, Instruction

GROUPS = "cta_group::1 cta_group::2"


class _Answers:
    """What warps at an alloc or dealloc have been told, until they go on."""

    def __init__(self, machine: Machine) -> None:
        self.memory = machine.part(TensorMemory)
        self.columns: dict[int, int] = {}  # by warp
        self.places: dict[int, int] = {}  # slot of an odd CTA -> where the even one's address is
        self.freed: set[int] = set()


def _paired(i: Instruction) -> bool:
    if not i.flags & {"cta_group::1", "cta_group::2"}:
        raise Refused(f"{i.mnemonic} needs .cta_group::1 or .cta_group::2")
    return "cta_group::2" in i.flags


def _rows(crew: Crew, mask: Mask, *arrays: Array) -> Iterator[tuple[int, NDArray[Any], list[int]]]:
    """Yield each row of the mask with its lanes, and the values of its first lane."""
    lanes = crew.mask_of(mask)
    for at in np.nonzero(lanes.any(axis=1))[0]:
        chosen = np.zeros_like(lanes)
        chosen[at] = lanes[at]
        lane = int(np.argmax(lanes[at]))
        shape = lanes.shape
        yield int(at), chosen, [int(np.broadcast_to(a, shape)[at, lane]) for a in arrays]


def _no_pair(crew: Crew, mask: Mask, name: str) -> bool:
    if crew.machine.geometry.cluster_ctas % 2 == 0:
        return False
    crew.report(
        "tmem",
        f"{name}.cta_group::2 in a cluster of {crew.machine.geometry.cluster_ctas}: a pair needs a"
        " cluster whose size is a multiple of 2",
        mask,
    )
    return True


def _blocked(
    crew: Crew,
    mask: Mask,
    answer: Callable[[int, NDArray[Any], list[int]], bool],
    *arrays: Array,
) -> Block | None:
    """Ask for each row of the mask; say which may go on.

    One may let another go on that stands here too, and is not waiting yet: all are asked again.
    """
    memory = crew.machine.part(TensorMemory)
    asking = list(_rows(crew, mask, *arrays))
    left = [entry for entry in asking if not answer(*entry)]
    while left and len(left) < len(asking):
        asking, left = left, [entry for entry in left if not answer(*entry)]
    if not left:
        return None
    ready = np.ones(crew.size, np.bool_)
    ready[[at for at, _, _ in left]] = False
    return Block(ready, tuple({memory.key(int(crew.slot[at, 0])): None for at, _, _ in left}))


def _alloc(i: Instruction) -> Step:
    paired = _paired(i)
    to, columns = expect(i, 2)
    if not isinstance(to, Address):
        raise Refused(f"{i.mnemonic} writes the address to memory, not to {to}")
    manner = Manner("shared::cta" if "shared::cta" in i.flags else "generic")

    def ready(crew: Crew, mask: Mask, to: Array, columns: Array) -> Block | None:
        answers = crew.machine.part(_Answers)
        memory = answers.memory
        alone = paired and _no_pair(crew, mask, "tcgen05.alloc")
        if paired and not alone:
            _check_met(crew, mask)

        def answer(at: int, lanes: NDArray[Any], values: list[int]) -> bool:
            warp, slot = int(crew.warps[at]), int(crew.slot[at, 0])
            place, count = values
            if warp in answers.columns:
                return True
            wrong = memory.mistake(slot, count)
            if wrong or alone:
                if wrong:
                    crew.report("tmem", f"tcgen05.alloc of {wrong}", lanes, same=wrong)
                answers.columns[warp] = 0
                return True
            odd = paired and memory.even(slot) != slot
            if odd and memory.holdings(slot).granted:
                _compare(crew, lanes, answers, slot, place, count)
            column = memory.allocate(slot, paired, count, warp, crew.at)
            if column is None:
                return False
            if paired and not odd:
                answers.places[memory.peer(slot)] = place
            answers.columns[warp] = column
            return True

        return _blocked(crew, mask, answer, to, columns)

    def run(crew: Crew, mask: Mask, to: Array, columns: Array) -> None:
        answers = crew.machine.part(_Answers)
        found = np.zeros((crew.size, 1), np.uint32)
        first = np.zeros((crew.size, 32), np.bool_)
        for at, lanes, _ in _rows(crew, mask):
            found[at] = answers.columns.pop(int(crew.warps[at]))
            first[at, int(np.argmax(lanes[at]))] = True
        store(crew, first, to, (found,), manner, "tcgen05.alloc")

    return Step(
        run, ((to, I64), read(columns, U32)), effect=True, stop=True, ready=ready, collective="warp"
    )


def _check_met(crew: Crew, mask: Mask) -> None:
    """Report who allocates for a pair whose other CTA may not be there yet.

    Nothing but a barrier of the cluster can have said that it is: an mbarrier of one CTA may be
    used by the other only behind one.
    """
    clusters = crew.machine.part(ClusterBarriers)
    lanes = crew.mask_of(mask)
    early = lanes & np.array([[not clusters.has_met(int(s))] for s in crew.cluster_slot[:, 0]])
    if early.any():
        crew.report(
            "tmem",
            "tcgen05.alloc.cta_group::2 before the cluster has met: the other CTA may not have"
            " started; put a barrier.cluster before it",
            early,
        )


def _compare(
    crew: Crew, lanes: NDArray[Any], answers: _Answers, slot: int, place: int, count: int
) -> None:
    """Check that both CTAs of a pair ask for the same, at the same place."""
    granted = answers.memory.holdings(slot).granted[0]
    if granted.columns != count:
        crew.report(
            "tmem",
            f"tcgen05.alloc of {count} columns, and the other CTA of the pair asks for"
            f" {granted.columns}: both must ask for the same",
            lanes,
        )
    other = answers.places.get(slot, place)
    if (other ^ place) & 0xFFFFFF:
        crew.report(
            "tmem",
            f"tcgen05.alloc.cta_group::2 writes to shared {place & 0xFFFFFF:#x}, and in the other"
            f" CTA of the pair to {other & 0xFFFFFF:#x}: the hardware writes to one offset in both",
            lanes,
        )


def _dealloc(i: Instruction) -> Step:
    paired = _paired(i)
    address, columns = expect(i, 2)

    def ready(crew: Crew, mask: Mask, address: Array, columns: Array) -> Block | None:
        answers = crew.machine.part(_Answers)
        memory = answers.memory

        def answer(at: int, lanes: NDArray[Any], values: list[int]) -> bool:
            warp, slot = int(crew.warps[at]), int(crew.slot[at, 0])
            if warp in answers.freed:
                return True
            column, lane, count = values[0] & COLUMN_MASK, values[0] >> LANE_SHIFT, values[1]
            holdings = memory.holdings(slot)
            if lane or not holdings.has(column, count):
                crew.report(
                    "tmem",
                    f"tcgen05.dealloc of {count} columns at {values[0]:#x}, which is no allocation"
                    f" of this CTA (allocated: {holdings.text()}): free what alloc gave, whole",
                    lanes,
                )
            elif paired and memory.holdings(memory.peer(slot)).granted:
                crew.report(
                    "tmem",
                    "tcgen05.dealloc before the other CTA of the pair has come to its alloc: put a"
                    " barrier.cluster between them",
                    lanes,
                )
                memory.holdings(memory.peer(slot)).granted.clear()
                memory.holdings(slot).drop(column, count)
            elif paired and not is_running(crew.machine, memory.peer(slot)):
                crew.report(
                    "tmem",
                    "tcgen05.dealloc.cta_group::2 when the other CTA of the pair has exited: both"
                    " must be there (PTX 9.7.16.5); put a barrier.cluster behind it",
                    lanes,
                )
                memory.holdings(slot).drop(column, count)
            elif not memory.free(slot, paired, column, count):
                return False
            answers.freed.add(warp)
            return True

        return _blocked(crew, mask, answer, address, columns)

    def run(crew: Crew, mask: Mask, address: Array, columns: Array) -> None:
        freed = crew.machine.part(_Answers).freed
        for at, _, _ in _rows(crew, mask):
            freed.discard(int(crew.warps[at]))

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

    def run(crew: Crew, mask: Mask) -> None:
        memory = crew.machine.part(TensorMemory)
        for at, _, _ in _rows(crew, mask):
            memory.holdings(int(crew.slot[at, 0])).relinquished = True

    return Step(run, effect=True, collective="warp")


ROWS: tuple[Row, ...] = (
    row("tcgen05", _alloc, "alloc sync aligned b32", f"{GROUPS} shared::cta"),
    row("tcgen05", _dealloc, "dealloc sync aligned b32", GROUPS),
    row("tcgen05", _relinquish, "relinquish_alloc_permit sync aligned", GROUPS),
)
