"""Values that come of memory that nothing wrote, followed until something uses them.

A read alone harms nobody: a loop fetches one stage more than there is, a tile has rows that no
thread needs. What counts is where the value goes, as valgrind's memcheck has it. So a register
holds, by lane, whether its value is one of these; instructions hand that on from what they read to
what they write, through shared and local memory too; and it is an error once the value decides
something that is seen: a store to global memory, an address, a branch, an operand of a barrier or
a copy. The finding stands at the read, and names the use.

Instructions are followed only from the first such read on, and while some register holds such a
value: until then a run costs what it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask, lanes_of_bits, narrowed
from kernelrig.emu.observe.bit_flow import Flow
from kernelrig.emu.observe.branch_region import computing_region, written_in
from kernelrig.emu.observe.held_registers import HeldRegisters
from kernelrig.emu.observe.linear_values import merged
from kernelrig.emu.observe.origins import Origins
from kernelrig.emu.observe.product_values import ProductValues
from kernelrig.emu.observe.stored_values import Stored, StoredValues
from kernelrig.emu.observe.value_flow import bits_of, flow_of, note_fate, results
from kernelrig.emu.observe.value_origin import WHOLE, Held, Origin, Parts, first_of

_NEVER = -1


class UnwrittenValues:
    """Such values of one wave of CTAs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.origins = Origins(machine)
        self.stores = StoredValues(machine, self.origins)
        self.registers = HeldRegisters(machine)
        self._flows: dict[int, Flow] = {}
        self._regions: dict[int, frozenset[int] | None] = {}  # by branch
        self.products = ProductValues(self.hold)

    def hold(
        self, warp: int, register: int, lanes: int, origin: Origin, part: Parts = WHOLE
    ) -> None:
        """Let some lanes of a register hold a value of `origin`."""
        if not lanes:
            return
        before = self.registers.of.get(warp, {}).get(register)
        value = Held(lanes, origin.of or origin, part, decided=origin.of is not None)
        if before:
            value = Held(
                lanes | before.lanes,
                first_of((before.origin, value.origin)),
                value.bits | before.bits,
                before.decided and value.decided,
            )
        self.registers.put(warp, register, value)

    # Where they go.
    def step(
        self, batch: WarpBatch, at: int, mask: Mask, guard: Array | None, operands: Sequence[Any]
    ) -> bool:
        """Follow values through an instruction that is about to run.

        True where it stores some: Python's step has to do it, and `finish` to be called behind it.
        """
        if not self.registers.follows(at):
            return False
        rows = [
            (row, warp, held)
            for row, warp in enumerate(batch.warps.tolist())
            if (held := self.registers.of.get(warp))
        ]
        if not rows:
            return False
        flow = self._flows.get(at)
        if flow is None:
            flow = self._flows[at] = flow_of(self.machine.program, at)
        here = bits_of(batch.mask_of(mask))
        narrow = mask if guard is None else narrowed(mask, guard)
        lanes = here if guard is None else bits_of(batch.mask_of(narrow))
        stored: dict[int, list[Held | None]] = {}
        made: Mapping[int, Sequence[Held | None]] | None = None
        for row, warp, held in rows:
            if flow.live is not None:
                self.registers.drop(warp, here[row], flow.live)
                self._leave(at, warp, held, here[row])
            self._guard(at, flow, warp, held, here[row])
            self._used(at, flow, warp, held, lanes[row])
            if flow.kind == "store":
                values = [held.get(register) for _, register in flow.values]
                if any(v and v.lanes & lanes[row] for v in values):
                    stored[row] = values
            elif flow.kind == "exit":
                self.registers.drop(warp, lanes[row], ())
            elif flow.outs:
                if made is None:
                    of_rows = {row: held for row, _, held in rows}
                    made = results(flow, batch, narrow, operands, lanes, of_rows)
                note_fate(flow, lanes[row], held, made.get(row))
                self._write(flow, warp, held, here[row], lanes[row], made.get(row))
        self.stores.pending = Stored(stored) if stored else None
        return bool(stored)

    def _guard(self, at: int, flow: Flow, warp: int, held: dict[int, Held], lanes: int) -> None:
        of_guard = held.get(flow.guard)
        if not of_guard or not of_guard.lanes & lanes or flow.pure:
            return
        region = self._region(at) if flow.kind == "branch" else None
        if region is None:
            self.use(at, warp, held, flow.guard, lanes)
            return
        # Of lanes that jump over a write, what was there follows from the value as well.
        for register in (_decided_by(at), *written_in(self.machine.program, region)):
            before = held.get(register)
            jumping = of_guard.lanes & lanes
            bits = jumping | (before.lanes if before else 0)
            part = np.where(lanes_of_bits(jumping), WHOLE, before.part) if before else WHOLE
            origin = before.origin if before else of_guard.origin
            decided = before is None or before.decided
            self.registers.put(warp, register, Held(bits, origin, part, decided))

    def _region(self, at: int) -> frozenset[int] | None:
        """Return where registers follow from what decides a branch, if it decides nothing else."""
        if at not in self._regions:
            self._regions[at] = computing_region(self.machine.program, at)
        return self._regions[at]

    def _leave(self, at: int, warp: int, held: Mapping[int, Held], lanes: int) -> None:
        """Lanes that go on behind the place where the ways of a branch meet are decided no more."""
        for key in [k for k in held if k < _NEVER and at not in (self._region(_branch(k)) or ())]:
            self.registers.forget(warp, key, lanes)

    @staticmethod
    def _decided(held: Mapping[int, Held]) -> Held | None:
        """Return the lanes that are somewhere because such a value says so."""
        known = [value for key, value in held.items() if key < _NEVER]
        lanes = 0
        for value in known:
            lanes |= value.lanes
        return Held(lanes, known[0].origin) if known else None

    def _used(self, at: int, flow: Flow, warp: int, held: dict[int, Held], lanes: int) -> None:
        for register in flow.used:
            value = held.get(register)
            if value and value.lanes & lanes and not (flow.kind == "load" and value.decided):
                self.use(at, warp, held, register, lanes)

    def _write(
        self,
        flow: Flow,
        warp: int,
        held: Mapping[int, Held],
        here: int,
        lanes: int,
        made: Sequence[Held | None] | None,
    ) -> None:
        of_guard, of_branch = held.get(flow.guard), self._decided(held)
        by_guard = of_guard.lanes & here if of_guard else 0
        by_guard |= of_branch.lanes & lanes if of_branch else 0
        of_guard = of_guard or of_branch
        for number, register in enumerate(flow.outs):
            if register < 0:
                continue
            value = made[number] if made else None
            before = held.get(register)
            left = before.lanes & ~lanes if before else 0
            bits = (value.lanes & lanes if value else 0) | by_guard
            if bits:
                known = value.origin if value and value.lanes & lanes else None
                known = known or (of_guard.origin if of_guard else None)
                assert known is not None
                part = WHOLE if value is None else value.part
                decided = value is None or value.decided
                if before and left:
                    part = np.where(lanes_of_bits(left), before.part, part)
                    decided = decided and before.decided
                    known = first_of((known, before.origin))
                if by_guard:
                    part = np.where(lanes_of_bits(by_guard), WHOLE, part)
                sums = None if by_guard else merged(bits, value, left, before)
                self.registers.put(warp, register, Held(bits | left, known, part, decided, sums))
            else:
                self.registers.forget(warp, register, lanes)

    def use(self, at: int, warp: int, held: dict[int, Held], register: int, lanes: int) -> None:
        """Report that an instruction uses a register; from here on its value counts as any."""
        value = held[register]
        self.origins.report(value.origin, at, warp, value.lanes & lanes, decided=value.decided)
        self.registers.forget(warp, register, lanes)


def _decided_by(at: int) -> int:
    """Return what stands among registers for a branch: its lanes are where it led them."""
    return _NEVER - 1 - at


def _branch(key: int) -> int:
    return _NEVER - 1 - key
