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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask, narrowed
from kernelrig.emu.observe.bit_flow import Flow
from kernelrig.emu.observe.branch_region import computing_region, written_in
from kernelrig.emu.observe.held_registers import HeldRegisters
from kernelrig.emu.observe.product_values import ProductValues
from kernelrig.emu.observe.value_flow import bits_of, flow_of, note_fate, results, stored_rows
from kernelrig.emu.observe.value_origin import WHOLE, Held, Origin, first_of
from kernelrig.emu.tensor.tensor_memory import COLUMNS, TENSOR_LANES
from kernelrig.ptx import Instruction

_NEVER = -1


@dataclass(eq=False, slots=True)
class _Stored:
    """What an instruction is about to store: by row of the batch, the values in order."""

    rows: dict[int, list[Held | None]]
    unmarked: list[tuple[str, Array, int, Origin]] = field(default_factory=list)


class UnwrittenValues:
    """Such values of one wave of CTAs."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.origins: list[Origin] = []
        self.registers = HeldRegisters(machine)
        self.stored: _Stored | None = None
        self._known: dict[object, Origin] = {}
        self._memory: dict[str, NDArray[np.int32]] = {}
        self._flows: dict[int, Flow] = {}
        self._regions: dict[int, frozenset[int] | None] = {}  # by branch
        self.products = ProductValues(self.hold)
        self._tensor: dict[int, NDArray[np.int32]] = {}  # by slot: origins of words

    # Where they come from.
    def origin(
        self,
        at: int,
        same: object,
        text: str,
        context: Context,
        warp: int,
        lanes: int,
        count: int,
        unused: str = "uninitialised-not-used",
    ) -> Origin:
        """Return the origin of values that an instruction reads; of equal ones there is one.

        `unused` is the rule where nothing uses them.
        """
        known = self._known.get((at, same))
        if known is None:
            number = len(self.origins) + 1
            known = Origin(text, at, same, context, warp, lanes, number, unused)
            self._known[at, same] = known
            self.origins.append(known)
        known.count += count
        return known

    def _in_memory(self, origin: Origin) -> Origin:
        """Return what stands in memory for values that one of `origin` decided."""
        key = (origin.at, (origin.same, "decided"))
        known = self._known.get(key)
        if known is None:
            known = replace(origin, number=len(self.origins) + 1, used=True, of=origin)
            self._known[key] = known
            self.origins.append(known)
        return known

    def hold(self, warp: int, register: int, lanes: int, origin: Origin, part: int = WHOLE) -> None:
        """Let some lanes of a register hold a value of `origin`."""
        if not lanes:
            return
        before = self.registers.of.get(warp, {}).get(register)
        value = Held(lanes, origin.of or origin, part, decided=origin.of is not None)
        if before:
            value = Held(
                lanes | before.lanes,
                first_of((before.origin, value.origin)),
                part | before.part,
                before.decided and value.decided,
            )
        self.registers.put(warp, register, value)

    def origins_of(self, space: str, positions: Array) -> NDArray[np.int32]:
        """Return the numbers of the origins of what was stored at some bytes, 0 for none."""
        numbers = self._memory.get(space)
        if numbers is None:
            return np.zeros(positions.shape, np.int32)
        return np.asarray(numbers[positions])

    def known(self, space: str, position: int) -> Origin | None:
        """Return the origin of what was stored at a byte, None for a byte that nothing wrote."""
        number = int(self.origins_of(space, np.array([position]))[0])
        return self.numbered(number) if number else None

    def tensor(self, slot: int) -> NDArray[np.int32]:
        """Return the numbers of the origins of words of tensor memory: of those not written."""
        found = self._tensor.get(slot)
        if found is None:
            found = self._tensor[slot] = np.zeros((TENSOR_LANES, COLUMNS), np.int32)
        return found

    def numbered(self, number: int) -> Origin:
        return self.origins[number - 1]

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
        self.stored = _Stored(stored) if stored else None
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
            bits = of_guard.lanes & lanes | (before.lanes if before else 0)
            origin = before.origin if before else of_guard.origin
            decided = before is None or before.decided
            self.registers.put(warp, register, Held(bits, origin, decided=decided))

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
                part = WHOLE if by_guard or value is None else value.part
                decided = value is None or value.decided
                if before and left:
                    part |= before.part
                    decided = decided and before.decided
                    known = first_of((known, before.origin))
                self.registers.put(warp, register, Held(bits | left, known, part, decided))
            else:
                self.registers.forget(warp, register, lanes)

    def use(self, at: int, warp: int, held: dict[int, Held], register: int, lanes: int) -> None:
        """Report that an instruction uses a register; from here on its value counts as any."""
        value = held[register]
        self.report(value.origin, at, warp, value.lanes & lanes, decided=value.decided)
        self.registers.forget(warp, register, lanes)

    def report(
        self, origin: Origin, at: int, warp: int, lanes: int, *, decided: bool = False
    ) -> None:
        """Report a use at instruction `at`, at the place of the read; `decided`: of a value that
        the one of `origin` only said to be this and no other.
        """
        if origin.of:
            origin, decided = origin.of, True
        origin.used = True
        machine = self.machine
        frame = machine.program.where(at).frame
        context = replace(origin.context, related=(frame,) if frame.line else ())
        text = f"{origin.text}; its value is used by {machine.program.label(at)}"
        same = origin.same
        if at == origin.at:
            text = f"{origin.text}, and uses it"
        if decided and self._fills(origin):
            text = f"{origin.text}; it decides a value that {machine.program.label(at)} uses"
            same, context = (same, "decided"), replace(context, rule="uninitialised-choice")
        machine.report(
            "uninitialised", text, warp, lanes, origin.at, count=lanes.bit_count(),
            same=same, context=context,
        )  # fmt: skip

    def _fills(self, origin: Origin) -> bool:
        """Say whether a thread stored it into shared memory, as into the tail of a tile."""
        read = self.machine.program.function.instructions[origin.at]
        return read.opcode == "st" and "shared" in read.flags

    # Stores of some.
    def about_to_store(
        self, batch: WarpBatch, mask: Mask, space: str, index: Array, size: int
    ) -> None:
        """See where the values of the instruction go: out of the CTA, or where they can be read."""
        stored = self.stored
        if stored is None:
            return
        lanes, flat = bits_of(batch.mask_of(mask)), np.broadcast_to(index, (batch.size, 32))
        instruction = self.machine.program.function.instructions[batch.at]
        for row, values in stored.rows.items():
            if instruction.opcode == "stmatrix":
                self._store_matrices(instruction, values, flat[row])
                continue
            width = size // len(values)
            for number, value in enumerate(values):
                bits = value.lanes & lanes[row] if value else 0
                if not bits or value is None:
                    continue
                own = [byte for byte in range(width) if value.part >> 8 * byte & 0xFF]
                if not own:  # of what is stored nothing
                    continue
                if space == "global":
                    warp = int(batch.warps[row])
                    self.report(value.origin, batch.at, warp, bits, decided=value.decided)
                    continue
                chosen = [lane for lane in range(32) if bits >> lane & 1]
                starts = (flat[row, chosen, None] + (number * width + np.array(own))).reshape(-1)
                origin = self._in_memory(value.origin) if value.decided else value.origin
                stored.unmarked.append((space, starts, 1, origin))

    def _store_matrices(self, i: Instruction, values: list[Held | None], flat: Array) -> None:
        """Lane 8 m + r names row r of matrix m, which register m of all lanes makes."""
        stored = self.stored
        known = [value for value in values if value]
        assert stored is not None
        words = np.array([[value.lanes if value else 0] for value in values], np.uint32)
        stored_bytes = stored_rows(i, (words >> np.arange(32) & 1).astype(np.bool_))
        rows, of = np.nonzero(stored_bytes.reshape(-1, 16))
        stored.unmarked.append(("shared", flat[rows] + of, 1, known[0].origin))

    def finish(self) -> None:
        """The instruction that stores has run: what it wrote of them counts as not written."""
        stored, self.stored = self.stored, None
        for space, starts, width, origin in stored.unmarked if stored else ():
            arena = self.machine.memory.arena(space)
            positions = starts[:, None] + np.arange(width)
            arena.written[positions] = 0
            numbers = self._memory.get(space)
            if numbers is None:
                numbers = self._memory[space] = np.zeros(len(arena), np.int32)
            numbers[positions] = origin.number

    def ended(self) -> None:
        """Warn of reads whose values nothing has used."""
        for origin in self.origins:
            if not origin.used and origin.tells:
                by_itself = " but along with another such" if origin.along else ""
                self.machine.report(
                    "uninitialised", f"{origin.text}; nothing uses the value{by_itself}",
                    origin.warp, origin.lanes, origin.at, count=origin.count,
                    same=(origin.same, "not used"),
                    context=replace(origin.context, rule=origin.unused),
                )  # fmt: skip


def _decided_by(at: int) -> int:
    """Return what stands among registers for a branch: its lanes are where it led them."""
    return _NEVER - 1 - at


def _branch(key: int) -> int:
    return _NEVER - 1 - key
