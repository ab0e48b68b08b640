"""Registers that hold values that nothing wrote, and the instructions that have to do with them.

Of the others there is nothing to say, and most instructions of a kernel are others: the core asks
Python of none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.frontend.basic_blocks import LEAVES, read_by
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.program import Program
from kernelrig.emu.observe.linear_values import LinearValues
from kernelrig.emu.observe.value_origin import Held

NOTHING, TOUCHING, EVERYTHING = range(3)
"""Of what instructions values are followed: of those that touch a register that holds one, of all
while a branch may have led lanes somewhere by such a value."""
WORD = 64


@dataclass(slots=True)
class Touches:
    """By instruction, the registers that it reads or writes; by the first of a segment, those that
    nothing reads from there on: as bits. The bit behind all registers stands for what always holds
    something, and is touched by what ends lanes.
    """

    program: Program

    def of(self, at: int) -> list[int]:
        instruction = self.program.function.instructions[at]
        step = self.program.codegen.steps[at]
        registers = read_by(instruction, step)
        if step is not None:
            registers |= {r.index for r, _ in step.writes if r is not None}
        if instruction.opcode in LEAVES:
            registers.add(self.program.registers)
        return sorted(registers)

    def dead(self, segment: int) -> int:
        live = _bits(self.program.segments[segment].live)
        return (1 << self.program.registers) - 1 & ~live


def _bits(registers: Collection[int]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits


class HeldRegisters:
    """`of` are, by warp and register, what holds such a value; what stands among registers for a
    branch (`unwritten_values`) is negative.
    """

    def __init__(self, machine: Machine) -> None:
        self.of: dict[int, dict[int, Held]] = {}
        self._machine = machine
        self._linear = LinearValues()
        self._warps: Counter[int] = Counter()  # by register, how many hold such a value in it
        self._total = self._branches = 0
        self._touches = Touches(machine.program)
        self._known: dict[int, tuple[int, int]] = {}  # by instruction
        behind = machine.program.registers
        self._bits = 1 << behind
        self._words = np.zeros(behind // WORD + 1, np.uint64)
        self._flip(behind)
        self._how = NOTHING
        machine.follow_values(NOTHING, self._words)

    def follows(self, at: int) -> bool:
        """Say whether there is something to follow through an instruction."""
        if self._how != TOUCHING:
            return self._how == EVERYTHING
        known = self._known.get(at)
        if known is None:
            segment = self._machine.program.codegen.number.get(at)
            dead = 0 if segment is None else self._touches.dead(segment)
            known = self._known[at] = _bits(self._touches.of(at)), dead
        touched, dead = known
        return bool(self._bits & (touched | dead))

    def put(self, warp: int, register: int, value: Held) -> None:
        """Let lanes of a register hold a value, and no others."""
        held = self.of.setdefault(warp, {})
        if register not in held:
            self._count(register, 1)
        held[register] = self._linear.named(value)

    def forget(self, warp: int, register: int, lanes: int) -> None:
        """Let some lanes of a register hold such a value no more."""
        held = self.of.get(warp, {})
        value = held.get(register)
        if value is None:
            return
        if left := value.lanes & ~lanes:
            held[register] = value._replace(lanes=left)
            return
        del held[register]
        self._count(register, -1)

    def drop(self, warp: int, lanes: int, live: Collection[int]) -> None:
        """Forget what no instruction reads any more."""
        for register in [r for r in self.of.get(warp, ()) if r not in live and r >= 0]:
            self.forget(warp, register, lanes)

    def _count(self, register: int, by: int) -> None:
        self._total += by
        if register < 0:
            self._branches += by
        else:
            before = self._warps[register]
            self._warps[register] += by
            if not before or not self._warps[register]:
                self._flip(register)
                self._bits ^= 1 << register
        how = EVERYTHING if self._branches else TOUCHING if self._total else NOTHING
        if how != self._how:
            self._how = how
            self._machine.follow_values(how, self._words)

    def _flip(self, register: int) -> None:
        self._words[register // WORD] ^= np.uint64(1 << register % WORD)


def as_words(bits: int, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(bits.to_bytes(count * 8, "little"), np.uint64)
