"""What a thread's address means: a flat position in an arena, checked for bounds and alignment.

Lanes at fault are reported and taken out of the mask; the rest goes on. Where all lanes hit one
allocation, or the thread's own CTA, that is a handful of array operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import NO_CONTEXT, Context
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.state_spaces import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    OFFSET_MASK,
    RANK_SHIFT,
    RESERVED_BYTES,
    SHARED_WINDOW,
    SLOT_BYTES,
    Memory,
)
from kernelrig.emu.numerics.arrays import LANES, U64, Array, Mask
from kernelrig.findings.demangling import demangled

WINDOW_SHIFT = 40
_FAR = 1 << 62
_NEAR_NULL = 1 << 32
NULL_POINTER, NO_WINDOW = "a null pointer", "no memory"
_LANE = np.arange(LANES)[None, :]


class Located(NamedTuple):
    """Where lanes hit memory. Outside `mask` a flat position is safe to use, and means nothing."""

    space: str  # global, shared or local
    flat: Array
    mask: Mask


def locate(
    batch: WarpBatch,
    mask: Mask,
    address: Array,
    size: int,
    space: str = "generic",
    what: str = "load",
    *,
    write: bool = False,
    align: int = 0,
) -> list[Located]:
    """Find the bytes that each lane names; there is more than one place for generic addresses only.

    `size` bytes must lie in one allocation and be aligned to `align`, which is `size` unless said.
    `what` is the access in messages; `write` rejects what is read-only.
    """
    access = _Access(batch, size, align or size, what, write)
    match space:
        case "param" if int(address.flat[0]) >> WINDOW_SHIFT == LOCAL_WINDOW >> WINDOW_SHIFT:
            return access.in_local(mask, address - LOCAL_WINDOW)  # an argument of a call
        case "global" | "const" | "param":
            return access.in_global(mask, address)
        case "shared" | "shared::cta":
            return access.in_shared(mask, address, cluster=False)
        case "shared::cluster":
            return access.in_shared(mask, address, cluster=True)
        case "local":
            return access.in_local(mask, address)
    return access.in_generic(mask, address)


class _Access:
    """One access of a batch: what it asks for, and what is reported if it may not."""

    __slots__ = ("align", "batch", "memory", "size", "what", "write")

    def __init__(self, batch: WarpBatch, size: int, align: int, what: str, write: bool) -> None:
        self.batch = batch
        self.memory: Memory = batch.machine.memory
        self.size = size
        self.align = align
        self.what = what
        self.write = write

    # One way for each space.
    def in_generic(self, mask: Mask, address: Array) -> list[Located]:
        window = address >> WINDOW_SHIFT
        live = window if mask is None else _picked(window, mask)
        low, high = int(live.min()), int(live.max())
        if low == high and low in _WINDOWS:
            return self._in_window(mask, address, low)
        places = []
        left = self.batch.mask_of(mask)
        for known in _WINDOWS:
            part = left & (window == known)
            if part.any():
                places += self._in_window(part, address, known)
        lost = left & ~np.isin(window, list(_WINDOWS))
        if lost.any():
            first = int(_picked(address, lost)[0])
            null = 0 <= first < _NEAR_NULL
            text = "a null pointer, or an offset without its base"
            if not null:
                text = "no window holds that address: it is no pointer, or one of another space"
            same = NULL_POINTER if null else NO_WINDOW
            self._fault("out-of-bounds", lost, f"{first:#x}", text, same)
        return places

    def _in_window(self, mask: Mask, address: Array, window: int) -> list[Located]:
        if window == GLOBAL_BASE >> WINDOW_SHIFT:
            return self.in_global(mask, address)
        if window == SHARED_WINDOW >> WINDOW_SHIFT:
            return self.in_shared(mask, address - SHARED_WINDOW, cluster=True)
        return self.in_local(mask, address - LOCAL_WINDOW)

    def in_global(self, mask: Mask, address: Array) -> list[Located]:
        memory = self.memory.global_
        index = address - GLOBAL_BASE
        low = np.min(index if mask is None else np.where(mask, index, _FAR))
        home = memory.find(int(low))
        if home and not (self.write and home.read_only):
            inside, right = self._fit(mask, index - home.start, home.size)
            if right:
                return [Located("global", inside + home.start, mask)]
        chosen = self.batch.mask_of(mask)
        index = np.where(chosen, index, -1)
        held = memory.holds(index, self.size)
        if (chosen & ~held).any():
            first = int(index[chosen & ~held][0])
            text, near = memory.near(first, self.size)
            where = f"{first + GLOBAL_BASE:#x}"
            self._fault("out-of-bounds", chosen & ~held, where, text, near)
        if self.write and (chosen & held).any():
            held &= ~self._read_only(chosen & held, index)
        return self._aligned(chosen & held, index, "global", 0)

    def in_shared(self, mask: Mask, address: Array, *, cluster: bool) -> list[Located]:
        batch, limit = self.batch, self.memory.shared_bytes
        slot, rank = batch.slot, batch.rank
        start = (rank << RANK_SHIFT) + RESERVED_BYTES
        inside, right = self._fit(mask, address - start, limit)
        if right:
            return [Located("shared", inside + (slot * SLOT_BYTES + RESERVED_BYTES), mask)]
        chosen = batch.mask_of(mask)
        address = np.where(chosen, address, start)
        named, offset = address >> RANK_SHIFT, address & OFFSET_MASK
        away = chosen & (named != rank)
        if away.any():
            chosen = chosen & ~self._unreachable(away, address, named, cluster)
        beyond = chosen & ((offset < RESERVED_BYTES) | (offset + self.size > limit + 0x400))
        if beyond.any():
            where = int(offset[beyond][0])
            text, near = self._near_shared(where)
            self._fault("out-of-bounds", beyond, f"shared {int(address[beyond][0]):#x}", text, near)
            chosen = chosen & ~beyond
        flat = (slot - rank + named) * SLOT_BYTES + offset
        return self._aligned(chosen, flat, "shared", slot * SLOT_BYTES + RESERVED_BYTES)

    def in_local(self, mask: Mask, address: Array) -> list[Located]:
        limit = self.memory.local_bytes
        base = (self.batch.warps[:, None] * LANES + _LANE) * self.memory.local_stride
        inside, right = self._fit(mask, address, limit)
        if right:
            return [Located("local", inside + base, mask)]
        chosen = self.batch.mask_of(mask)
        address = np.where(chosen, address, 0)
        beyond = chosen & ((address < 0) | (address + self.size > limit))
        if beyond.any():
            first = int(address[beyond][0])
            text = f"the thread's local memory ends at {limit:#x}"
            self._fault("out-of-bounds", beyond, f"local {first:#x}", text, "local")
        return self._aligned(chosen & ~beyond, address + base, "local", base)

    # Checks.
    def _fit(self, mask: Mask, inside: Array, limit: int) -> tuple[Array, bool]:
        """Say whether all lanes lie within `limit` bytes, aligned; others are moved to byte 0."""
        if mask is not None:
            inside = np.where(mask, inside, 0)
        if int(inside.view(U64).max()) > limit - self.size:
            return inside, False
        return inside, not int(np.bitwise_or.reduce(inside, axis=None)) & (self.align - 1)

    def _aligned(
        self, chosen: NDArray[np.bool_], flat: Array, space: str, safe: Array | int
    ) -> list[Located]:
        """Report what is misaligned of lanes that are in bounds; return the place of the rest."""
        skewed = chosen & ((flat & (self.align - 1)) != 0)
        if skewed.any():
            first = int(np.broadcast_to(flat, skewed.shape)[skewed][0])
            off = first & (self.align - 1)
            self._fault(
                "misaligned",
                skewed,
                name_of(self.memory, space, first),
                f"the address must be a multiple of {self.align}, and is {off} over one",
                off,
            )
            chosen = chosen & ~skewed
        if not chosen.any():
            return []
        return [Located(space, np.where(chosen, flat, safe), chosen)]

    def _read_only(self, chosen: NDArray[np.bool_], index: Array) -> NDArray[np.bool_]:
        """Report writes to what is read-only, and return the lanes that tried."""
        rejected = np.zeros(chosen.shape, np.bool_)
        for one in self.memory.global_.allocations:
            inside = (
                chosen & (index >= one.start) & (index < one.start + one.size)
                if one.read_only
                else rejected
            )
            if one.read_only and inside.any():
                rejected = rejected | inside
                first = int(index[inside][0])
                text = f"{one.name} is read-only: constants and parameters are never written"
                self._fault(
                    "out-of-bounds", inside, name_of(self.memory, "global", first), text, one.name
                )
        return rejected

    def _unreachable(
        self, away: NDArray[np.bool_], address: Array, named: Array, cluster: bool
    ) -> NDArray[np.bool_]:
        """Report lanes that name another CTA's shared memory and may not; return them."""
        batch, ctas = self.batch, self.batch.machine.geometry.cluster_ctas
        wrong = away & ((named < 0) | (named >= ctas)) if cluster else away
        if wrong.any():
            rank, first = int(named[wrong][0]), int(address[wrong][0])
            own = int(np.broadcast_to(batch.rank, wrong.shape)[wrong][0])
            if not 0 <= rank < ctas:
                text = f"that is rank {rank} of a cluster of {ctas}: no shared address"
            else:
                text = (
                    f"that is CTA rank {rank}, and the thread is of rank {own}:"
                    " .shared::cta reaches the thread's own CTA, .shared::cluster all of them"
                )
            self._fault("out-of-bounds", wrong, f"shared {first:#x}", text, rank)
        dead = np.zeros(away.shape, np.bool_)
        if (away & ~wrong).any():
            running = running_slots(batch.machine)
            slots = np.where(away & ~wrong, batch.slot - batch.rank + named, batch.slot)
            dead = away & ~wrong & ~running[slots]
        if dead.any():
            self._fault(
                "out-of-bounds",
                dead,
                f"shared {int(address[dead][0]):#x}",
                f"CTA rank {int(named[dead][0])} of the cluster has exited, and its shared memory"
                " with it: synchronise the cluster (barrier.cluster) before any of its CTAs exits",
                "exited",
            )
        return wrong | dead

    def _near_shared(self, offset: int) -> tuple[str, str]:
        """Say where an offset in no CTA's shared memory lies."""
        end = self.memory.shared_bytes + RESERVED_BYTES
        if offset < RESERVED_BYTES:
            return f"the first {RESERVED_BYTES:#x} bytes are the system's", "reserved"
        last = self.memory.names.last_shared()
        text = (
            f"it ends {offset + self.size - end} bytes past the CTA's shared memory"
            f" ({self.memory.shared_bytes} bytes from {RESERVED_BYTES:#x}, static and dynamic)"
        )
        return text + (f", whose last variable is {last}" if last else ""), "beyond"

    def _fault(
        self, kind: str, mask: NDArray[np.bool_], where: str, text: str, same: object
    ) -> None:
        message = f"{self.what} of {self.size} bytes at {where}: {text}"
        context = Context(objects=(same,)) if isinstance(same, str) and same else NO_CONTEXT
        self.batch.report(kind, message, mask, same=(kind, same), context=context)


_WINDOWS = (
    GLOBAL_BASE >> WINDOW_SHIFT,
    SHARED_WINDOW >> WINDOW_SHIFT,
    LOCAL_WINDOW >> WINDOW_SHIFT,
)


def running_slots(machine: Machine) -> NDArray[np.bool_]:
    """Say of each slot whether a thread of its CTA has not exited."""
    slots = np.zeros(int(machine.slot_of.max()) + 1, np.bool_)
    slots[machine.slot_of[machine.alive.any(axis=1)]] = True
    return slots


def is_running(machine: Machine, slot: int) -> bool:
    """Say whether a thread of the CTA in `slot` has not exited."""
    warps = machine.geometry.warps
    return bool(machine.alive[slot * warps : (slot + 1) * warps].any())


def address_of(memory: Memory, space: str, flat: int) -> int:
    """Return the address, in its own space, of a flat position."""
    if space == "global":
        return GLOBAL_BASE + flat
    return flat % (SLOT_BYTES if space == "shared" else max(memory.local_stride, 1))


def name_of(memory: Memory, space: str, flat: int) -> str:
    """Name the byte at a flat position: `C[3, 17] (C + 0x28)`, `ring[2] (shared 0x1400)`."""
    if space == "global":
        near = memory.global_.find(flat)
        if near is None:
            return f"{GLOBAL_BASE + flat:#x}"
        return memory.names.of_global(near.name, flat - near.start)
    inside = address_of(memory, space, flat)
    if space == "local":
        return f"local {inside:#x}"
    name = memory.names.of_shared(inside)
    return f"{name} (shared {inside:#x})" if name else f"shared {inside:#x}"


def object_of(memory: Memory, space: str, flat: int) -> str:
    """Name the buffer, or the element of a ring, that holds the byte at a flat position."""
    if space == "global":
        near = memory.global_.find(flat)
        return demangled(near.name) if near else "global memory"
    if space == "local":
        return "local memory"
    name = memory.names.of_shared(address_of(memory, space, flat))
    return name.partition(" + ")[0] or "shared memory"


def _picked(array: Array, mask: NDArray[np.bool_]) -> Array:
    """Return the elements of `array` where `mask` holds."""
    shape = np.broadcast_shapes(array.shape, mask.shape)
    return np.asarray(np.broadcast_to(array, shape)[np.broadcast_to(mask, shape)])
