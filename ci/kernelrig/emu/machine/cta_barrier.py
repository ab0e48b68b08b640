"""Barriers of a CTA and of a cluster: which warps have arrived, and when all may go on.

PTX ISA 9.7.13.1 to 9.7.13.3. Lanes arrive one by one; a warp counts once all of its lanes that have
not exited have arrived. One use of a barrier is an `Instance`: it is complete for ever, and the
next use is another one, so that a lane that is late never takes part in the next use by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.emu.machine.lane_groups import value_at
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.stall import ALL_LANES, BARRIER, Stall, name_warps
from kernelrig.emu.numerics.arrays import LANES, Array, Mask, lane_bits, lanes_of_bits

TURN = "barrier.cluster, the next CTA"
"""What warps wait for that may pass a cluster's barrier and let another CTA go first."""


@dataclass(eq=False)
class Instance:
    """One use of a barrier. `name` identifies it; `wanted` is in threads, 0 for all.

    `kind` is what arrives: "sync" (and arrive), or the reduction; `arrived` holds the lanes of the
    warps that have arrived, `threads` how many of them count.
    """

    name: tuple[str, int, int, int]
    wanted: int = 0
    kind: str = ""
    arrived: dict[int, int] = field(default_factory=dict)
    threads: int = 0
    true: int = 0  # threads that brought a true predicate
    brought: int = 0
    complete: bool = False


@dataclass(eq=False)
class _Barriers:
    """What both kinds of barriers have in common: lanes that wait for an instance, by warp."""

    machine: Machine
    _current: dict[tuple[int, int], Instance] = field(default_factory=dict)
    _owing: dict[int, list[tuple[int, Instance]]] = field(default_factory=dict)
    _uses: int = 0
    completed: dict[tuple[int, int], int] = field(default_factory=dict)  # by slot and number

    def _rows(self, batch: WarpBatch, mask: Mask) -> Iterator[tuple[int, int, int]]:
        """Yield row, warp and lanes of each warp in the mask."""
        whole = batch.mask_of(mask)
        for row, warp in enumerate(batch.warps.tolist()):
            lanes = lane_bits(whole[row])
            if lanes:
                yield row, warp, lanes

    def _instance(self, what: str, slot: int, number: int) -> Instance:
        """Return the use that an arrival now takes part in."""
        known = self._current.get((slot, number))
        if known is None:
            self._uses += 1
            known = self._current[slot, number] = Instance((what, slot, number, self._uses))
        return known

    def _owed(self, warp: int, lanes: int) -> int:
        """Return those of `lanes` that have arrived at an instance and not passed it."""
        return sum(bits for bits, _ in self._owing.get(warp, ())) & lanes

    def _owe(self, warp: int, lanes: int, instance: Instance) -> None:
        self._owing.setdefault(warp, []).append((lanes, instance))

    def _waits_for(self, warp: int, lanes: int) -> list[Instance]:
        return [i for bits, i in self._owing.get(warp, ()) if bits & lanes and not i.complete]

    def _pass(self, warp: int, lanes: int) -> list[tuple[int, Instance]]:
        """Let lanes go; return the instances that they have passed."""
        owed = self._owing.get(warp, [])
        self._owing[warp] = [(b & ~lanes, i) for b, i in owed if b & ~lanes]
        return [(b & lanes, i) for b, i in owed if b & lanes]

    def _alive(self, warp: int) -> int:
        return lane_bits(self.machine.alive[warp])

    def _come(self, warp: int, lanes: int, instance: Instance) -> None:
        instance.arrived[warp] = instance.arrived.get(warp, 0) | lanes

    def _arrived(self, warp: int, instance: Instance) -> int:
        """Return the lanes of a warp that have arrived."""
        return instance.arrived.get(warp, 0)

    def _complete(self, key: tuple[int, int], instance: Instance) -> None:
        instance.complete = True
        self.completed[key] = self.completed.get(key, 0) + 1
        del self._current[key]
        self.machine.wake(instance)

    def _block(self, batch: WarpBatch, mask: Mask) -> Blocked | None:
        ready = np.ones(batch.size, np.bool_)
        keys: dict[object, None] = {}
        for row, warp, lanes in self._rows(batch, mask):
            for instance in self._waits_for(warp, lanes):
                ready[row] = False
                keys[instance] = None
        return Blocked(ready, tuple(keys)) if keys else None

    def _notify(
        self, batch: WarpBatch, notified: dict[Instance, NDArray[np.bool_]], scope: str, sem: str
    ) -> None:
        """Notify observers of arrivals (`sem` release or relaxed) or passed waits (acquire)."""
        hooks = self.machine.hooks
        if not hooks:
            return
        for instance, lanes in notified.items():
            if sem == "acquire":
                hooks.barrier_passed(batch, lanes, instance.name, scope, sem)
            else:
                hooks.barrier_arrived(batch, lanes, instance.name, scope, sem)

    def _missing(self, warps: Iterator[int], instance: Instance) -> str:
        """Name the warps that have not arrived."""
        missing = [w for w in warps if self._alive(w) & ~self._arrived(w, instance)]
        return name_warps(self.machine, dict.fromkeys(missing, ALL_LANES)) or "no running warp"


def _add(
    notified: dict[Instance, NDArray[np.bool_]],
    at: Instance,
    batch: WarpBatch,
    row: int,
    lanes: int,
) -> None:
    mask = notified.setdefault(at, np.zeros((batch.size, LANES), np.bool_))
    mask[row] |= lanes_of_bits(lanes)


class CtaBarriers(_Barriers):
    """The barriers 0 to 15 of each CTA."""

    COUNT = 16

    def arrive(
        self,
        batch: WarpBatch,
        mask: Mask,
        number: Array,
        wanted: Array | None,
        kind: str,
        predicate: Array | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Let lanes arrive that have not yet; `waits` are those that will pass."""
        notified: dict[Instance, NDArray[np.bool_]] = {}
        for row, warp, lanes in self._rows(batch, mask):
            lanes &= ~self._owed(warp, lanes) if waits else lanes
            for one, threads, some in _uses(row, lanes, number, wanted):
                text = _invalid(one, threads, wanted is not None)
                if text:
                    batch.report("barrier-misuse", text, _row_mask(batch, row, some), same=text)
                    continue
                slot = int(self.machine.slot_of[warp])
                instance = self._instance("bar", slot, one)
                self._check(batch, row, some, instance, threads, kind)
                if waits:
                    self._owe(warp, some, instance)
                if predicate is not None:
                    held = np.broadcast_to(predicate, (batch.size, LANES))[row]
                    instance.true += (lane_bits(held) & some).bit_count()
                    instance.brought += some.bit_count()
                _add(notified, instance, batch, row, some)
                # Observers first: a thread that passes must find all arrivals in the clocks.
                self._notify(batch, {instance: notified.pop(instance)}, "cta", "release")
                self._come(warp, some, instance)
                self._settle(instance)

    def _check(
        self, batch: WarpBatch, row: int, lanes: int, instance: Instance, wanted: int, kind: str
    ) -> None:
        """Report an arrival that contradicts earlier arrivals of the same use."""
        text = ""
        # The first arrival defines this use of the barrier: PTX ISA 9.7.13.1 wants the same
        # count and the same kind from all.
        _, _, number, _ = instance.name
        if not instance.kind:
            instance.kind, instance.wanted = kind, wanted
        elif instance.kind != kind:
            text = f"barrier {number} is used by {kind} and {instance.kind} at a time"
        elif instance.wanted != wanted:
            counts = [str(n) if n else "all" for n in (instance.wanted, wanted)]
            text = (
                f"barrier {number} is awaited for {counts[0]} threads and for {counts[1]} at a"
                " time: all who take part give one count"
            )
        if text:
            batch.report("barrier-misuse", text, _row_mask(batch, row, lanes), same=text)

    def _settle(self, instance: Instance) -> None:
        """Complete `instance` if no warp is missing any more."""
        _, slot, number, _ = instance.name
        machine = self.machine
        warps = np.flatnonzero(machine.slot_of == slot).tolist()
        if not instance.wanted:
            done = not any(self._alive(w) & ~self._arrived(w, instance) for w in warps)
        else:
            # bar.sync with a count counts warps, not lanes: 32 threads each, once a warp is whole.
            # Threads that have exited do not count, even of the whole CTA: an H100 waits for ever.
            for warp, lanes in tuple(instance.arrived.items()):
                if not self._alive(warp) & ~lanes:
                    instance.threads += LANES
                    instance.arrived[warp] = 0
            instance.arrived = {w: lanes for w, lanes in instance.arrived.items() if lanes}
            done = instance.threads >= instance.wanted
        if done and not instance.complete:
            self._complete((slot, number), instance)

    def must_wait(self, batch: WarpBatch, mask: Mask) -> Blocked | None:
        return self._block(batch, mask)

    def passed(self, batch: WarpBatch, mask: Mask) -> Array:
        """Let lanes go on; return, by warp, how many threads brought true, and how many came."""
        notified: dict[Instance, NDArray[np.bool_]] = {}
        votes = np.zeros((batch.size, 2), np.int64)
        for row, warp, lanes in self._rows(batch, mask):
            for some, instance in self._pass(warp, lanes):
                _add(notified, instance, batch, row, some)
                votes[row] = instance.true, instance.brought
        self._notify(batch, notified, "cta", "acquire")
        return votes

    def exited(self, batch: WarpBatch, mask: Mask) -> None:
        """Threads that have exited are not waited for."""
        slots = {int(s) for s in batch.slot[:, 0]}
        for (slot, _), instance in tuple(self._current.items()):
            if slot in slots and instance.arrived:
                self._settle(instance)

    def describe(self, key: object) -> Stall | None:
        """Return which warps have not arrived at a barrier, for a deadlock; None for other keys."""
        if not isinstance(key, Instance) or key.name[0] != "bar":
            return None
        _, slot, number, _ = key.name
        warps = np.flatnonzero(self.machine.slot_of == slot).tolist()
        cta = int(self.machine.cta_of[warps[0]])
        if not key.wanted:
            missing = f"which waits for {self._missing(iter(warps), key)}"
        else:
            missing = f"which has {key.threads} of {key.wanted} threads"
            if not all(self._alive(warp) for warp in warps):
                missing += " (those that have exited count for nothing where a number is given)"
        text = f"barrier {number} of CTA {cta}, {missing}"
        return Stall(f"barrier {number}", text, BARRIER, frozenset(warps))


class ClusterBarriers(_Barriers):
    """barrier.cluster: all threads of a cluster, in turns of an arrive and a wait each."""

    def arrive(self, batch: WarpBatch, mask: Mask, sem: str) -> None:
        machine = self.machine
        again = np.zeros((batch.size, LANES), np.bool_)
        notified: dict[Instance, NDArray[np.bool_]] = {}
        for row, warp, lanes in self._rows(batch, mask):
            twice = self._owed(warp, lanes)
            if twice:
                again |= _row_mask(batch, row, twice)
                self._pass(warp, twice)
            first = int(machine.slot_of[warp] - machine.rank_of[warp])
            instance = self._instance("barrier.cluster", first, 0)
            self._owe(warp, lanes, instance)
            self._come(warp, lanes, instance)
            _add(notified, instance, batch, row, lanes)
        if again.any():
            text = "barrier.cluster.arrive again before barrier.cluster.wait; a thread does one"
            batch.report("barrier-misuse", f"{text} wait behind each arrive", again, same="again")
        self._notify(batch, notified, "cluster", sem)
        for instance in notified:
            self._settle(instance)

    def has_met(self, first: int) -> bool:
        """Say whether the cluster whose CTAs begin at that slot has passed a barrier.cluster."""
        return (first, 0) in self.completed

    def _warps(self, first: int) -> list[int]:
        last = first + self.machine.geometry.cluster_ctas
        slots = self.machine.slot_of
        return np.flatnonzero((slots >= first) & (slots < last)).tolist()

    def _settle(self, instance: Instance) -> None:
        _, first, number, _ = instance.name
        warps = self._warps(first)
        if not any(self._alive(w) & ~self._arrived(w, instance) for w in warps):
            self._complete((first, number), instance)

    def must_wait(self, batch: WarpBatch, mask: Mask) -> Blocked | None:
        block = self._block(batch, mask)
        ready = block.ready if block else np.ones(batch.size, np.bool_)
        slots = batch.slot[ready, 0]
        # Under the late schedule the CTAs of a cluster leave one after the other, which is allowed
        # and shows code that relies on its peer being past the barrier too.
        if not self.machine.in_turn or not len(slots) or (slots == slots[0]).all():
            return block
        keys = block.keys if block else ()
        return Blocked(ready & (batch.slot[:, 0] == slots[0]), (*keys, TURN))

    def passed(self, batch: WarpBatch, mask: Mask) -> None:
        self.machine.wake(TURN)
        notified: dict[Instance, NDArray[np.bool_]] = {}
        alone = np.zeros((batch.size, LANES), np.bool_)
        for row, warp, lanes in self._rows(batch, mask):
            for some, instance in self._pass(warp, lanes):
                _add(notified, instance, batch, row, some)
                lanes &= ~some
            if lanes:
                alone |= _row_mask(batch, row, lanes)
        if alone.any():
            text = "barrier.cluster.wait without barrier.cluster.arrive before it; a thread does"
            batch.report(
                "barrier-misuse", f"{text} one arrive before each wait", alone, same="wait"
            )
        self._notify(batch, notified, "cluster", "acquire")

    def exited(self, batch: WarpBatch, mask: Mask) -> None:
        """Threads that have exited are not waited for."""
        firsts = {int(s) for s in batch.cluster_slot[:, 0]}
        for (first, _), instance in tuple(self._current.items()):
            if first in firsts and instance.arrived:
                self._settle(instance)

    def describe(self, key: object) -> Stall | None:
        """Return which warps have not arrived at a cluster's barrier; None for other keys."""
        if not isinstance(key, Instance) or key.name[0] != "barrier.cluster":
            return None
        warps = self._warps(key.name[1])
        text = f"barrier.cluster, which waits for {self._missing(iter(warps), key)}"
        return Stall("barrier.cluster", text, BARRIER, frozenset(warps))


def _uses(
    row: int, lanes: int, number: Array, wanted: Array | None
) -> Iterator[tuple[int, int, int]]:
    """Yield barrier, count and lanes of each barrier that lanes of a warp name."""
    if not lanes:
        return
    if number.size == 1 and (wanted is None or wanted.size == 1):
        yield int(number[0, 0]), 0 if wanted is None else int(wanted[0, 0]), lanes
        return
    found: dict[tuple[int, int], int] = {}
    for lane in range(LANES):
        if lanes >> lane & 1:
            count = 0 if wanted is None else value_at(wanted, row, lane)
            key = (value_at(number, row, lane), count)
            found[key] = found.get(key, 0) | 1 << lane
    for (one, count), some in found.items():
        yield one, count, some


def _invalid(number: int, wanted: int, counted: bool) -> str:
    if not 0 <= number < CtaBarriers.COUNT:
        return f"barrier {number}: a CTA has barriers 0 to {CtaBarriers.COUNT - 1}"
    if counted and (wanted < LANES or wanted % LANES):
        return f"barrier {number} for {wanted} threads: a multiple of {LANES} is wanted"
    return ""


def _row_mask(batch: WarpBatch, row: int, lanes: int) -> NDArray[np.bool_]:
    mask = np.zeros((batch.size, LANES), np.bool_)
    mask[row] = lanes_of_bits(lanes)
    return mask
