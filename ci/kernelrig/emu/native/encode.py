"""A program as the core runs it: tables of words, and where each register lies.

A register file belongs to a warp: its registers one behind the other, each 32 lanes side by side as
wide as its type, a predicate one word of bits. What no handler takes stays a call of its Python
step. The registers that an instruction reads for the first time in its segment are checked by an
instruction of their own in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.program import BRANCH, EXIT, FALL, STOP, TABLE, Program, Segment
from kernelrig.emu.native.core_calls import ProgramWords
from kernelrig.emu.native.step_functions import StepFunctions
from kernelrig.emu.numerics.arrays import LANES
from kernelrig.ptx import Guard
from kernelrig.ptx.types import BYTES

PYTHON, CHECK = -1, -2
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
    file_bytes: int
    words: ProgramWords
    tables: tuple[NDArray[Any], ...]  # what `words` points to


def encoded(program: Program) -> Encoded:
    """Return the tables of `program`, made once."""
    if program.encoded is None:
        program.encoded = _Encoder(program).encode()
    return cast(Encoded, program.encoded)


class _Encoder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.functions = StepFunctions(program.codegen)
        self.offsets: list[int] = []
        self.widths: list[int] = []
        self.end = 0
        for register in program.function.registers:
            width = 0 if register.type == "pred" else BYTES[register.type] * register.lanes
            self.offsets.append(self.end)
            self.widths.append(width)
            self.end += LANES * width or 32
        self.code: list[Words] = []
        self.targets: Words = []
        self.operands: Words = []
        self.immediates: Words = []
        self.sets: Words = []
        self.constants = bytearray()

    def encode(self) -> Encoded:
        segments = [self._segment(segment) for segment in self.program.segments]
        file_bytes = -(-self.end // ALIGN) * ALIGN or ALIGN
        constants = np.zeros(len(self.constants) + 2 * ALIGN, np.uint8)
        constants[: len(self.constants)] = np.frombuffer(bytes(self.constants), np.uint8)
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
        return Encoded(self.functions, self.offsets, self.widths, file_bytes, words, tables)

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
                    checked = next(iter(self.functions.checks[at]), -1)
                elif segment.end == TABLE:
                    self._checks(at)
                continue
            self._checks(at)
            guard, guard_negated = self._guard(instruction.guard)
            self._instruction(PYTHON, at, guard, guard_negated, effect=step.effect)
            if not step.in_flight and not (step.effect and instruction.guard):
                sets |= dict.fromkeys(r.index for r, _ in step.writes if r is not None)
        code_count = len(self.code) - start
        guard, guard_negated, guard_checked = NO_GUARD, 0, -1
        condition = segment.condition
        if condition is not None and condition.mask is not None:
            written = self.program.function.instructions[segment.first].guard
            assert written is not None
            guard, guard_negated = self._guard(written)
            guard_checked = written.register.index
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
            start, code_count, first_target, len(segment.target), first_set, len(sets), 0, 0,
        ]  # fmt: skip

    def _checks(self, at: int) -> None:
        for register in self.functions.checks[at]:
            self._instruction(CHECK, at, immediates=(register,))

    def _guard(self, guard: Guard | None) -> tuple[int, int]:
        if guard is None:
            return NO_GUARD, 0
        return self.offsets[guard.register.index], int(guard.negated)

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
    ) -> None:
        self.code.append([
            handler, at, guard, negated, int(effect), len(outs), len(ins), len(self.operands),
            len(self.immediates), len(self.sets), len(sets),
        ])  # fmt: skip
        self.operands += [*outs, *ins]
        self.immediates += immediates
        self.sets += sets
