"""Operands of instructions that go to memory: addresses, and what is wider than its type."""

from __future__ import annotations

from kernelrig.emu.isa._forms import Type, width
from kernelrig.emu.machine.instruction_table import Read, Unsupported, Write
from kernelrig.emu.machine.thread_memory import vector_length
from kernelrig.emu.numerics.arrays import I64
from kernelrig.ptx import Address, Float, Instruction, Integer, Operand, Register, Sink, Vector


def bracketed(i: Instruction, operand: Operand) -> Read:
    """Read an address in brackets."""
    if not isinstance(operand, Address):
        raise Unsupported(f"{i.mnemonic}: {operand} is no address in brackets")
    if isinstance(operand.base, Register) and width(operand.base) not in (4, 8):
        raise Unsupported(f"{i.mnemonic}: {operand.base} is no register of 32 or 64 bits")
    return operand, I64


def source(i: Instruction, operand: Operand, dtype: Type) -> Read:
    """Read a scalar, of which the low bits count where its register is wider."""
    match operand:
        case Register() if width(operand) >= dtype.itemsize:
            return operand, dtype
        case Integer() | Float():
            return operand, dtype
    raise Unsupported(f"{i.mnemonic}: {operand} is no value of {8 * dtype.itemsize} bits")


def target(i: Instruction, operand: Operand, dtype: Type) -> Write:
    """Write a scalar, extended where its register is wider; `_` drops it."""
    match operand:
        case Register() if width(operand) >= dtype.itemsize:
            return operand, dtype
        case Sink():
            return None, dtype
    raise Unsupported(f"{i.mnemonic}: {operand} is no register for {8 * dtype.itemsize} bits")


def elements(i: Instruction, operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of an operand: as many as the instruction's vector is long."""
    count = vector_length(i)
    one = count == 1 and "b128" in i.flags  # a register that is a pair
    items = operand.items if isinstance(operand, Vector) and not one else (operand,)
    if len(items) != count or (count > 1 and not isinstance(operand, Vector)):
        raise Unsupported(f"{i.mnemonic}: {operand} is not {count} elements")
    return items
