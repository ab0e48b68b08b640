"""SASS as data: a module's functions, their instructions, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.errors import ProtocolError
from kernelrig.model.frame import Frame, Place

__all__ = ["INSTRUCTION_BYTES", "Frame", "Function", "Instruction", "Module", "Place"]

INSTRUCTION_BYTES = 16
"""Every instruction since sm_70 is 128 bits: a gap in the addresses is a line that was lost."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as nvdisasm writes it; `text` is all of it, from the guard on.

    `guard` is `P0`, `!UP3` or empty. `note` is what nvdisasm adds: the targets of a jump table.
    """

    address: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    text: str
    place: Place = field(default_factory=Place)
    note: str = ""

    @property
    def root(self) -> str:
        """The mnemonic without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def conditional(self) -> bool:
        return self.guard not in ("", "PT", "UPT")

    def matches(self, pattern: str) -> bool:
        """Return whether `pattern`, a mnemonic up to any of its dots, names this instruction."""
        return self.opcode == pattern or self.opcode.startswith(pattern + ".")


@dataclass(frozen=True, slots=True)
class Function:
    """What is launched, or called: `section` is named after the entry whose code it stands in."""

    name: str
    section: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    @property
    def is_entry(self) -> bool:
        return self.name == self.section


@dataclass(frozen=True, slots=True)
class Module:
    """A disassembled cubin. `externs` are functions of the driver's that it calls."""

    arch: str
    functions: tuple[Function, ...]
    externs: tuple[str, ...] = ()

    def function(self, name: str) -> Function:
        for function in self.functions:
            if function.name == name:
                return function
        known = ", ".join(f.name for f in self.functions if f.is_entry)
        raise ProtocolError(f"no function '{name}' in the disassembly; there are: {known}")
