"""Runs a machine: picks a batch or an operation, runs it until it must wait, and picks again.

How it works. All that can go on is in two lists: `machine.ready`, the batches, and
`machine.operations.heads`, the asynchronous operations whose next event may happen. The policy
picks one. An operation does one event. A batch runs segment after segment until

- an issue condition holds it back: a wait whose barrier has not completed parks it under that
  barrier's key (`machine.park`), and whatever completes the barrier wakes it; a collective
  instruction keeps it among the convergence waiters until its lanes are there;
- it reaches a reconvergence point and waits for the other lanes of its warps;
- a segment ends with an instruction that synchronises or starts something, and the policy yields;
- its turn is used up: code may spin in a plain loop on memory that another batch writes.

Parked batches are asked again from the start of their instruction: a wait is an issue condition, so
the instruction itself runs once, when it passes.

When nothing is ready and nothing is in flight, or all that is ready only uses up its turns,
reconvergence points are released first, as PTX does not promise that lanes wait there. Then each
try_wait on an mbarrier gives up once, as hardware does after a time: code may only look whether a
phase is over, and go on. If still nothing is ready, the launch is over, or it is a deadlock
(`deadlock`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.deadlock import report_deadlock
from kernelrig.emu.machine.divergence import (
    ConvergenceWaiters,
    arrive,
    complete,
    diverge,
    reconverge,
    reconvergence_point,
    release,
    rows_of,
)
from kernelrig.emu.machine.divergent_collectives import (
    report_divergent_waiters,
    report_missing_lanes,
)
from kernelrig.emu.machine.endless_loops import EndlessLoops
from kernelrig.emu.machine.machine_state import Machine, ReconvergencePoint, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.program import BRANCH, EXIT, STOP, TABLE, Segment
from kernelrig.emu.machine.progress import AT, LAST
from kernelrig.emu.machine.schedule_policy import LATE, Policy, latest
from kernelrig.emu.machine.time_limit import limits_pass
from kernelrig.emu.machine.warp_barriers import meet
from kernelrig.emu.numerics.arrays import LANES, UNDEFINED, full_mask, lanes_of_words


@dataclass
class Scheduler:
    """Runs the wave of CTAs on `machine`. `steps` counts segments and events.

    What it executes stands in `cells` (`progress`) first: code may end the process. A wave may take
    `max_steps`.
    """

    machine: Machine
    policy: Policy
    max_steps: int
    cells: memoryview
    steps: int = 0
    next_look: int = 0  # behind this step

    def __post_init__(self) -> None:
        self.waiters = ConvergenceWaiters()
        self.points: list[ReconvergencePoint] = []
        self.apart: set[int] = set()  # segments at which lanes do not reconverge
        self.segments = self.machine.program.segments
        self.visits = self.machine.program.visits
        self.loops = EndlessLoops(
            self.machine, self.max_steps, lambda: self.visits, self.policy.segments_run,
            lambda: self.waiters.waiting.values(),
        )  # fmt: skip

    def start(self, ctas: NDArray[np.int64]) -> None:
        """Make `ctas`, linear indices of whole clusters in order, the wave that runs."""
        machine = self.machine
        self.next_look = self.loops.start(self.steps)
        machine.new_wave()
        machine.place(ctas)
        self.policy.start()
        self.waiters = ConvergenceWaiters()
        self.points = []
        lanes = None if machine.alive.all() else machine.alive.copy()
        registers = [UNDEFINED] * machine.program.registers
        batch = WarpBatch(machine, 0, np.arange(len(machine.alive)), lanes, registers)
        machine.ready.append(batch)

    def run(self) -> None:
        """Run until all warps have exited and nothing is in flight, or nothing can go on."""
        machine = self.machine
        with np.errstate(all="ignore"):
            while not machine.stopped:
                if self.steps > self.next_look:
                    self.next_look = self.loops.look(self.steps, self.cells[AT])
                    continue
                heads = machine.operations.heads
                if machine.ready and self.policy.must_change(machine.ready):
                    self._change(heads)
                elif machine.ready or heads:
                    chosen = self.policy.next(machine.ready, heads)
                    if isinstance(chosen, Op):
                        self._step(chosen)
                    else:
                        before = self.steps
                        ready = self._advance(self._merged(chosen))
                        self.policy.in_a_row += self.steps - before
                        if not ready:
                            self.policy.in_a_row = 0
                elif not self._release_waiters() and not limits_pass(machine):
                    break
        self._finish()

    def _step(self, op: Op) -> None:
        self.steps += 1
        self.policy.in_a_row = 0
        self.cells[AT] = self.cells[LAST] = op.at
        self.machine.operations.step(op)

    def _change(self, heads: list[Op]) -> None:
        """All that is ready may wait in loops for what a late schedule holds back, for lanes at a
        reconvergence point, where none will wait again, or for a warp that asks once for a phase.
        """
        if heads and self.policy.kind == LATE:
            self._step(latest(heads))
        elif point := next((p for p in self.points if p.arrived), None):
            self.apart.add(point.segment)
            release(point)
        else:
            limits_pass(self.machine)

    def _merged(self, batch: WarpBatch) -> WarpBatch:
        """Take `batch` off the list with all that stand where it stands; or only a part of it."""
        ready = self.machine.ready
        ready.remove(batch)
        # A random schedule splits batches, so that warps at one instruction do not always run it
        # together; batches with results in flight stay whole, as their registers are shared.
        if batch.size > 1 and not batch.pending and self.policy.splits():
            split = self.policy.rng.randrange(1, batch.size)
            order = np.array(self.policy.rng.sample(range(batch.size), batch.size))
            lanes = full_mask(batch.lanes, batch.size)
            ready.append(rows_of(batch, np.sort(order[split:]), lanes[np.sort(order[split:])]))
            return rows_of(batch, np.sort(order[:split]), lanes[np.sort(order[:split])])
        # Otherwise warps at one instruction run it as one: that is where the speed comes from.
        if not ready or batch.pending or self.policy.splits():
            return batch
        mates = [
            c for c in ready if c.pc == batch.pc and c.points == batch.points and not c.pending
        ]
        if not mates:
            return batch
        for mate in mates:
            ready.remove(mate)
        return reconverge([batch, *mates])

    def _release_waiters(self) -> bool:
        """Nothing can go on: release the batches that only wait to reconverge."""
        for point in self.points:
            if point.arrived:
                report_missing_lanes(self.machine, self.waiters, point)
                release(point)
                return True
        return False

    def _advance(self, batch: WarpBatch | None) -> bool:
        """Run a batch until it waits, or its turn ends: then it is ready again."""
        machine, segments, visits = self.machine, self.segments, self.visits
        cells = self.cells
        fuel = self.policy.turn(batch, machine.ready) if batch is not None else 0
        while batch is not None and not machine.stopped:
            segment = segments[batch.pc]
            if batch.points and batch.points[-1].segment == batch.pc:
                batch = arrive(batch)
                continue
            cells[AT], cells[LAST] = segment.first, segment.last - 1
            if segment.condition is not None:
                batch = self._check_condition(batch, segment)
                if batch is None:
                    return False
            result = segment.run(batch, batch.registers, batch.lanes)
            visits[segment.index] += batch.size
            machine.time += segment.last - segment.first
            self.steps += 1
            fuel -= 1
            end = segment.end
            if end == BRANCH:
                batch = self._branch(batch, segment, result)
            elif end == EXIT:
                batch = self._exit(batch, segment, result)
            elif end == TABLE:
                batch = self._table(batch, segment, result)
            else:
                batch.pc += 1
                if end == STOP and self.policy.yields():
                    self.policy.yielded_by(batch)
                    machine.ready.append(batch)
                    return True
            if fuel <= 0 and batch is not None:
                self.policy.ran_out(batch)
                machine.ready.append(batch)
                return True
        return False

    def _check_condition(self, batch: WarpBatch, segment: Segment) -> WarpBatch | None:
        condition = segment.condition
        assert condition is not None
        mask = batch.lanes
        # A guard that is false for all lanes skips the instruction: there is nothing to wait for.
        if condition.mask:
            mask = condition.mask(batch, batch.registers, batch.lanes)
            if not mask.any():
                return batch
        if condition.collective and (batch.lanes is not None or mask is not None):
            gathered = self._gathered(batch, segment, full_mask(mask, batch.size))
            if gathered is None:
                return None
            if gathered is not batch:
                batch = gathered
                mask = (
                    condition.mask(batch, batch.registers, batch.lanes)
                    if condition.mask
                    else batch.lanes
                )
        if condition.ready is None:
            return batch
        # Warps that may go on leave the others parked: they are separate batches from here.
        block = condition.ready(batch, batch.registers, mask)
        if block is None:
            return batch
        lanes = full_mask(batch.lanes, batch.size)
        waiting = np.nonzero(~block.ready)[0]
        if not len(waiting):
            return batch
        going = np.nonzero(block.ready)[0]
        self.machine.park(rows_of(batch, waiting, lanes[waiting]), block.keys)
        return rows_of(batch, going, lanes[going]) if len(going) else None

    def _gathered(
        self, batch: WarpBatch, segment: Segment, here: NDArray[np.bool_]
    ) -> WarpBatch | None:
        """Return the warps of which all lanes that the instruction needs are here."""
        condition = segment.condition
        assert condition is not None
        alive = self.machine.alive[batch.warps]
        needed = alive
        if condition.collective == "mask" and condition.members:
            members = np.broadcast_to(
                condition.members(batch, batch.registers, batch.lanes), (batch.size, LANES)
            )
            own = np.where(here, members, 0)
            bits = np.bitwise_or.reduce(own, axis=1).astype(np.uint32)
            needed = alive & lanes_of_words(bits)
        gathered = self.waiters.gather(batch, needed)
        if gathered is not batch and condition.collective == "mask":
            for warp in batch.warps.tolist():
                if (batch.pc, warp) in self.waiters.waiting:
                    self._meet(warp)
        return gathered

    def _meet(self, warp: int) -> None:
        """Let lanes of a warp go on that have met at a barrier from several places."""
        for one in meet(self.machine, self.segments, self.waiters.of(warp)):
            del self.waiters.waiting[one.pc, warp]
            one.pc += 1
            self.machine.ready.append(one)

    def _branch(
        self, batch: WarpBatch, segment: Segment, predicate: NDArray[np.bool_] | None
    ) -> WarpBatch | None:
        target = segment.target[0]
        if predicate is None:
            batch.pc = target
            return batch
        if predicate.size == 1:
            batch.pc = target if predicate[0, 0] else batch.pc + 1
            return batch
        own = full_mask(batch.lanes, batch.size)
        taken = own & predicate
        if not taken.any():
            batch.pc += 1
            return batch
        if not (own & ~predicate).any():
            batch.pc = target
            return batch
        return self._diverge(batch, segment, ((taken, target), (own & ~taken, batch.pc + 1)))

    def _table(
        self, batch: WarpBatch, segment: Segment, index: NDArray[np.uint32]
    ) -> WarpBatch | None:
        own = full_mask(batch.lanes, batch.size)
        whole = np.broadcast_to(index, own.shape)
        beyond = own & (whole >= len(segment.target))
        if beyond.any():
            batch.at = segment.last - 1
            batch.report("barrier-misuse", "brx.idx beyond its table of targets", beyond)
            self.machine.stopped = True
            return None
        ways = [(own & (whole == value), segment.target[value]) for value in np.unique(whole[own])]
        if len(ways) == 1:
            batch.pc = ways[0][1]
            return batch
        return self._diverge(batch, segment, tuple(ways))

    def _diverge(
        self,
        batch: WarpBatch,
        segment: Segment,
        ways: tuple[tuple[NDArray[np.bool_], int], ...],
    ) -> WarpBatch | None:
        """Send lanes different ways; lanes of one warp join again behind it."""
        # Only warps whose lanes go different ways need a reconvergence point.
        split = np.sum([lanes.any(axis=1) for lanes, _ in ways], axis=0)  # ways, by warp
        mixed: NDArray[np.bool_] = split > 1
        points = batch.points
        inner = points
        behind = segment.reconvergence
        if behind >= 0 and mixed.any() and behind not in self.apart:
            own = full_mask(batch.lanes, batch.size)
            point = reconvergence_point(batch, behind, own & mixed[:, None])
            self.points = [j for j in self.points if j.missing]
            self.points.append(point)
            inner = (*points, point)
        sides = []
        for lanes, target in ways:
            for rows, stack in ((mixed, inner), (~mixed, points)):
                chosen = np.nonzero(lanes.any(axis=1) & rows)[0]
                if len(chosen):
                    batch.pc = target
                    made = rows_of(batch, chosen, lanes[chosen])
                    made.points = stack
                    sides.append(made)
        # Those that branch straight to the reconvergence point first: they only wait there.
        sides.sort(key=lambda c: c.pc != behind)
        self.machine.ready.extend(sides[1:-1])
        if len(sides) > 1 and sides[0].points and sides[0].pc == sides[0].points[-1].segment:
            arrived = arrive(sides[0])
            if arrived is not None:
                self.machine.ready.append(arrived)
            return sides[-1]
        self.machine.ready.append(sides[0])
        return sides[-1]

    def _exit(
        self, batch: WarpBatch, segment: Segment, guard: NDArray[np.bool_] | None
    ) -> WarpBatch | None:
        own = full_mask(batch.lanes, batch.size)
        leaving = own if guard is None else own & guard
        batch.at = max(segment.last - 1, 0)
        if not leaving.any():
            batch.pc += 1
            return batch
        machine = self.machine
        # Barriers, points and collective instructions stop waiting for lanes that have exited.
        machine.alive[batch.warps] &= ~leaving
        batch.pc += 1  # the lanes that stay keep the registers that are live from here on
        gone, staying = diverge(batch, leaving)
        if gone is not None:
            self._remove_exited(gone)
            for state in machine.components:
                if hasattr(state, "exited"):
                    state.exited(gone, gone.lanes)
        return staying

    def _remove_exited(self, gone: WarpBatch) -> None:
        """Lanes that have exited are not waited for."""
        lanes = full_mask(gone.lanes, gone.size)
        for point in gone.points:
            for row, warp in enumerate(gone.warps):
                missing = point.missing.get(int(warp))
                if missing is not None:
                    point.missing[int(warp)] = missing & ~lanes[row]
            going = complete(point)
            if going is not None:
                self.machine.ready.append(going)
        for warp in gone.warps:
            self.machine.ready.extend(self.waiters.left(int(warp)))

    def _finish(self) -> None:
        machine = self.machine
        parked, converging = machine.parked, [*self.waiters.waiting.values()]
        if (parked or converging) and not machine.stopped:
            report_deadlock(machine, parked, converging)
            report_divergent_waiters(self.machine, self.waiters)
            machine.stopped = True
            return
        if machine.stopped:
            return
        for state in machine.components:
            if hasattr(state, "finish"):
                state.finish()
        if machine.hooks:
            machine.hooks.ended(machine)
