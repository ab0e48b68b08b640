"""Tensor memory: 128 lanes x 512 columns of 32 bits a CTA, and who owns which columns.

Columns are allocated in units of 32. A pair of CTAs (ranks that differ in the last bit) allocates
together and gets the same columns: the even CTA allocates for both, the odd one waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import is_running
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.stall import BARRIER, Stall
from kernelrig.emu.numerics.arrays import LANES
from kernelrig.ptx.rules import TENSOR_MEMORY_LEAK

if TYPE_CHECKING:
    from kernelrig.emu.machine.machine_state import Machine

TENSOR_LANES = 128
COLUMNS = 512
UNIT_COLUMNS = 32
LANE_SHIFT = 16
COLUMN_MASK = 0xFFFF
ALLOCATIONS = (32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Allocated:
    """Columns of one CTA. `warp` and `at` are who allocated them, and where in the program."""

    column: int
    columns: int
    warp: int
    at: int


@dataclass
class Holdings:
    """What one CTA owns.

    `granted` are columns that the even CTA allocated for the pair, and that this one has not asked
    for yet; `leaving` are deallocations for which the peer's warp has not come yet.
    """

    blocks: list[Allocated] = field(default_factory=list)
    granted: list[Allocated] = field(default_factory=list)
    leaving: list[tuple[int, int]] = field(default_factory=list)
    last_columns: int = COLUMNS
    relinquished: bool = False
    units: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(COLUMNS // UNIT_COLUMNS, np.bool_)
    )

    def take(self, block: Allocated) -> None:
        self.blocks.append(block)
        self._mark(block, True)

    def drop(self, column: int, columns: int) -> None:
        block = next(b for b in self.blocks if (b.column, b.columns) == (column, columns))
        self.blocks.remove(block)
        self._mark(block, False)

    def owns(self, column: int, columns: int) -> bool:
        """Say whether all of the columns are allocated."""
        low, high = column // UNIT_COLUMNS, -(-(column + columns) // UNIT_COLUMNS)
        return column >= 0 and column + columns <= COLUMNS and bool(self.units[low:high].all())

    def has(self, column: int, columns: int) -> bool:
        """Say whether just these were one allocation."""
        return any((b.column, b.columns) == (column, columns) for b in self.blocks)

    def text(self) -> str:
        """Name the columns for a message."""
        named = (f"{b.column} to {b.column + b.columns - 1}" for b in self.blocks)
        return ", ".join(named) or "none"

    def _mark(self, block: Allocated, taken: bool) -> None:
        low = block.column // UNIT_COLUMNS
        self.units[low : low + block.columns // UNIT_COLUMNS] = taken


class TensorMemory:
    """The tensor memory of all resident CTAs, by their slots."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._holdings: dict[int, Holdings] = {}
        self._words: dict[int, NDArray[np.uint32]] = {}

    def words(self, slot: int) -> NDArray[np.uint32]:
        """Return the 128 x 512 words of a CTA."""
        found = self._words.get(slot)
        if found is None:
            found = self._words[slot] = np.zeros((TENSOR_LANES, COLUMNS), np.uint32)
        return found

    def holdings(self, slot: int) -> Holdings:
        return self._holdings.setdefault(slot, Holdings())

    def even(self, slot: int) -> int:
        """Return the slot of the even CTA of the pair; slots of a cluster lie by their ranks."""
        return slot - slot % self.machine.geometry.cluster_ctas % 2

    def peer(self, slot: int) -> int:
        return self.even(slot) * 2 + 1 - slot

    # Allocation.
    def mistake(self, slot: int, columns: int) -> str:
        """Say what is wrong with asking for so many columns, "" if nothing is."""
        holdings = self.holdings(slot)
        if columns not in ALLOCATIONS:
            return f"{columns} columns: they must be a power of two from 32 to 512"
        if holdings.relinquished:
            return (
                "after tcgen05.relinquish_alloc_permit in this CTA: a CTA that gave the permit up"
                " cannot allocate; allocate first"
            )
        if columns > holdings.last_columns:
            return (
                f"{columns} columns after an allocation of {holdings.last_columns}: the sizes of a"
                " CTA's allocations must not grow; allocate the largest first"
            )
        return ""

    def allocate(self, slot: int, paired: bool, columns: int, warp: int, at: int) -> int | None:
        """Return the first column of what the CTA now owns, None while there is no room.

        The odd CTA of a pair takes what the even one has allocated for both.
        """
        holdings = self.holdings(slot)
        even = self.even(slot) if paired else slot
        if even != slot:
            if not holdings.granted:
                return None
            column = holdings.granted.pop(0).column
        else:
            slots = (slot, self.peer(slot)) if paired else (slot,)
            room = self._room(slots, columns)
            if room is None:
                return None
            column = room
            if paired:
                grant = Allocated(column, columns, warp, at)
                self.holdings(self.peer(slot)).granted.append(grant)
                self.machine.wake(self.key(slot))
        holdings.take(Allocated(column, columns, warp, at))
        holdings.last_columns = columns
        return column

    def free(self, slot: int, paired: bool, column: int, columns: int) -> bool:
        """Give columns back; False while the other CTA of the pair has not done the same.

        That wait is one that PTX allows and does not promise (9.7.16.5: it may block).
        """
        holdings = self.holdings(slot)
        block = (column, columns)
        if paired and self.machine.patient:
            peer = self.holdings(self.peer(slot))
            if block not in holdings.leaving:
                holdings.leaving.append(block)
            if block not in peer.leaving and peer.has(column, columns):
                return False
        if block in holdings.leaving:
            holdings.leaving.remove(block)
        holdings.drop(column, columns)
        self.machine.wake(self.key(slot))
        return True

    def left_behind(self, slot: int, column: int, columns: int) -> bool:
        """Say whether the peer has exited and not freed these columns: it never will.

        A peer that freed them and exited is as it should be (PTX 9.7.16.5).
        """
        peer = self.peer(slot)
        return not is_running(self.machine, peer) and self.holdings(peer).has(column, columns)

    def key(self, slot: int) -> tuple[str, int]:
        """What those who wait for columns, or for their peer, wait for."""
        return (
            "tensor memory",
            self.even(slot) if self.machine.geometry.cluster_ctas > 1 else slot,
        )

    def _room(self, slots: tuple[int, ...], columns: int) -> int | None:
        """Return the first column from which so many are free in all of the CTAs."""
        taken = np.zeros(COLUMNS // UNIT_COLUMNS, np.bool_)
        for slot in slots:
            holdings = self.holdings(slot)
            taken = taken | holdings.units
            for block in holdings.granted:
                low = block.column // UNIT_COLUMNS
                taken[low : low + block.columns // UNIT_COLUMNS] = True
        count = columns // UNIT_COLUMNS
        for unit in range(len(taken) - count + 1):
            if not taken[unit : unit + count].any():
                return unit * UNIT_COLUMNS
        return None

    # Access.
    def fault(self, slot: int, column: int, columns: int) -> str:
        """Say what is wrong with an access to such columns, "" if nothing is.

        A dealloc may wait for the peer's, and need not: its warp has done with the columns
        (PTX 9.7.16.5: it may block, 9.7.16.7: it frees).
        """
        holdings = self.holdings(slot)
        left = any(c < column + columns and column < c + n for c, n in holdings.leaving)
        if holdings.owns(column, columns) and not left:
            return ""
        named = f"columns {column} to {column + columns - 1} of tensor memory"
        if left:
            return (
                f"{named}, which a warp of this CTA has given to tcgen05.dealloc already: let it"
                " wait for all who use them; for a pair, at a barrier.cluster"
            )
        if column + columns > COLUMNS:
            return f"{named}: there are {COLUMNS}"
        return (
            f"{named}, which are not all allocated (allocated: {holdings.text()}): use the address"
            " that tcgen05.alloc wrote, and dealloc after the last use"
        )

    def describe(self, key: object) -> Stall | None:
        """Say what a tcgen05.alloc or dealloc waits for, in a deadlock; None for other keys."""
        for slot, holdings in self._holdings.items():
            if key == self.key(slot):
                text = f"tensor memory (allocated columns: {holdings.text()})"
                warps = np.flatnonzero(self.machine.slot_of // 2 == slot // 2).tolist()
                return Stall("tensor memory", text, BARRIER, frozenset(warps))
        return None

    def finish(self) -> None:
        """Report what was never freed."""
        for slot, holdings in sorted(self._holdings.items()):
            for block in holdings.blocks:
                self.machine.report(
                    "leak",
                    f"{block.columns} columns of tensor memory from column {block.column} were"
                    " never freed",
                    block.warp,
                    (1 << LANES) - 1,
                    block.at,
                    same=("tensor memory", slot % 2),
                    context=Context(TENSOR_MEMORY_LEAK.name, ("tensor memory",)),
                )
