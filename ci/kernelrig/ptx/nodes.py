"""What a PTX module is made of; every node knows its line, every name is resolved.

Names are unique in their function: what an inner `{ }` declares carries the number of that scope,
`%p$3`, so that a name that shadows another is a name of its own, and still one that PTX allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.frame import Place
from kernelrig.ptx.operands import Label, Operand, Prototype, Register, Targets, Variable

Value = int | float | str
"""What a directive may be given."""


@dataclass(frozen=True, slots=True)
class Directive:
    """`.maxntid 192` of a function: its name without the dot, and its values."""

    name: str
    values: tuple[Value, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`: the lanes that execute the instruction."""

    register: Register
    negated: bool = False

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `index` counts from 0 in its function, and is what labels point at.

    `opcode` is the first word, `qualifiers` the rest in their order. ptxas takes most of them in
    any order, types included: decide by `flags`, the same as a set.
    """

    index: int
    opcode: str
    qualifiers: tuple[str, ...]
    flags: frozenset[str] = field(repr=False)
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    place: Place

    @property
    def mnemonic(self) -> str:
        return ".".join((self.opcode, *self.qualifiers))

    def has(self, *qualifiers: str) -> bool:
        return self.flags.issuperset(qualifiers)

    def operand(self, place: int) -> Operand | None:
        """Return the operand there; None where there are fewer (the parser does not count them)."""
        return self.operands[place] if place < len(self.operands) else None

    def __str__(self) -> str:
        guard = f"{self.guard} " if self.guard else ""
        operands = ", ".join(str(o) for o in self.operands)
        return f"{guard}{self.mnemonic} {operands}".rstrip() + ";"


@dataclass(frozen=True, slots=True)
class Pragma:
    """`.pragma` in a body; `index` is that of the instruction behind it."""

    text: str
    index: int
    line: int


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a function; `instructions` are all of its scopes in the order of the text.

    `registers` are those that some instruction names, by their `index`; `variables` those declared
    inside. Parameters in registers are registers too. A declaration has no body.
    """

    name: str
    is_entry: bool
    linkage: frozenset[str]
    results: tuple[Variable | Register, ...]
    params: tuple[Variable | Register, ...]
    directives: tuple[Directive, ...]
    has_body: bool
    instructions: tuple[Instruction, ...]
    labels: tuple[Label, ...]
    registers: tuple[Register, ...]
    variables: tuple[Variable, ...]
    tables: tuple[Targets | Prototype, ...]
    pragmas: tuple[Pragma, ...]
    line: int

    def directive(self, name: str) -> tuple[Value, ...] | None:
        """Return the values of the directive `.name`, None if the function has none."""
        return next((d.values for d in self.directives if d.name == name), None)


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text. `name` is what messages call it; `aliases` maps a function's other names."""

    name: str
    version: str
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    aliases: dict[str, str]
    pragmas: tuple[str, ...]
    files: dict[int, str]

    def function(self, name: str) -> Function | None:
        """Return the function of that name, its definition where there is one."""
        named = [f for f in self.functions if f.name == self.aliases.get(name, name)]
        return max(named, key=lambda f: f.has_body, default=None)

    @property
    def named_lines(self) -> dict[tuple[str, int], str]:
        """Return the function that each source line is in: SASS names lines alone."""
        frames = (f for fn in self.functions for i in fn.instructions for f in i.place.frames)
        return {(f.file, f.line): f.function for f in frames if f.function}

    @property
    def entries(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if f.is_entry)
