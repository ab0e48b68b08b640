"""Runs a machine: crews until they block or reach a point where somebody else may go first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.asynchronous import Op
from kernelrig.emu.machine.divergence import (
    Meetings,
    arrive,
    complete,
    meet,
    part,
    parting,
    release,
    rows_of,
)
from kernelrig.emu.machine.program import BRANCH, EXIT, STOP, TABLE, Segment
from kernelrig.emu.machine.schedule_policy import Policy
from kernelrig.emu.machine.state import Crew, Joining, Machine
from kernelrig.emu.numerics.arrays import LANES, UNDEFINED, full_mask

FUEL = 4096
"""Segments a crew may run before others get a turn: code may wait for them in a plain loop."""


@dataclass
class Scheduler:
    """Runs the wave of CTAs on `machine`. `steps` counts segments and events."""

    machine: Machine
    policy: Policy
    max_steps: int
    steps: int = 0

    def __post_init__(self) -> None:
        self.meetings = Meetings()
        self.joinings: list[Joining] = []
        self.segments = self.machine.program.segments
        self.visits = self.machine.program.visits

    def start(self, ctas: NDArray[np.int64]) -> None:
        """Make `ctas`, linear indices of whole clusters in order, the wave that runs."""
        machine, geometry = self.machine, self.machine.geometry
        machine.new_wave()
        self.meetings = Meetings()
        self.joinings = []
        warps = geometry.warps
        slots = np.arange(len(ctas))
        machine.slot_of = np.repeat(slots, warps)
        machine.rank_of = machine.slot_of % geometry.cluster_ctas
        machine.cta_of = np.repeat(ctas, warps)
        threads = np.arange(warps * LANES).reshape(warps, LANES) < geometry.threads
        machine.alive = np.tile(threads, (len(ctas), 1))
        lanes = None if machine.alive.all() else machine.alive.copy()
        registers = [UNDEFINED] * machine.program.registers
        crew = Crew(machine, 0, np.arange(len(machine.alive)), lanes, registers)
        machine.ready.append(crew)

    def run(self) -> None:
        """Run until all warps have exited and nothing is in flight, or nothing can go on."""
        machine = self.machine
        with np.errstate(all="ignore"):
            while not machine.stopped:
                if self.steps > self.max_steps:
                    machine.report("step-limit", f"still running after {self.max_steps} steps")
                    machine.stopped = True
                    return
                heads = machine.engine.heads
                if machine.ready or heads:
                    chosen = self.policy.next(machine.ready, heads)
                    if isinstance(chosen, Op):
                        self.steps += 1
                        machine.engine.step(chosen)
                    else:
                        self._advance(self._together(chosen))
                elif not self._let_go():
                    break
        self._finish()

    # Choosing.
    def _together(self, crew: Crew) -> Crew:
        """Take `crew` off the list with all that stand where it stands; or only a part of it."""
        ready = self.machine.ready
        ready.remove(crew)
        if crew.size > 1 and not crew.pending and self.policy.parts():
            split = self.policy.rng.randrange(1, crew.size)
            order = np.array(self.policy.rng.sample(range(crew.size), crew.size))
            lanes = full_mask(crew.lanes, crew.size)
            ready.append(rows_of(crew, np.sort(order[split:]), lanes[np.sort(order[split:])]))
            return rows_of(crew, np.sort(order[:split]), lanes[np.sort(order[:split])])
        if not ready or crew.pending or self.policy.parts():
            return crew
        mates = [c for c in ready if c.pc == crew.pc and c.joins == crew.joins and not c.pending]
        if not mates:
            return crew
        for mate in mates:
            ready.remove(mate)
        return meet([crew, *mates])

    def _let_go(self) -> bool:
        """Nothing can go on: let those go who only wait to go on together."""
        for joining in self.joinings:
            if joining.arrived:
                self._kept_back(joining)
                release(joining)
                return True
        return False

    def _kept_back(self, joining: Joining) -> None:
        """Report lanes that wait for the rest of their warp where that does not come along.

        Who goes nowhere but to its exit is not waited for, then.
        """
        behind = self.segments[joining.segment]
        if behind.end == EXIT and behind.last - behind.first <= 1:
            return
        for (_, warp), crew in self.meetings.waiting.items():
            segment = self.segments[crew.pc]
            missing = joining.missing.get(warp)
            if missing is None or segment.gate is None or segment.gate.collective != "warp":
                continue
            here = full_mask(crew.lanes, 1) & missing
            if here.any():
                crew.at = segment.first
                name = self.machine.program.label(segment.first)
                crew.report(
                    "barrier-misuse",
                    f"lanes come to {name} on one side of a branch, and the rest of their warp goes"
                    " the other way: all lanes of a warp must come to an .aligned instruction (PTX"
                    " 9.7.13)",
                    here,
                    same="parted",
                )

    # Running.
    def _advance(self, crew: Crew | None) -> None:
        machine, segments, visits = self.machine, self.segments, self.visits
        fuel = FUEL
        while crew is not None and not machine.stopped:
            segment = segments[crew.pc]
            if crew.joins and crew.joins[-1].segment == crew.pc:
                crew = arrive(crew)
                continue
            if segment.gate is not None:
                crew = self._through_gate(crew, segment)
                if crew is None:
                    return
            result = segment.run(crew, crew.registers, crew.lanes)
            visits[segment.index] += crew.size
            machine.time += segment.last - segment.first
            self.steps += 1
            fuel -= 1
            end = segment.end
            if end == BRANCH:
                crew = self._branch(crew, segment, result)
            elif end == EXIT:
                crew = self._exit(crew, segment, result)
            elif end == TABLE:
                crew = self._table(crew, segment, result)
            else:
                crew.pc += 1
                if end == STOP and self.policy.yields():
                    fuel = 0
            if fuel <= 0 and crew is not None:
                machine.ready.append(crew)
                return

    def _through_gate(self, crew: Crew, segment: Segment) -> Crew | None:
        gate = segment.gate
        assert gate is not None
        mask = crew.lanes
        if gate.mask:
            mask = gate.mask(crew, crew.registers, crew.lanes)
            if not mask.any():
                return crew
        if gate.collective and (crew.lanes is not None or mask is not None):
            gathered = self._gathered(crew, segment, full_mask(mask, crew.size))
            if gathered is None:
                return None
            if gathered is not crew:
                crew = gathered
                mask = gate.mask(crew, crew.registers, crew.lanes) if gate.mask else crew.lanes
        if gate.ready is None:
            return crew
        block = gate.ready(crew, crew.registers, mask)
        if block is None:
            return crew
        lanes = full_mask(crew.lanes, crew.size)
        waiting = np.nonzero(~block.ready)[0]
        if not len(waiting):
            return crew
        going = np.nonzero(block.ready)[0]
        self.machine.park(rows_of(crew, waiting, lanes[waiting]), block.keys)
        return rows_of(crew, going, lanes[going]) if len(going) else None

    def _gathered(self, crew: Crew, segment: Segment, here: NDArray[np.bool_]) -> Crew | None:
        """Return the warps of which all lanes that the instruction needs have come."""
        gate = segment.gate
        assert gate is not None
        alive = self.machine.alive[crew.warps]
        needed = alive
        if gate.collective == "mask" and gate.members:
            members = np.broadcast_to(
                gate.members(crew, crew.registers, crew.lanes), (crew.size, LANES)
            )
            own = np.where(here, members, 0)
            bits = np.bitwise_or.reduce(own, axis=1).astype(np.uint32)
            needed = alive & (bits[:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)
        return self.meetings.gather(crew, needed)

    def _branch(
        self, crew: Crew, segment: Segment, predicate: NDArray[np.bool_] | None
    ) -> Crew | None:
        target = segment.target[0]
        if predicate is None:
            crew.pc = target
            return crew
        if predicate.size == 1:
            crew.pc = target if predicate[0, 0] else crew.pc + 1
            return crew
        own = full_mask(crew.lanes, crew.size)
        taken = own & predicate
        if not taken.any():
            crew.pc += 1
            return crew
        if not (own & ~predicate).any():
            crew.pc = target
            return crew
        return self._part(crew, segment, ((taken, target), (own & ~taken, crew.pc + 1)))

    def _table(self, crew: Crew, segment: Segment, index: NDArray[np.uint32]) -> Crew | None:
        own = full_mask(crew.lanes, crew.size)
        whole = np.broadcast_to(index, own.shape)
        beyond = own & (whole >= len(segment.target))
        if beyond.any():
            crew.at = segment.last - 1
            crew.report("barrier-misuse", "brx.idx beyond its table of targets", beyond)
            self.machine.stopped = True
            return None
        ways = [(own & (whole == value), segment.target[value]) for value in np.unique(whole[own])]
        if len(ways) == 1:
            crew.pc = ways[0][1]
            return crew
        return self._part(crew, segment, tuple(ways))

    def _part(
        self,
        crew: Crew,
        segment: Segment,
        ways: tuple[tuple[NDArray[np.bool_], int], ...],
    ) -> Crew | None:
        """Send lanes different ways; lanes of one warp join again behind it."""
        split = np.sum([lanes.any(axis=1) for lanes, _ in ways], axis=0)  # ways, by warp
        mixed: NDArray[np.bool_] = split > 1
        joins = crew.joins
        inner = joins
        if segment.joins >= 0 and mixed.any():
            own = full_mask(crew.lanes, crew.size)
            joining = parting(crew, segment.joins, own & mixed[:, None])
            self.joinings = [j for j in self.joinings if j.missing]
            self.joinings.append(joining)
            inner = (*joins, joining)
        parts = []
        for lanes, target in ways:
            for rows, stack in ((mixed, inner), (~mixed, joins)):
                chosen = np.nonzero(lanes.any(axis=1) & rows)[0]
                if len(chosen):
                    crew.pc = target
                    made = rows_of(crew, chosen, lanes[chosen])
                    made.joins = stack
                    parts.append(made)
        # Those on the short way to the join first: they only wait there.
        parts.sort(key=lambda c: c.pc != segment.joins)
        self.machine.ready.extend(parts[1:-1])
        if len(parts) > 1 and parts[0].joins and parts[0].pc == parts[0].joins[-1].segment:
            arrived = arrive(parts[0])
            if arrived is not None:
                self.machine.ready.append(arrived)
            return parts[-1]
        self.machine.ready.append(parts[0])
        return parts[-1]

    def _exit(self, crew: Crew, segment: Segment, guard: NDArray[np.bool_] | None) -> Crew | None:
        own = full_mask(crew.lanes, crew.size)
        leaving = own if guard is None else own & guard
        crew.at = max(segment.last - 1, 0)
        if not leaving.any():
            crew.pc += 1
            return crew
        machine = self.machine
        machine.alive[crew.warps] &= ~leaving
        crew.pc += 1  # those who stay take along what is read from there on
        gone, staying = part(crew, leaving)
        if gone is not None:
            self._leave(gone)
            for state in machine.parts:
                if hasattr(state, "exited"):
                    state.exited(gone, gone.lanes)
        return staying

    def _leave(self, gone: Crew) -> None:
        """Nobody waits for lanes that have exited."""
        lanes = full_mask(gone.lanes, gone.size)
        for joining in gone.joins:
            for row, warp in enumerate(gone.warps):
                missing = joining.missing.get(int(warp))
                if missing is not None:
                    joining.missing[int(warp)] = missing & ~lanes[row]
            going = complete(joining)
            if going is not None:
                self.machine.ready.append(going)
        for warp in gone.warps:
            self.machine.ready.extend(self.meetings.left(int(warp)))

    # The end.
    def _finish(self) -> None:
        machine = self.machine
        stuck = [*machine.parked, *self.meetings.waiting.values()]
        if stuck and not machine.stopped:
            self._deadlock(stuck)
            machine.stopped = True
            return
        if machine.stopped:
            return
        for state in machine.parts:
            if hasattr(state, "finish"):
                state.finish()
        if machine.hooks:
            machine.hooks.ended(machine)

    def _deadlock(self, stuck: list[Crew]) -> None:
        """Report that nothing can go on, with what every warp and every barrier waits for."""
        machine = self.machine
        lines = []
        for crew in stuck:
            segment = self.segments[crew.pc]
            lanes = full_mask(crew.lanes, crew.size)
            for row, warp in enumerate(crew.warps):
                bits = int(np.packbits(lanes[row], bitorder="little").view(np.uint32)[0])
                lines.append(
                    f"warp {int(warp) % machine.geometry.warps} of CTA "
                    f"{int(machine.cta_of[warp])} (lanes {bits:#010x}) waits at "
                    f"{machine.program.label(segment.first)}"
                )
        for state in machine.parts:
            if hasattr(state, "describe_waiting"):
                lines += state.describe_waiting()
        first = stuck[0]
        first.at = self.segments[first.pc].first
        first.report(
            "deadlock",
            "nothing can run and nothing is in flight\n  " + "\n  ".join(dict.fromkeys(lines)),
        )
        self._parted()

    def _parted(self) -> None:
        """Report lanes of a warp that wait for one another at different instructions."""
        machine = self.machine
        places: dict[int, list[Crew]] = {}
        for (_, warp), crew in self.meetings.waiting.items():
            places.setdefault(warp, []).append(crew)
        for warp, crews in places.items():
            here = np.any([full_mask(c.lanes, 1)[0] for c in crews], axis=0)
            if len(crews) < 2 or (machine.alive[warp] & ~here).any():
                continue
            named = [machine.program.label(self.segments[c.pc].first) for c in crews]
            for crew, name in zip(crews, named, strict=True):
                gate = self.segments[crew.pc].gate
                if gate is None or gate.collective != "warp":
                    continue
                crew.at = self.segments[crew.pc].first
                others = ", ".join(n for n in named if n != name)
                crew.report(
                    "barrier-misuse",
                    f"lanes wait at {name} for the rest of their warp, and that waits at {others}:"
                    " all lanes of a warp must come to the same .aligned instruction (PTX 9.7.13)",
                    same="parted",
                )
