"""What an instruction works on. `str` of an operand is PTX again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A register; `type` is its declared one and tells the width alone: nvcc keeps floats in .b32.

    `index` counts the function's registers from 0; `lanes` is 2 or 4 of a `.v2` or `.v4` register.
    """

    name: str
    type: str
    index: int
    lanes: int = 1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a register: `v.x`, or `%r1.b0` of a video instruction."""

    register: Register
    part: str

    def __str__(self) -> str:
        return f"{self.register}.{self.part}"


@dataclass(frozen=True, slots=True)
class Special:
    """A register that PTX gives: `%tid.x` is name `tid`, part `x`."""

    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"%{self.name}.{self.part}" if self.part else f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Integer:
    """A constant as it stands, signed: the instruction's type says how many bits of it count."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Float:
    """A constant by its bits: 32 of `0f3F800000`, 64 of `0d...` and of a decimal one."""

    bits: int
    width: int

    def __str__(self) -> str:
        return f"0f{self.bits:08X}" if self.width == 32 else f"0d{self.bits:016X}"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, in the variable's own space, or of a function.

    In an initialiser it may be `generic`, and `mask` may pick one byte of it.
    """

    name: str
    variable: Variable | None = None
    offset: int = 0
    generic: bool = False
    mask: int | None = None

    def __str__(self) -> str:
        text = f"generic({self.name})" if self.generic else self.name
        text += f"+{self.offset}" if self.offset else ""
        return text if self.mask is None else f"{self.mask:#x}({text})"


Initial = Integer | Float | Symbol | tuple["Initial", ...]
"""A value of an initialiser; a tuple is one `{ }`, zero-padded where it is short."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable; `type` of a byte array is `b8`. Size and alignment are in bytes.

    `dimensions` are () for a single value, and hold a 0 where the size is left open (`name[]`).
    `pointee` is (space, alignment) of what a `.ptr` parameter points at.
    """

    name: str
    space: str
    type: str
    line: int
    align: int
    lanes: int = 1
    dimensions: tuple[int, ...] = ()
    linkage: frozenset[str] = frozenset()
    initial: Initial | None = None
    attributes: tuple[str, ...] = ()
    pointee: tuple[str, int] | None = None
    element_bytes: int = 0

    @property
    def size(self) -> int:
        size = self.element_bytes * self.lanes
        for count in self.dimensions:
            size *= count
        return size

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`: a register, a variable, or a number."""

    base: Register | Component | Symbol | Integer
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}+{self.offset}]" if self.offset else f"[{self.base}]"


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """`[map, {x, y}]`: a tensor map, texture or surface, maybe a sampler, and coordinates."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"[{', '.join(str(i) for i in self.items)}]"


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(str(i) for i in self.items)}}}"


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that is discarded."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: two results."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` of a predicate, `-a` of a video instruction."""

    sign: str
    operand: Register | Component

    def __str__(self) -> str:
        return f"{self.sign}{self.operand}"


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code; `target` is the index of the instruction there, or one past the last."""

    name: str
    target: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Arguments:
    """`(a, b)` of a call."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"({', '.join(str(i) for i in self.items)})"


@dataclass(frozen=True, slots=True)
class Targets:
    """`.branchtargets` of a brx.idx, or the functions in `.calltargets` of a call."""

    name: str
    items: tuple[Label, ...] | tuple[Symbol, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Prototype:
    """`.callprototype` of an indirect call."""

    name: str
    results: tuple[Variable | Register, ...]
    params: tuple[Variable | Register, ...]
    directives: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


Operand = (
    Register
    | Component
    | Special
    | Integer
    | Float
    | Symbol
    | Address
    | TensorAddress
    | Vector
    | Sink
    | Pair
    | Negated
    | Label
    | Arguments
    | Targets
    | Prototype
)
