"""How crews part and meet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.state import Crew, Joining
from kernelrig.emu.numerics.arrays import LANES, Held, Mask, Pending, Unready, full_mask, gathered


def rows_of(crew: Crew, rows: NDArray[np.intp], lanes: NDArray[np.bool_]) -> Crew:
    """Return a crew of `rows`, whose lanes are `lanes` (n, 32) of them."""
    every = bool(lanes.all())
    return crew.take(rows, None if every else lanes)


def part(crew: Crew, taken: NDArray[np.bool_]) -> tuple[Crew | None, Crew | None]:
    """Part a crew by (n, 32) lanes, all of them its own: those taken, and the rest."""
    own = full_mask(crew.lanes, crew.size)
    return _some(crew, taken), _some(crew, own & ~taken)


def _some(crew: Crew, lanes: NDArray[np.bool_]) -> Crew | None:
    rows = np.nonzero(lanes.any(axis=1))[0]
    return rows_of(crew, rows, lanes[rows]) if len(rows) else None


def meet(crews: list[Crew]) -> Crew:
    """Make one crew of several at one place, of other lanes each; it has the joins of the first."""
    first = crews[0]
    if len(crews) == 1:
        return first
    live = first.machine.program.segments[first.pc].live
    registers: list[Any] = list(first.registers)
    same = all(c.warps is first.warps or np.array_equal(c.warps, first.warps) for c in crews[1:])
    if same:
        warps, lanes = first.warps, full_mask(first.lanes, first.size)
        for other in crews[1:]:
            theirs = full_mask(other.lanes, other.size)
            for register in live:
                registers[register] = _chosen(
                    theirs, other.registers[register], registers[register]
                )
            lanes = lanes | theirs
    else:
        warps = np.unique(np.concatenate([c.warps for c in crews]))
        places = [np.searchsorted(warps, c.warps) for c in crews]
        lanes = np.zeros((len(warps), LANES), np.bool_)
        masks = [full_mask(c.lanes, c.size) for c in crews]
        for place, mask in zip(places, masks, strict=True):
            lanes[place] |= mask
        for register in live:
            registers[register] = _gathered(
                [c.registers[register] for c in crews], places, masks, len(warps)
            )
    met = Crew(
        first.machine,
        first.pc,
        warps,
        None if lanes.all() else lanes,
        registers,
        first.joins,
    )
    met.pending = tuple(dict.fromkeys(r for c in crews for r in c.pending))
    return met


def _chosen(mask: NDArray[np.bool_], new: Held, old: Held) -> Held:
    if new is old or isinstance(new, Unready):
        return old
    if isinstance(old, Unready):
        return new
    return np.where(mask, new, old)


def _gathered(
    held: list[Held], places: list[NDArray[np.intp]], masks: list[NDArray[np.bool_]], size: int
) -> Held:
    """Return the register of a crew of `size` warps of which each part sits in its `places`."""
    if any(isinstance(h, Pending) for h in held):
        parts = [
            (value, place)
            for value, place in zip(held, places, strict=True)
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
    if narrow and sum(map(len, places)) == size:  # whole warps that never meet
        made = np.empty((size, 1), ready[0].dtype)
        for value, place in zip(held, places, strict=True):
            made[place] = value
        return made
    made = np.zeros((size, LANES), ready[0].dtype)
    for value, place, mask in zip(held, places, masks, strict=True):
        if isinstance(value, np.ndarray):
            made[place] = np.where(mask, value, made[place])
    return made


class Meetings:
    """Where lanes wait for the rest of their warp: at collective instructions, by place."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], Crew] = {}  # (place, warp) -> a crew of one warp

    def gather(self, crew: Crew, needed: NDArray[np.bool_]) -> Crew | None:
        """Let the lanes of `crew` meet; return those warps of which all `needed` (n, 32) are here.

        Warps that are complete go on with the lanes that were here and those they met.
        """
        here = full_mask(crew.lanes, crew.size)
        complete = ~(needed & ~here).any(axis=1)
        if complete.all():
            return crew
        groups = []
        rows = np.nonzero(complete)[0]
        if len(rows):
            groups.append(rows_of(crew, rows, here[rows]))
        for row in np.nonzero(~complete)[0]:
            one = rows_of(crew, np.array([row]), here[[row]])
            key = (crew.pc, int(crew.warps[row]))
            other = self.waiting.pop(key, None)
            if other is not None:
                one = meet(_same_joins([other, one]))
            if (needed[row] & ~full_mask(one.lanes, 1)[0]).any():
                self.waiting[key] = one
            else:
                groups.append(one)
        if not groups:
            return None
        return meet(_same_joins(groups))

    def left(self, warp: int) -> list[Crew]:
        """Take out the crews of a warp of which lanes have exited: they are to be asked again."""
        keys = [k for k in self.waiting if k[1] == warp]
        return [self.waiting.pop(k) for k in keys]


def _same_joins(crews: list[Crew]) -> list[Crew]:
    """Let all crews wait at the joins they share; whoever waits at another one is let go."""
    shared = 0
    stacks = [c.joins for c in crews]
    while all(len(s) > shared for s in stacks) and len({id(s[shared]) for s in stacks}) == 1:
        shared += 1
    for crew in crews:
        for joining in crew.joins[shared:]:
            release(joining)
        crew.joins = crew.joins[:shared]
    return crews


def release(joining: Joining) -> None:
    """Nobody waits at `joining` any more: who is there goes on, who comes passes."""
    for crew in joining.arrived:
        crew.joins = crew.joins[:-1]
        crew.machine.ready.append(crew)
    joining.arrived = []
    joining.missing = {}


def arrive(crew: Crew) -> Crew | None:
    """Let `crew` wait where it joins; return those warps whose lanes are all here, as one crew."""
    joining = crew.joins[-1]
    if not joining.missing:
        crew.joins = crew.joins[:-1]
        return crew
    here = full_mask(crew.lanes, crew.size)
    for row, warp in enumerate(crew.warps):
        missing = joining.missing.get(int(warp))
        if missing is not None:
            joining.missing[int(warp)] = missing & ~here[row]
    joining.arrived.append(crew)
    return complete(joining)


def complete(joining: Joining) -> Crew | None:
    """Return the warps of `joining` that miss no lane, as one crew that goes on."""
    done = [w for w, lanes in joining.missing.items() if not lanes.any()]
    if not done or not joining.arrived:
        return None
    for warp in done:
        del joining.missing[warp]
    if not joining.missing:
        crews, joining.arrived = joining.arrived, []
    else:
        crews = []
        rest: list[Crew] = []
        for crew in joining.arrived:
            going = np.isin(crew.warps, done)
            lanes = full_mask(crew.lanes, crew.size)
            for rows, into in ((np.nonzero(going)[0], crews), (np.nonzero(~going)[0], rest)):
                if len(rows):
                    into.append(rows_of(crew, rows, lanes[rows]))
        joining.arrived = rest
    if not crews:
        return None
    for crew in crews:
        crew.joins = crew.joins[:-1]
    return meet(crews)


def parting(crew: Crew, segment: int, parted: Mask) -> Joining:
    """Return the joining of the lanes (n, 32) that a branch parts."""
    rows = np.nonzero(parted.any(axis=1))[0] if parted is not None else np.arange(crew.size)
    lanes = full_mask(parted, crew.size)
    return Joining(segment, {int(crew.warps[row]): lanes[row].copy() for row in rows})
