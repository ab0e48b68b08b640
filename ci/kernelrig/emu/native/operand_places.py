"""Where the operands of an instruction lie for its handler, which sees exact types only.

A register file holds the registers of a warp, then what is the same for it all the time (special
registers, shared addresses: `fills`), then places for what an instruction computes in passing.
Constants stand 32 times in a pool of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelrig.emu.frontend.literals import floating, integer
from kernelrig.emu.frontend.variables import VariableLayout
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.special_registers import CLOCKS, CYCLES_A_READ, special
from kernelrig.emu.numerics.arrays import BOOL, I64, LANES, UNSIGNED, Array
from kernelrig.ptx import (
    Address,
    Float,
    Function,
    Integer,
    Negated,
    Operand,
    Register,
    Special,
    Symbol,
)
from kernelrig.ptx.types import BYTES

PREDICATE_BYTES = 32
NO_RESULT = -(1 << 31)


class NotLowered(Exception):
    """An operand of which no handler sees anything: its instruction stays with Python."""


@dataclass(frozen=True, slots=True)
class Pseudo:
    """An instruction around another one: its handler, one result, one source, its constants."""

    name: str
    result: int
    source: int | None
    immediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fill:
    """What each warp's file holds at `offset` from the start: `value(batch)`."""

    offset: int
    dtype: np.dtype[Any]
    value: Callable[[WarpBatch], Array]


def width_of(register: Register) -> int:
    """Return the bytes of a lane, 0 of a predicate."""
    return 0 if register.type == "pred" else BYTES[register.type] * register.lanes


def _name(size: int, signed: bool = False) -> str:
    return f"{'s' if signed else 'u'}{8 * size}"


@dataclass
class Places:
    """The register file of a program and its constants, as they grow."""

    function: Function
    layout: VariableLayout
    registers: list[int] = field(default_factory=list)  # by index, where it lies
    fills: list[Fill] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._end = 0
        self._known: dict[object, int] = {}
        self._passing: list[int] = []
        self._used = 0
        self.before: list[Pseudo] = []
        for register in self.function.registers:
            self.registers.append(self._place(width_of(register)))

    @property
    def file_bytes(self) -> int:
        return self._end

    def _place(self, width: int) -> int:
        start = self._end
        self._end += LANES * width or PREDICATE_BYTES
        return start

    def begin(self) -> None:
        """Start the operands of another instruction: places in passing are free again."""
        self._used = 0
        self.before = []

    def _pass(self) -> int:
        if self._used == len(self._passing):
            self._passing.append(self._place(8))
        self._used += 1
        return self._passing[self._used - 1]

    def _constant(self, value: Array) -> int:
        if value.dtype == BOOL:
            bits = (b"\xff" if value[0, 0] else b"\0") * 4
        else:
            bits = value.tobytes() * LANES
        key = (bits,)
        if key not in self._known:
            self.constants += bytes(-len(self.constants) % 32)
            self._known[key] = ~len(self.constants)
            self.constants += bits
        return self._known[key]

    def _fill(self, key: object, dtype: np.dtype[Any], value: Callable[[WarpBatch], Array]) -> int:
        if key not in self._known:
            offset = self._place(0 if dtype == BOOL else dtype.itemsize)
            self.fills.append(Fill(offset, dtype, value))
            self._known[key] = offset
        return self._known[key]

    def _pseudo(self, name: str, source: int | None, *immediates: int) -> int:
        result = self._pass()
        self.before.append(Pseudo(name, result, source, immediates))
        return result

    def read(self, operand: Operand, dtype: np.dtype[Any]) -> int:
        """Return where `operand` lies as `dtype`; what computes it is added to `before`."""
        match operand:
            case Register():
                return self._register(operand, dtype)
            case Negated(sign="!", operand=Register() as register):
                return self._pseudo("complement", self.registers[register.index])
            case Integer(value=value):
                return self._constant(integer(value, dtype))
            case Float():
                return self._constant(floating(operand, dtype))
            case Special():
                return self._special(operand, dtype)
            case Symbol():
                return self._symbol(operand, 0, dtype)
            case Address(base=Register() as register, offset=offset):
                place, width = self.registers[register.index], width_of(register)
                if width == I64.itemsize and not offset:
                    return place
                return self._pseudo(f"address.{_name(width)}", place, offset)
            case Address(base=Symbol() as symbol, offset=offset):
                return self._symbol(symbol, offset, I64)
            case Address(base=Integer(value=value), offset=offset):
                return self._constant(integer(value + offset, I64))
        raise NotLowered

    def _register(self, register: Register, dtype: np.dtype[Any]) -> int:
        place, width = self.registers[register.index], width_of(register)
        if register.type == "pred" or width == dtype.itemsize:
            return place
        return self._pseudo(f"convert.{_name(width)}.{_name(dtype.itemsize)}", place)

    def _special(self, operand: Special, dtype: np.dtype[Any]) -> int:
        name, part = operand.name, operand.part
        if name in CLOCKS:
            kind = "u64" if name in ("clock64", "globaltimer") else "u32"
            if kind != f"{dtype.kind}{8 * dtype.itemsize}":
                raise NotLowered
            shift = 32 if name.endswith("_hi") else 0
            return self._pseudo(f"clock.{kind}", None, CYCLES_A_READ, shift)
        return self._fill((name, part, dtype), dtype, lambda batch: special(batch, name, part))

    def _symbol(self, symbol: Symbol, offset: int, dtype: np.dtype[Any]) -> int:
        space, place = self.layout.of(symbol)
        if space == "shared":
            at = place + offset
            key = ("shared", at, dtype)
            return self._fill(key, dtype, lambda batch: batch.shared_address(at, dtype))
        return self._constant(np.array([[place + offset]], np.int64).astype(dtype))

    def write(self, register: Register | None, dtype: np.dtype[Any]) -> tuple[int, Pseudo | None]:
        """Return where a result of `dtype` goes, and what makes the register of it."""
        if register is None:
            return NO_RESULT, None
        place, width = self.registers[register.index], width_of(register)
        if width in (0, dtype.itemsize):
            return place, None
        if width not in UNSIGNED:
            raise NotLowered
        signed = dtype.kind == "i" and dtype.itemsize < width
        made = self._pass()
        name = f"convert.{_name(dtype.itemsize, signed)}.{_name(width, signed)}"
        return made, Pseudo(name, place, made)
