"""Reads and writes of registers that some way through a kernel reads before it writes them.

Whether a lane has written such a register is known when it is read alone, so the generated code
looks (`machine.unwritten_registers`). Of the other registers, most of a kernel's, there is nothing
to ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernelrig.emu.frontend.basic_blocks import addends, checked_reads
from kernelrig.emu.machine.instruction_table import Step
from kernelrig.ptx import Guard, Instruction, Register

Numbers = tuple[int, ...]


class UnwrittenLanes:
    """`registers` are those of a function; they are numbered in their order."""

    def __init__(self, registers: list[int]) -> None:
        self.registers = registers
        self._number = {register: number for number, register in enumerate(registers)}
        self._known: set[int] = set()  # all lanes that run the segment have written them

    def start(self) -> None:
        """Begin a segment."""
        self._known.clear()

    def of_guard(self, instruction: Instruction) -> Numbers:
        """Return the number of an instruction's guard, if it has to be looked at."""
        if not self._number or instruction.guard is None:
            return ()
        return self._asked((instruction.guard.register.index,), surely=True)

    def read_by(self, instruction: Instruction, step: Step | None) -> Numbers:
        """Return the numbers of the registers to be looked at where the guard holds."""
        if not self._number:
            return ()
        return self._asked(sorted(checked_reads(instruction, step)), instruction.guard is None)

    def added_to(self, instruction: Instruction, step: Step | None) -> tuple[Guard | None, Numbers]:
        """Return the numbers of those that a wgmma adds to where a predicate holds, its scale-d."""
        found = addends(instruction, step) if self._number else set()
        if not found or step is None or instruction.guard:
            return None, ()
        scale, _ = step.reads[0]
        by = Guard(scale, negated=False) if isinstance(scale, Register) else None
        return by, self._asked(sorted(found), surely=by is None)

    def written_by(self, instruction: Instruction, step: Step) -> Numbers:
        """Return the numbers of those that an instruction writes."""
        if not self._number:
            return ()
        written = [r.index for r, _ in step.writes if r is not None and r.index in self._number]
        if instruction.guard is None:
            self._known.update(written)
        return tuple(self._number[register] for register in written)

    def _asked(self, registers: Iterable[int], surely: bool) -> Numbers:
        found = [r for r in registers if r in self._number and r not in self._known]
        if surely:
            self._known.update(found)
        return tuple(self._number[register] for register in found)
