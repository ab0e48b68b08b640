"""Which variable an address points into, as far as the text tells without running it.

An address that is built on one variable stays in it, whatever is added or masked: C++ allows
nothing else. Only offsets that are constants are known as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.ptx import (
    Address,
    Function,
    Instruction,
    Integer,
    Operand,
    Register,
    Symbol,
    Variable,
    results,
)

PEER = "mapa"
"""Stands for the variables of another CTA of the cluster."""

_COPIES = frozenset({"mov", "cvta", "cvt"})
_MASKS = "add sub and or xor mad lop3 selp min max prmt bfi shfl mapa"
_KEEPS = frozenset([*_COPIES, *_MASKS.split()])


@dataclass(frozen=True, slots=True)
class Pointer:
    """Bytes behind the start of `name`; the offset is None where it is not constant.

    Without a name it is no address that we know of.
    """

    name: str = ""
    offset: int | None = None


UNKNOWN = Pointer()


class Pointers:
    """The pointers in a function's registers."""

    def __init__(self, function: Function) -> None:
        self._held: dict[Register, Pointer] = {}
        self._static: dict[str, bool] = {}
        changed = True
        while changed:
            changed = False
            for instruction in function.instructions:
                for register in results(instruction):
                    changed |= self._write(register, self._result(instruction))

    def at(self, operand: Operand | None) -> Pointer:
        """Return what an address operand points at."""
        if not isinstance(operand, Address):
            return UNKNOWN
        base = self._of(operand.base)
        return base if base.offset is None else Pointer(base.name, base.offset + operand.offset)

    def is_shared(self, pointer: Pointer) -> bool:
        return pointer.name in self._static

    def apart(self, first: Pointer, size: int, second: Pointer) -> bool:
        """Say whether `size` bytes at `first` are for certain not among those from `second` on."""
        if first.name != second.name:
            # Dynamic arrays all begin at one place; static variables have one each.
            names = (first.name, second.name)
            return all(n in self._static for n in names) and any(self._static[n] for n in names)
        if first.offset is None or second.offset is None:
            return False
        return first.offset + size <= second.offset

    def _write(self, register: Register, pointer: Pointer) -> bool:
        before = self._held.get(register)
        after = pointer if before is None else _joined(before, pointer)
        self._held[register] = after
        return after != before

    def _result(self, instruction: Instruction) -> Pointer:
        opcode = instruction.opcode
        if opcode not in _KEEPS:
            return UNKNOWN
        sources = [self._of(o) for o in instruction.operands[1:]]
        if opcode == "mapa":
            return Pointer(PEER)
        named = [p for p in sources if p.name]
        names = {p.name for p in named}
        if len(names) != 1:
            return UNKNOWN
        if opcode in _COPIES:
            return named[0]
        if opcode in ("add", "sub") and len(named) == 1:
            steps = [o.value for o in instruction.operands[1:] if isinstance(o, Integer)]
            if steps and named[0].offset is not None:
                step = steps[0] if opcode == "add" else -steps[0]
                return Pointer(named[0].name, named[0].offset + step)
        return Pointer(named[0].name)

    def _of(self, operand: Operand) -> Pointer:
        match operand:
            case Register():
                return self._held.get(operand, UNKNOWN)
            case Symbol(name, Variable() as variable, offset):
                if variable.space == "shared":
                    self._static[name] = "extern" not in variable.linkage
                return Pointer(name, offset)
        return UNKNOWN


def _joined(first: Pointer, second: Pointer) -> Pointer:
    """Return what is true of both."""
    if first == second:
        return first
    return Pointer(first.name) if first.name == second.name else UNKNOWN
