"""A program as the core runs it: tables of words, and where each register lies.

A register file belongs to a warp: its registers one behind the other, each 32 lanes side by side as
wide as its type, a predicate one word of bits. What no handler takes stays a call of its Python
step. The registers that an instruction reads for the first time in its segment are checked by an
instruction of their own in front of it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.machine.program import BRANCH, EXIT, FALL, STOP, TABLE, Program, Segment
from kernelrig.emu.native.core_calls import ProgramWords, core_calls
from kernelrig.emu.native.followed_registers import TouchTables
from kernelrig.emu.native.operand_places import (
    NO_RESULT,
    Fill,
    NotLowered,
    Places,
    Pseudo,
    width_of,
)
from kernelrig.emu.native.operation_names import names_of
from kernelrig.emu.native.step_functions import StepFunctions, surely_set
from kernelrig.emu.numerics.arrays import U32
from kernelrig.ptx import Guard, Instruction

PYTHON, CHECK, LOOK = -1, -2, -3
NO_GUARD = -(1 << 31)
ALIGN = 64
_ENDS = {FALL: 0, STOP: 1, BRANCH: 2, TABLE: 3, EXIT: 4}
_COLLECTIVES = {"": 0, "warp": 1, "mask": 2}
Words = list[int]


@dataclass
class Encoded:
    """The tables of a program; `offsets` are of its registers in a file of `file_bytes`."""

    functions: StepFunctions
    offsets: list[int]
    widths: list[int]  # bytes, 0 for a predicate
    fills: list[Fill]
    file_bytes: int
    words: ProgramWords
    tables: tuple[NDArray[Any], ...]  # what `words` points to
    op_names: tuple[str, ...]  # of operations of the core, by number
    product_names: NDArray[np.int32]  # the numbers of those of wgmma, by instruction
    touches: TouchTables | None = None  # once values are followed


def encoded(program: Program) -> Encoded:
    """Return the tables of `program`, made once."""
    if program.encoded is None:
        program.encoded = _Encoder(program).encode()
    return cast(Encoded, program.encoded)


class _Encoder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = StepFunctions(program.codegen)
        self.places = Places(program.function, program.codegen.layout)
        self.find = core_calls().core_find
        self.surely_set = surely_set(self.functions)
        self.brought = {  # what comes to them comes later
            register.index
            for step in self.functions.steps
            if step is not None and step.in_flight
            for register, _ in step.writes
            if register is not None
        }
        self.code: list[Words] = []
        self.targets: Words = []
        self.operands: Words = []
        self.immediates: Words = []
        self.sets: Words = []

    def encode(self) -> Encoded:
        segments = [self._segment(segment) for segment in self.program.segments]
        pool = self.places.constants
        constants = np.zeros(len(pool) + 2 * ALIGN, np.uint8)
        constants[: len(pool)] = np.frombuffer(bytes(pool), np.uint8)
        tables: tuple[NDArray[Any], ...] = (
            np.array(segments, np.int32),
            np.array(self.code or [[0]], np.int32),
            np.array(self.targets, np.int32),
            np.array(self.operands, np.int32),
            np.array(self.immediates, np.int64),
            np.array(self.sets, np.int32),
            constants,
        )
        words = ProgramWords()
        names = ("segments", "code", "targets", "operands", "immediates", "sets", "constants")
        for name, table in zip(names, tables, strict=True):
            setattr(words, name, table.ctypes.data)
        words.segment_count = len(segments)
        words.operand_count = len(self.operands)
        words.immediate_count = len(self.immediates)
        words.set_count = len(self.sets)
        words.constant_bytes = len(constants)
        words.registers = self.program.registers
        return Encoded(
            self.functions,
            self.places.registers,
            [width_of(register) for register in self.program.function.registers],
            self.places.fills,
            -(-self.places.file_bytes // ALIGN) * ALIGN or ALIGN,
            words,
            tables,
            *names_of(self.program),
        )

    def _segment(self, segment: Segment) -> Words:
        start = len(self.code)
        steps = self.functions.steps
        sets: dict[int, None] = {}
        leaves, checked, negated = NO_GUARD, -1, 0
        for at in range(segment.first, segment.last):
            step = steps[at]
            instruction = self.program.function.instructions[at]
            if step is None:
                if segment.end in (BRANCH, EXIT) and instruction.guard:
                    leaves, negated = self._guard(instruction.guard)
                    checked = next(iter(self._unproven(at)), -1)
                elif segment.end == TABLE:
                    self._checks(at)
                self._looks(at, instruction)
                continue
            self._checks(at)
            self._looks(at, instruction)
            self._overwrites(at, instruction)
            self._lowered(at, instruction, step, sets)
            if not step.in_flight and not (step.effect and instruction.guard):
                sets |= dict.fromkeys(r.index for r, _ in step.writes if r is not None)
        code_count = len(self.code) - start
        guard, guard_negated, guard_checked = NO_GUARD, 0, -1
        condition = segment.condition
        if condition is not None and condition.mask is not None:
            written = self.program.function.instructions[segment.first].guard
            assert written is not None
            guard, guard_negated = self._guard(written)
            if written.register.index not in self.surely_set[segment.index]:
                guard_checked = written.register.index
        asking = len(self.code)
        if condition is not None and condition.ready is not None:
            self._question(segment)
        asking_count = len(self.code) - asking
        naming = len(self.code)
        if condition is not None and condition.members is not None:
            self._members(segment)
        naming_count = len(self.code) - naming
        first_target, first_set = len(self.targets), len(self.sets)
        self.targets += segment.target
        self.sets += sets
        collective = ""
        if condition is not None:
            collective = condition.collective
            if collective == "mask" and condition.members is None:
                collective = "warp"
        return [
            segment.first, segment.last, _ENDS[segment.end], segment.reconvergence,
            int(condition is not None), _COLLECTIVES[collective],
            int(condition is not None and condition.ready is not None),
            guard, guard_checked, guard_negated, leaves, checked, negated,
            start, code_count, first_target, len(segment.target), first_set, len(sets),
            asking, asking_count, naming, naming_count,
        ]  # fmt: skip

    def _question(self, segment: Segment) -> None:
        """Write what the core asks before the first instruction: its operands, then itself.

        Nothing where a register has to be checked first: that is for Python to ask.
        """
        at = segment.first
        step = self.functions.steps[at]
        operands = self._operands(step, NO_GUARD) if step is not None else None
        # The guard was checked for the lanes that ask (`guard_checked`).
        guard = self.program.function.instructions[at].guard
        known = () if guard is None else (guard.register.index,)
        if set(self._unproven(at)).difference(known):
            return
        if step is None or step.native is None or operands is None:
            return
        number, ins, outs, _ = operands
        for pseudo in self.places.before:
            self._pseudo(at, pseudo)
        self._instruction(number, at, outs=outs, ins=ins, immediates=step.native.immediates)

    def _members(self, segment: Segment) -> None:
        """Write what makes the member masks of the first instruction, then where they are.

        Nothing where that is for Python to say.
        """
        at = segment.first
        step = self.functions.steps[at]
        if step is None or step.members is None or self._unproven(at):
            return
        self.places.begin()
        try:
            place = self.places.read(step.members, U32)
        except NotLowered:
            return
        for pseudo in self.places.before:
            self._pseudo(at, pseudo)
        self._instruction(PYTHON, at, ins=(place,))

    def _lowered(
        self, at: int, instruction: Instruction, step: Step, known: Container[int]
    ) -> None:
        """Write an instruction for its handler if it has one, else for Python. `known` are the
        registers that the segment has set before.
        """
        guard, negated = self._guard(instruction.guard)
        operands = self._operands(step, guard)
        if step.native is None or operands is None:
            self._instruction(PYTHON, at, guard, negated, effect=step.effect)
            return
        number, ins, outs, behind = operands
        if instruction.guard:
            self._keep_early(at, step, guard, negated, known)
        for pseudo in self.places.before:
            self._pseudo(at, pseudo)
        sets: tuple[int, ...] = ()
        if step.effect and instruction.guard:
            sets = tuple(r.index for r, _ in step.writes if r is not None)
        self._instruction(
            number, at, guard, negated, effect=step.effect, outs=outs, ins=ins,
            immediates=step.native.immediates, sets=sets, behind=len(behind),
        )  # fmt: skip
        for pseudo in behind:
            self._pseudo(at, pseudo, guard, negated)

    def _overwrites(self, at: int, instruction: Instruction) -> None:
        """Have registers looked at that an asynchronous instruction may still use."""
        guard, negated = self._guard(instruction.guard)
        for register in self.functions.overwriting[at]:
            self._instruction(
                self.find(b"register.overwrites"), at, guard, negated, effect=True,
                immediates=(register, int(instruction.opcode == "mov")),
            )  # fmt: skip

    def _keep_early(
        self, at: int, step: Step, guard: int, negated: int, known: Container[int]
    ) -> None:
        """Have a result in flight put where a guarded instruction merges with it."""
        for register, _ in step.writes:
            if register is None or register.index not in self.brought or step.in_flight:
                continue
            if register.index in known:  # what is in flight comes too late for it
                continue
            self._instruction(
                self.find(b"register.early"), at,
                *((guard, negated) if step.effect else ()),
                outs=(self.places.registers[register.index],), immediates=(register.index,),
            )  # fmt: skip

    def _operands(self, step: Step, guard: int) -> tuple[int, Words, Words, list[Pseudo]] | None:
        """Return a step's handler, where what it reads and writes lies, and what follows it."""
        number = -1
        if step.native and all(abs(value) < 1 << 63 for value in step.native.immediates):
            number = self.find(step.native.name.encode())
        if number < 0:
            return None
        self.places.begin()
        if step.in_flight:  # what it brings goes into its registers as they are, later
            return number, *self._in_flight(step), []
        try:
            ins = [self.places.read(operand, dtype) for operand, dtype in step.reads]
            written = [self.places.write(register, dtype) for register, dtype in step.writes]
        except NotLowered:
            return None
        outs = [place for place, _ in written]
        behind = [pseudo for _, pseudo in written if pseudo is not None]
        # What follows goes by the guard too: it must still hold what it held.
        return None if behind and guard in outs else (number, ins, outs, behind)

    def _in_flight(self, step: Step) -> tuple[Words, Words]:
        ins = [self.places.read(operand, dtype) for operand, dtype in step.reads]
        outs = [self.places.registers[r.index] if r else NO_RESULT for r, _ in step.writes]
        return ins, outs

    def _pseudo(self, at: int, pseudo: Pseudo, guard: int = NO_GUARD, negated: int = 0) -> None:
        number = self.find(pseudo.name.encode())
        assert number >= 0, pseudo.name
        ins = () if pseudo.source is None else (pseudo.source,)
        self._instruction(
            number, at, guard, negated, outs=(pseudo.result,), ins=ins, immediates=pseudo.immediates
        )

    def _unproven(self, at: int) -> list[int]:
        """Return the registers that an instruction must check before it reads them."""
        known = self.surely_set[self.functions.segment_of[at]]
        return [register for register in self.functions.checks[at] if register not in known]

    def _checks(self, at: int) -> None:
        for register in self._unproven(at):
            self._instruction(CHECK, at, immediates=(register,))

    def _looks(self, at: int, instruction: Instruction) -> None:
        """Have lanes looked at that may not have written what they read, then what is written."""
        guard, negated = self._guard(instruction.guard)
        for by, numbers in self.functions.looked_at[at]:
            self._instruction(LOOK, at, *self._guard(by), immediates=(len(numbers), *numbers))
        if numbers := self.functions.filled[at]:
            self._instruction(
                self.find(b"register.fills"), at, guard, negated,
                immediates=(len(numbers), *numbers),
            )  # fmt: skip

    def _guard(self, guard: Guard | None) -> tuple[int, int]:
        if guard is None:
            return NO_GUARD, 0
        return self.places.registers[guard.register.index], int(guard.negated)

    def _instruction(
        self,
        handler: int,
        at: int,
        guard: int = NO_GUARD,
        negated: int = 0,
        *,
        effect: bool = False,
        outs: Sequence[int] = (),
        ins: Sequence[int] = (),
        immediates: tuple[int, ...] = (),
        sets: tuple[int, ...] = (),
        behind: int = 0,
    ) -> None:
        self.code.append([
            handler, at, guard, negated, int(effect), len(outs), len(ins), len(self.operands),
            len(self.immediates), len(self.sets), len(sets), behind,
        ])  # fmt: skip
        self.operands += [*outs, *ins]
        self.immediates += immediates
        self.sets += sets
