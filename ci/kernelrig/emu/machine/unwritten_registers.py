"""Lanes of registers that nothing has written yet: of those that may be read so.

What such a lane holds is a value that nothing wrote, and is followed as one of memory is
(`observe.unwritten_values`): a compiler reads registers whose value nobody needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import LANES, Mask, lane_words, lanes_of_words
from kernelrig.ptx import Instruction, Negated, Operand, Register, Vector

_ALL = (1 << LANES) - 1
_PRODUCTS = frozenset({"mma", "wmma", "wgmma"})
_OPERANDS = ("D", "A", "B", "C")


class UnwrittenRegisters:
    """`left` are, by number of the register (`frontend.unwritten_lanes`) and warp, its lanes."""

    def __init__(self, machine: Machine) -> None:
        self.registers = machine.program.codegen.unwritten.registers
        self.left = np.full((len(self.registers), len(machine.alive)), _ALL, np.uint32)

    def wrote(self, batch: WarpBatch, mask: Mask, numbers: tuple[int, ...]) -> None:
        """An instruction is about to write registers in the lanes of `mask`."""
        lanes = ~lane_words(batch.mask_of(mask))
        for number in numbers:
            self.left[number, batch.warps] &= lanes

    def reads(self, batch: WarpBatch, mask: Mask, numbers: tuple[int, ...], at: int) -> None:
        """An instruction is about to read registers in the lanes of `mask`."""
        lanes = None
        for number in numbers:
            left = self.left[number, batch.warps]
            if not left.any():
                continue
            if lanes is None:
                lanes = lane_words(batch.mask_of(mask))
            if (left & lanes).any():
                self.found(batch, number, at, left & lanes)

    def found(self, batch: WarpBatch, number: int, at: int, lanes: NDArray[np.uint32]) -> None:
        """An instruction reads a register that nothing has written in some lanes, by row."""
        self.left[number, batch.warps] &= ~lanes  # once is enough
        batch.at = at
        program, values = batch.machine.program, batch.machine.values
        instruction = program.function.instructions[at]
        register = self.registers[number]
        operand = _operand(instruction, register)
        does, fix = "reads", ""
        name = program.function.registers[register].name
        if operand:
            does = "adds to" if operand in "CD" else "multiplies by"
            name += f" of {operand}"
            if operand == "D":
                fix = "scale-d must be false in the first product"
            elif operand == "C":
                fix = "set the accumulator to zero before the first product that adds to it"
                fix += " (fill_fragment)" if instruction.opcode == "wmma" else ""
        text = f"{instruction.mnemonic} {does} {name}, which nothing has written"
        if values is None:
            if instruction.opcode == "wgmma":
                return  # it reports by itself what none of the warps has written
            held = lanes_of_words(lanes)
            batch.report(
                "uninitialised", text, held, same=operand, context=Context("register-not-written")
            )
            return
        rows = np.flatnonzero(lanes).tolist()
        origin = values.origins.of(
            at, ("register", operand), text, Context("uninitialised-register", fix=fix),
            int(batch.warps[rows[0]]), int(lanes[rows[0]]), int(np.bitwise_count(lanes).sum()),
            unused="register-not-written",
        )  # fmt: skip
        for row in rows:
            values.hold(int(batch.warps[row]), register, int(lanes[row]), origin)


def registers_read(batch: WarpBatch, mask: Mask, numbers: tuple[int, ...], at: int) -> None:
    batch.machine.part(UnwrittenRegisters).reads(batch, mask, numbers, at)


def registers_written(batch: WarpBatch, mask: Mask, numbers: tuple[int, ...]) -> None:
    batch.machine.part(UnwrittenRegisters).wrote(batch, mask, numbers)


def _operand(i: Instruction, register: int) -> str:
    """Return which matrix of a product a register is of, "" for another instruction."""
    if i.opcode not in _PRODUCTS or not {"mma", "mma_async"} & {i.opcode, *i.flags}:
        return ""
    first = 0 if i.opcode == "wgmma" else 1
    for name, operand in zip(_OPERANDS[first:], i.operands[first:], strict=False):
        if register in _indices(operand) and (first or isinstance(operand, Vector)):
            return name
    return ""


def _indices(operand: Operand) -> list[int]:
    match operand:
        case Vector(items=items):
            return [index for item in items for index in _indices(item)]
        case Register(index=index):
            return [index]
        case Negated(operand=Register(index=index)):
            return [index]
    return []
