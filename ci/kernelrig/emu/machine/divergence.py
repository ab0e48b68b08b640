"""How warp batches diverge and reconverge.

A branch whose predicate differs between lanes splits a batch in two. Warps that go one way as a
whole are simply in another batch from then on. Lanes of one warp that go different ways get a
`ReconvergencePoint`: the segment of the branch's immediate post-dominator, the first one that all
ways lead to. Each side waits there for the lanes that are `missing`. Points nest, so a batch holds
a stack of them, innermost last.

PTX does not promise reconvergence, and waiting for it must never cause a deadlock: one side may
spin on a lock that the other side holds. So when nothing else can run, the scheduler releases the
points one by one (`release`), and the sides go on apart.

`ConvergenceWaiters` is the other place where lanes wait for one another: at an `.aligned`
instruction, or at one with a member mask, which needs all of its lanes at once (PTX ISA 9.7.13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import ReconvergencePoint, WarpBatch
from kernelrig.emu.numerics.arrays import (
    LANES,
    U32,
    Held,
    Mask,
    Pending,
    Unready,
    full_mask,
    gathered,
)


def rows_of(batch: WarpBatch, rows: NDArray[np.intp], lanes: NDArray[np.bool_]) -> WarpBatch:
    """Return a batch of `rows`, whose lanes are `lanes` (n, 32) of them."""
    every = bool(lanes.all())
    return batch.take(rows, None if every else lanes)


def diverge(
    batch: WarpBatch, taken: NDArray[np.bool_]
) -> tuple[WarpBatch | None, WarpBatch | None]:
    """Part a batch by (n, 32) lanes, all of them its own: those taken, and the rest."""
    own = full_mask(batch.lanes, batch.size)
    return _some(batch, taken), _some(batch, own & ~taken)


def _some(batch: WarpBatch, lanes: NDArray[np.bool_]) -> WarpBatch | None:
    rows = np.nonzero(lanes.any(axis=1))[0]
    return rows_of(batch, rows, lanes[rows]) if len(rows) else None


def reconverge(batches: list[WarpBatch]) -> WarpBatch:
    """Merge batches at the same instruction into one; it keeps the first one's points."""
    first = batches[0]
    if len(batches) == 1:
        return first
    # Registers that nothing reads from here on need no merge: liveness makes this cheap.
    live = first.machine.program.segments[first.pc].live
    registers: list[Any] = list(first.registers)
    same = all(c.warps is first.warps or np.array_equal(c.warps, first.warps) for c in batches[1:])
    if same:
        warps, lanes = first.warps, full_mask(first.lanes, first.size)
        for other in batches[1:]:
            lanes = lanes | full_mask(other.lanes, other.size)
    else:
        warps = np.unique(np.concatenate([c.warps for c in batches]))
        lanes = np.zeros((len(warps), LANES), np.bool_)
        for batch in batches:
            lanes[np.searchsorted(warps, batch.warps)] |= full_mask(batch.lanes, batch.size)
    join = _Join(batches, warps if not same else None)
    for register in live:
        registers[register] = join.of([c.registers[register] for c in batches])
    joined = WarpBatch(
        first.machine,
        first.pc,
        warps,
        None if lanes.all() else lanes,
        registers,
        first.points,
    )
    joined.pending = tuple(dict.fromkeys(r for c in batches for r in c.pending))
    return joined


class _Join:
    """How the registers of batches become those of one: of `warps`, None for the same ones."""

    def __init__(self, batches: Sequence[WarpBatch], warps: NDArray[np.intp] | None) -> None:
        self.masks = [full_mask(c.lanes, c.size) for c in batches]
        self.size = 0 if warps is None else len(warps)
        # Different warps: rows of all batches side by side, in the order of the warps.
        self.places = [] if warps is None else [np.searchsorted(warps, c.warps) for c in batches]

    def of(self, held: list[Held]) -> Held:
        if self.places:
            return _gathered(held, self.places, self.masks, self.size)
        found = held[0]
        for mask, other in zip(self.masks[1:], held[1:], strict=True):
            found = chosen(mask, other, found)
        return found


def joined_register(batches: Sequence[WarpBatch], register: int) -> Held:
    """Return what a register of batches that reconverge holds."""
    first = batches[0].warps
    same = all(np.array_equal(c.warps, first) for c in batches[1:])
    warps = None if same else np.unique(np.concatenate([c.warps for c in batches]))
    return _Join(batches, warps).of([c.registers[register] for c in batches])


def chosen(mask: NDArray[np.bool_], new: Held, old: Held) -> Held:
    """Return a register of which the lanes of `mask` hold `new`, the others `old`."""
    if new is old:
        return old
    # Lanes that never wrote it hold 0.
    if isinstance(new, Pending) or isinstance(old, Pending):
        rows = np.arange(len(mask))
        held = [(old, None), (new, mask)]
        parts = [
            (np.zeros((1, 1), U32) if not isinstance(h, Pending | np.ndarray) else h, rows, lanes)
            for h, lanes in held
        ]
        return gathered(parts, len(mask))
    if isinstance(new, Unready):
        return old if isinstance(old, Unready) else np.where(mask, old.dtype.type(0), old)
    if isinstance(old, Unready):
        return np.where(mask, new, new.dtype.type(0))
    return np.where(mask, new, old)


def _gathered(
    held: list[Held], places: list[NDArray[np.intp]], masks: list[NDArray[np.bool_]], size: int
) -> Held:
    """Return the register of a batch of `size` warps of which each part sits in its `places`."""
    if any(isinstance(h, Pending) for h in held):
        parts = [
            (value, place, mask)
            for value, place, mask in zip(held, places, masks, strict=True)
            if isinstance(value, Pending | np.ndarray)
        ]
        return gathered(parts, size)
    ready = [h for h in held if isinstance(h, np.ndarray)]
    if not ready:
        return held[0]
    if all(h.shape == (1, 1) for h in ready) and len(ready) == len(held):
        value = ready[0][0, 0]
        if all(h[0, 0] == value for h in ready[1:]):
            return ready[0]
    narrow = all(h.shape[1] == 1 for h in ready) and len(ready) == len(held)
    if narrow and sum(map(len, places)) == size:  # whole warps that share no row
        made = np.empty((size, 1), ready[0].dtype)
        for value, place in zip(held, places, strict=True):
            made[place] = value
        return made
    made = np.zeros((size, LANES), ready[0].dtype)
    for value, place, mask in zip(held, places, masks, strict=True):
        if isinstance(value, np.ndarray):
            made[place] = np.where(mask, value, made[place])
    return made


class ConvergenceWaiters:
    """Where lanes wait for the rest of their warp: at collective instructions, by place."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], WarpBatch] = {}  # (place, warp) -> a batch of one warp

    def gather(self, batch: WarpBatch, needed: NDArray[np.bool_]) -> WarpBatch | None:
        """Add the lanes of `batch`; return the warps of which all `needed` (n, 32) are here.

        Warps that are complete go on with the lanes that waited here and those that came last.
        """
        here = full_mask(batch.lanes, batch.size)
        complete = ~(needed & ~here).any(axis=1)
        if complete.all():
            return batch
        groups = []
        rows = np.nonzero(complete)[0]
        if len(rows):
            groups.append(rows_of(batch, rows, here[rows]))
        for row in np.nonzero(~complete)[0]:
            one = rows_of(batch, np.array([row]), here[[row]])
            # Warps wait one by one: each has lanes of its own that are missing.
            key = (batch.pc, int(batch.warps[row]))
            other = self.waiting.pop(key, None)
            if other is not None:
                one = reconverge(_shared_points([other, one]))
            if (needed[row] & ~full_mask(one.lanes, 1)[0]).any():
                self.waiting[key] = one
            else:
                groups.append(one)
        if not groups:
            return None
        return reconverge(_shared_points(groups))

    def of(self, warp: int) -> list[WarpBatch]:
        return [batch for (_, each), batch in self.waiting.items() if each == warp]

    def left(self, warp: int) -> list[WarpBatch]:
        """Take out the batches of a warp of which lanes have exited: they are to be asked again."""
        keys = [k for k in self.waiting if k[1] == warp]
        return [self.waiting.pop(k) for k in keys]


def _shared_points(batches: list[WarpBatch]) -> list[WarpBatch]:
    """Keep the points that all batches share; batches that wait at another one are released."""
    shared = 0
    stacks = [c.points for c in batches]
    while all(len(s) > shared for s in stacks) and len({id(s[shared]) for s in stacks}) == 1:
        shared += 1
    for batch in batches:
        for point in batch.points[shared:]:
            release(point)
        batch.points = batch.points[:shared]
    return batches


def release(point: ReconvergencePoint) -> None:
    """Give `point` up: batches that wait there go on, those that come later pass."""
    for batch in point.arrived:
        batch.points = batch.points[:-1]
        batch.machine.ready.append(batch)
    point.arrived = []
    point.missing = {}


def arrive(batch: WarpBatch) -> WarpBatch | None:
    """Let `batch` wait at its innermost point; return the warps of which all lanes are here."""
    point = batch.points[-1]
    # Released, or complete without these lanes: nothing to wait for.
    if not point.missing:
        batch.points = batch.points[:-1]
        return batch
    here = full_mask(batch.lanes, batch.size)
    for row, warp in enumerate(batch.warps):
        missing = point.missing.get(int(warp))
        if missing is not None:
            point.missing[int(warp)] = missing & ~here[row]
    point.arrived.append(batch)
    return complete(point)


def complete(point: ReconvergencePoint) -> WarpBatch | None:
    """Return the warps of `point` that miss no lane, as one batch that goes on."""
    done = [w for w, lanes in point.missing.items() if not lanes.any()]
    if not done or not point.arrived:
        return None
    for warp in done:
        del point.missing[warp]
    # Warps that miss no lane go on; the rest of each batch stays.
    if not point.missing:
        batches, point.arrived = point.arrived, []
    else:
        batches = []
        rest: list[WarpBatch] = []
        for batch in point.arrived:
            going = np.isin(batch.warps, done)
            lanes = full_mask(batch.lanes, batch.size)
            for rows, into in ((np.nonzero(going)[0], batches), (np.nonzero(~going)[0], rest)):
                if len(rows):
                    into.append(rows_of(batch, rows, lanes[rows]))
        point.arrived = rest
    if not batches:
        return None
    for batch in batches:
        batch.points = batch.points[:-1]
    return reconverge(batches)


def reconvergence_point(batch: WarpBatch, segment: int, diverged: Mask) -> ReconvergencePoint:
    """Return the reconvergence point of the lanes (n, 32) that a branch makes diverge."""
    rows = np.nonzero(diverged.any(axis=1))[0] if diverged is not None else np.arange(batch.size)
    lanes = full_mask(diverged, batch.size)
    return ReconvergencePoint(segment, {int(batch.warps[row]): lanes[row].copy() for row in rows})
