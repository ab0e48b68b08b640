"""Lanes by what they hold: which of them name which place of shared memory, and their values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import OFFSET_MASK, RANK_SHIFT, SHARED_WINDOW, SLOT_BYTES
from kernelrig.emu.numerics.arrays import Array, Mask

Lanes = NDArray[np.bool_]
"""(n, 32), of a batch."""


def named_places(batch: WarpBatch, mask: Mask, address: Array) -> Iterator[tuple[int, Lanes]]:
    """Yield where in the arena addresses of shared memory, generic or its own, would be.

    Any other address gives -1, where no mbarrier is.
    """
    lanes = batch.mask_of(mask)
    if address.shape[1] > 1:
        yield from by_place(batch, lanes, _flat(batch, address))
        return
    found: dict[int, list[int]] = {}
    ctas = batch.machine.geometry.cluster_ctas
    named = address[:, 0].tolist()
    used = np.flatnonzero(lanes.any(axis=1)).tolist()
    for row in used:
        at = named[row] if len(named) > 1 else named[0]
        at -= SHARED_WINDOW if at >= SHARED_WINDOW else 0
        rank, offset = at >> RANK_SHIFT, at & OFFSET_MASK
        flat = -1
        if 0 <= rank < ctas and offset < SLOT_BYTES:
            warp = batch.warps[row]
            first = int(batch.machine.slot_of[warp] - batch.machine.rank_of[warp])
            flat = (first + rank) * SLOT_BYTES + offset
        found.setdefault(flat, []).append(row)
    for flat, rows in found.items():
        if len(found) == 1:
            yield flat, lanes
        else:
            some = np.zeros_like(lanes)
            some[rows] = lanes[rows]
            yield flat, some


def _flat(batch: WarpBatch, address: Array) -> Array:
    """Return where in the arena an address of shared memory, generic or its own, would be.

    Any other address gives a position that no mbarrier has.
    """
    named = np.where(address >= SHARED_WINDOW, address - SHARED_WINDOW, address)
    rank, offset = named >> RANK_SHIFT, named & OFFSET_MASK
    known = (rank >= 0) & (rank < batch.machine.geometry.cluster_ctas) & (offset < SLOT_BYTES)
    return np.where(known, (batch.cluster_slot + rank) * SLOT_BYTES + offset, -1)


def by_place(batch: WarpBatch, mask: Mask, flat: Array) -> Iterator[tuple[int, Lanes]]:
    """Yield each flat position with the lanes that name it."""
    lanes = batch.mask_of(mask)
    places = spread(flat, lanes)
    named = places[lanes]
    if not len(named):
        return
    if (named == named[0]).all():
        yield int(named[0]), lanes
        return
    for one in dict.fromkeys(named.tolist()):
        yield one, lanes & (places == one)


def spread(array: Array, lanes: Lanes) -> Array:
    """Return `array` in the shape of `lanes`."""
    return np.broadcast_to(array, lanes.shape)


def value_at(array: Array, row: int, lane: int) -> int:
    """Return what one thread holds."""
    return int(array[row if array.shape[0] > 1 else 0, lane if array.shape[1] > 1 else 0])


def same_value(array: Array, lanes: Lanes) -> int:
    """Return the value that all of `lanes` have, 0 where they differ."""
    chosen = spread(array, lanes)[lanes]
    return int(chosen[0]) if (chosen == chosen[0]).all() else 0


def total(array: Array | None, lanes: Lanes) -> int:
    return 0 if array is None else int(spread(array, lanes)[lanes].astype(np.int64).sum())
