"""mbarriers: 64 bits of shared memory that count arrivals and bytes, phase after phase.

PTX ISA 9.7.13.15. `phase.Barrier` is the counter. Here instructions and asynchronous operations
find one by its address; observers are notified, misuse is reported, and warps that wait are woken.

Who arrives: threads (mbarrier.arrive, with or without expect_tx), and tcgen05.commit or
cp.async.mbarrier.arrive for the operations they track. Copies do not arrive: they complete their
bytes (complete_tx). A phase completes when no arrival is pending and the tx-count is zero,
whichever comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kernelrig.emu.machine.addressing import is_running, locate, name_of
from kernelrig.emu.machine.findings import Context, Wait
from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.emu.machine.lane_groups import (
    Lanes,
    by_place,
    named_places,
    same_value,
    spread,
    total,
    value_at,
)
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import PENDING_BIT, PHASE_BIT, Barrier, Misuse
from kernelrig.emu.machine.stall import AHEAD, BYTES, NONE, SOME, Stall
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.numerics.arrays import LANES, Array, Mask

__all__ = ["Arrival", "Barrier", "Barriers"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """How an instruction arrives: its modifiers. `arrives` is false of a bare expect_tx."""

    name: str
    space: str
    sem: str = "release"
    scope: str = "cta"
    arrives: bool = True
    drops: bool = False
    completes: bool = True  # false: it must not complete the phase


@dataclass(eq=False)
class Barriers:
    """All mbarriers of a machine."""

    machine: Machine
    _live: dict[int, Barrier] = field(default_factory=dict)  # by flat position
    _wanted: dict[int, list[tuple[Barrier, int]]] = field(default_factory=dict)  # by warp: phases
    _passes: dict[tuple[int, object], tuple[int, int]] = field(default_factory=dict)
    _waits: dict[tuple[Barrier, int, int], Wait] = field(default_factory=dict)
    _returned: set[tuple[object, ...]] = field(default_factory=set)  # waits that gave up already
    at_limits: bool = False  # whether all waits give up, once a phase: `time_limit`

    def find(self, slot: int, offset: int) -> Barrier | None:
        """Return the live mbarrier at that address of the CTA in `slot`."""
        return self._live.get(slot * SLOT_BYTES + offset)

    @property
    def places(self) -> tuple[int, ...]:
        """The flat positions of all live mbarriers."""
        return tuple(self._live)

    @property
    def live(self) -> tuple[Barrier, ...]:
        return tuple(self._live.values())

    # By threads.
    def init(self, batch: WarpBatch, mask: Mask, address: Array, count: Array, space: str) -> None:
        name = "mbarrier.init"
        for place in locate(batch, mask, address, 8, space, name, write=True):
            if place.space != "shared":
                self._report(batch, place.mask, "space", f"{name}: not in shared memory", 0)
                continue
            for flat, lanes in by_place(batch, place.mask, place.flat):
                self._make(batch, lanes, flat, count)

    def _make(self, batch: WarpBatch, lanes: Lanes, flat: int, count: Array) -> None:
        row, lane = (int(i[0]) for i in np.nonzero(lanes))
        slot, offset = divmod(flat, SLOT_BYTES)
        called = self.machine.memory.names.of_mbarrier(offset)
        where = f"of {called} (shared {offset:#x})" if called else f"at shared {offset:#x}"
        number = int(lanes.sum())
        if flat in self._live or number > 1:
            text = "of a live mbarrier" if flat in self._live else f"by {number} threads"
            self._report(batch, lanes, "init", f"mbarrier.init {where} {text}", offset)
        made_by = (int(batch.warps[row]), lane)
        try:
            self._live[flat] = self._made(slot, offset, value_at(count, row, lane), made_by, called)
        except Misuse as wrong:
            text = f"mbarrier.init {where}: {wrong}"
            self._report(batch, lanes, wrong.rule, text, offset)
        self.machine.memory.shared.written[flat : flat + 8] = 1

    def _made(
        self, slot: int, offset: int, count: int, made_by: tuple[int, int], name: str
    ) -> Barrier:
        return Barrier(slot, offset, count, made_by, name=name)

    def inval(self, batch: WarpBatch, mask: Mask, address: Array, space: str) -> None:
        for barrier, _ in self._found(batch, mask, address, space, "mbarrier.inval"):
            flat = barrier.slot * SLOT_BYTES + barrier.offset
            if self._live.pop(flat, None):
                self.machine.memory.shared.written[flat : flat + 8] = 0
                self.machine.wake(barrier.key)

    def arrive(
        self,
        batch: WarpBatch,
        mask: Mask,
        address: Array,
        how: Arrival,
        count: Array | None = None,
        tx: Array | None = None,
    ) -> Array:
        """Add `tx` bytes and arrive, as `how` says; return the states before the arrivals."""
        states = np.zeros((batch.size, LANES), np.uint64)
        for barrier, lanes in self._found(batch, mask, address, how.space, how.name):
            each = 1 if count is None else same_value(count, lanes)
            together = int(lanes.sum())
            # The state word that each lane gets back differs by its place in the order.
            if how.arrives and each and each * together <= barrier.pending:
                # Only the last can complete the phase, so their order makes no difference.
                pending = barrier.pending - each * np.arange(together)
                parity = (barrier.phase & 1) << PHASE_BIT
                states[lanes] = ((1 << 20) - pending).astype(np.uint64) << PENDING_BIT | parity
                self._arrive(batch, barrier, lanes, how, each * together, total(tx, lanes))
                continue
            for row, lane in np.argwhere(lanes).tolist():
                one = np.zeros_like(lanes)
                one[row, lane] = True
                states[row, lane] = barrier.state
                number = 1 if count is None else value_at(count, row, lane)
                self._arrive(batch, barrier, one, how, number, total(tx, one))
        return states

    def _arrive(
        self, batch: WarpBatch, barrier: Barrier, lanes: Lanes, how: Arrival, count: int, tx: int
    ) -> None:
        # Observers come first: the arrival belongs to the phase that it may complete. expect_tx
        # comes before the arrival, so that this cannot complete the phase without its bytes.
        phase = barrier.phase
        if how.arrives:
            barrier.arrived_by = int(batch.warps[int(np.argmax(lanes.any(axis=1)))])
        if how.arrives and self.machine.hooks:
            self.machine.hooks.arrived(batch, lanes, barrier, phase, how.sem, how.scope)
        for change, number, wanted in (
            (barrier.drop, count, how.drops),
            (barrier.transact, tx, bool(tx)),
            (partial(barrier.arrive, completes=how.completes), count, how.arrives),
        ):
            try:
                if wanted:
                    change(number)
            except Misuse as wrong:
                text = f"{how.name} on the {barrier}: {wrong}"
                self._report(batch, lanes, wrong.rule, text, barrier.offset)
        if barrier.phase != phase:
            self.machine.wake(barrier.key)

    def must_wait(
        self, batch: WarpBatch, mask: Mask, address: Array, parity: Array
    ) -> Blocked | None:
        """Return which warps must wait: a warp goes on where the wait returns true for a lane.

        With the probability of the scheduler's policy a warp goes on though its wait returns false,
        at most once in a phase, so that an endless wait is still found as a deadlock. All do so
        before that is reported (`time_limit`).
        """
        ready: set[int] = set()  # rows
        wanted: dict[int, list[tuple[Barrier, int]]] = {}
        for flat, lanes in named_places(batch, mask, address):
            barrier = self._live.get(flat)
            if barrier is None or (passed := _passed(barrier, parity, lanes)) is True:
                ready.update(np.flatnonzero(lanes.any(axis=1)).tolist())
                continue
            if passed is not False:
                ready.update(np.flatnonzero(passed.any(axis=1)).tolist())
            # The wait itself reports that the mbarrier is another CTA's.
            away = lanes & (batch.slot != barrier.slot)
            ready.update(np.flatnonzero(away.any(axis=1)).tolist())
            for row in np.flatnonzero(lanes.any(axis=1)).tolist():
                wanted.setdefault(row, []).append((barrier, barrier.phase & 1))
        return self._block(batch, {r: waits for r, waits in wanted.items() if r not in ready})

    def _block(
        self, batch: WarpBatch, wanted: dict[int, list[tuple[Barrier, int]]]
    ) -> Blocked | None:
        chance = 1.0 if self.at_limits else self.machine.spurious
        ready = np.ones(batch.size, np.bool_)
        keys: dict[object, None] = {}
        for row, waits in wanted.items():
            tried = (warp := int(batch.warps[row]), batch.at, *((b.key, b.phase) for b, _ in waits))
            # try_wait may return false before its phase completes (9.7.13.15.16): once a phase, or
            # a loop around it would never be a deadlock.
            if chance and tried not in self._returned and self.machine.rng.random() < chance:
                self._returned.add(tried)
                continue
            ready[row] = False
            self._wanted[warp] = [(barrier, barrier.phase) for barrier, _ in waits]
            keys.update((b.key, None) for b, _ in waits)
        return Blocked(ready, tuple(keys)) if keys else None

    @property
    def waited_for(self) -> list[Barrier]:
        """What each warp has waited for last, by warp."""
        return [barrier for _, waits in sorted(self._wanted.items()) for barrier, _ in waits]

    def test(
        self,
        batch: WarpBatch,
        mask: Mask,
        address: Array,
        parity: Array,
        name: str,
        sem: str,
        scope: str,
    ) -> Array:
        """Return where the phase of that parity is over, and notify observers."""
        found = list(self._found(batch, mask, address, "shared::cta", name))
        over = batch.mask_of(mask).copy()  # where there is no mbarrier the wait returns true
        for barrier, lanes in found:
            over &= ~lanes
            passed = _passed(barrier, parity, lanes)
            seen = lanes if passed is True else passed
            if seen is False or not seen.any():
                continue
            over |= seen
            barrier.observed = True
            self._remember(batch, seen, barrier)
            if self.machine.hooks and barrier.phase:
                self.machine.hooks.waited(batch, seen, barrier, barrier.phase - 1, sem, scope)
        # One value where all executing lanes get the same result; other lanes are not read.
        if over.any() and not (batch.mask_of(mask) & ~over).any():
            return np.ones((1, 1), np.bool_)
        return over if over.any() else np.zeros((1, 1), np.bool_)

    def _remember(self, batch: WarpBatch, seen: Lanes, barrier: Barrier) -> None:
        """Note for messages which wait each warp has passed last, and whether it was early."""
        phase = barrier.phase
        for row in np.flatnonzero(seen.any(axis=1)).tolist():
            warp = int(batch.warps[row])
            # Waits for one phase count once, however many there are of them.
            last, passes = self._passes.get((warp, barrier.key), (-1, 0))
            passes += last != phase
            self._passes[warp, barrier.key] = (phase, passes)
            early = phase < passes
            # Most waits are not early, and one record of each instruction and mbarrier serves them.
            key = (barrier, batch.at, phase if early else -1)
            wait = self._waits.get(key)
            if wait is None:
                wait = self._waits[key] = self._wait(batch.at, barrier, early, phase)
            self.machine.last_wait[warp] = wait

    def _wait(self, at: int, barrier: Barrier, early: bool, phase: int) -> Wait:
        where, name = self.machine.program.where(at), barrier.name or str(barrier)
        return Wait(name, where.frame, early, phase, where.frames, where.ptx_line)

    # By asynchronous operations.
    def op_tx(self, op: Op, slot: int, offset: int, nbytes: int) -> None:
        """`op` has written `nbytes`: complete_tx."""
        self._by_op(op, slot, offset, "tx", lambda b: b.transact(-nbytes))

    def op_arrive(self, op: Op, slot: int, offset: int, count: int = 1) -> None:
        """What `op` tracks is complete: arrive."""
        self._by_op(op, slot, offset, "commit", lambda b: b.arrive(count))

    def _by_op(
        self, op: Op, slot: int, offset: int, kind: str, change: Callable[[Barrier], None]
    ) -> None:
        barrier = self.find(slot, offset)
        machine = self.machine
        if not is_running(machine, slot):
            called = name_of(machine.memory, "shared", offset)
            text = f"{op.name} signals the mbarrier {called} of a CTA that has exited"
            if kind == "commit":
                # Of a ring, whichever mbarrier it is: it is one statement that nobody waits for.
                context = Context("commit-to-an-exited-cta", wait=op.wait)
                self.machine.report_op(op, "leak", text, same="commit", context=context)
            elif machine.slot_of[op.warp] == slot:
                names = self._context("exited", offset, op.wait).objects
                context = Context("bytes-for-an-exited-cta", names, wait=op.wait)
                self.machine.report_op(op, "leak", text, same=("own", offset), context=context)
            else:
                self._report_op(op, "exited", text, offset)
            return
        if barrier is None:
            called = name_of(machine.memory, "shared", offset)
            text = f"{op.name} signals {called}, which is no mbarrier"
            self._report_op(op, "none", text, offset)
            return
        phase = barrier.phase
        if kind == "commit":
            barrier.arrived_by = op.warp
        if machine.hooks:
            machine.hooks.op_arrived(op, barrier, phase, kind)
        try:
            change(barrier)
        except Misuse as wrong:
            text = f"{op.name} on the {barrier}: {wrong}"
            self._report_op(op, wrong.rule, text, offset)
        if barrier.phase != phase:
            machine.wake(barrier.key)

    def describe(self, key: object) -> Stall | None:
        """Return what an mbarrier lacks to complete, for a deadlock; None for other keys."""
        match key:
            case ("mbarrier", int(slot), int(offset)):
                barrier = self.find(slot, offset)
            case _:
                return None
        if barrier is None:
            return None
        cta = int(self.machine.cta_of[barrier.made_by[0]])
        # With arrivals missing, bytes may still be on their way into an expect_tx that never ran.
        wrong_bytes = barrier.tx < 0 or (barrier.tx > 0 and not barrier.pending)
        some = barrier.pending < barrier.expected or barrier.tx > 0
        waiting = frozenset(
            w for w, waits in self._wanted.items() if (barrier, barrier.phase) in waits
        )
        ahead = any(b.phase and not b.observed and b.arrived_by in waiting for b in self.live)
        rank = BYTES if wrong_bytes else SOME if some else AHEAD if ahead else NONE
        name = barrier.name or str(barrier)
        text = f"the {barrier} of CTA {cta}, {barrier.progress}"
        rule = "mbarrier-bytes" if wrong_bytes else "mbarrier-never-completes"
        return Stall(name, text, rank, waiting, rule)

    # Addresses.
    def _found(
        self, batch: WarpBatch, mask: Mask, address: Array, space: str, name: str
    ) -> Iterator[tuple[Barrier, Lanes]]:
        """Yield each live mbarrier that lanes name, with those lanes; report other addresses."""
        lost = np.zeros((batch.size, LANES), np.bool_)
        for flat, lanes in named_places(batch, mask, address):
            barrier = self._live.get(flat)
            if barrier is None:
                lost |= lanes
                continue
            away = lanes & (batch.slot != barrier.slot)
            if away.any() and not self._reaches(batch, away, barrier, space, name):
                lanes = lanes & ~away
            if lanes.any():
                yield barrier, lanes
        for place in locate(batch, lost, address, 8, space, name) if lost.any() else ():
            for flat, lanes in by_place(batch, place.mask, place.flat):
                where = name_of(self.machine.memory, place.space, flat)
                text = f"{name} at {where}, which is no mbarrier"
                self._report(batch, lanes, "none", text, flat % SLOT_BYTES)

    def _reaches(
        self, batch: WarpBatch, away: Lanes, barrier: Barrier, space: str, name: str
    ) -> bool:
        """Return whether threads of other CTAs may use `barrier` so; report it if not."""
        if space in ("shared", "shared::cta") or "wait" in name:
            text = f"{name} on the {barrier} of another CTA of the cluster: only arrivals and"
            text += " tx-counts may be remote, by .shared::cluster"
            self._report(batch, away, "remote", text, barrier.offset)
            return False
        if not is_running(self.machine, barrier.slot):
            text = f"{name} on the {barrier} of a CTA that has exited"
            self._report(batch, away, "exited", text, barrier.offset)
            return False
        return True

    def _report(self, batch: WarpBatch, lanes: Mask, rule: str, text: str, offset: int) -> None:
        kind = "leak" if rule == "exited" else "barrier-misuse"
        first = int(batch.warps[np.flatnonzero(batch.mask_of(lanes).any(axis=1))[0]])
        context = self._context(rule, offset, self.machine.last_wait.get(first))
        batch.report(kind, text, lanes, same=(rule, offset), context=context)

    def _report_op(self, op: Op, rule: str, text: str, offset: int) -> None:
        kind = "leak" if rule == "exited" else "barrier-misuse"
        context = self._context(rule, offset, op.wait)
        self.machine.report_op(op, kind, text, same=(rule, offset), context=context)

    def _context(self, rule: str, offset: int, wait: Wait | None) -> Context:
        name = self.machine.memory.names.of_mbarrier(offset) or f"mbarrier at shared {offset:#x}"
        return Context(f"mbarrier-{rule}", (name,), wait=wait)


def _passed(barrier: Barrier, parity: Array, lanes: Lanes) -> Lanes | bool:
    """Return which lanes' parity is that of a completed phase: all, none, or some of `lanes`."""
    if parity.size == 1:
        return barrier.has_completed(int(parity[0, 0]))
    return np.asarray(lanes & (spread(parity, lanes) != (barrier.phase & 1)))
