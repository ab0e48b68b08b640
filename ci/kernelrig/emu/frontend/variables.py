"""Where the variables of a module lie, and which instructions of a kernel are unsupported."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.ptx import Symbol


@dataclass(frozen=True, slots=True)
class UnsupportedInstruction:
    """An instruction that cannot be run, and why."""

    line: int
    text: str


class UnsupportedKernel(Exception):
    """All that is rejected of a kernel."""

    def __init__(self, instructions: tuple[UnsupportedInstruction, ...]) -> None:
        super().__init__("; ".join(f"line {r.line}: {r.text}" for r in instructions))
        self.instructions = instructions


@dataclass(frozen=True, slots=True)
class VariableLayout:
    """Where the variables lie: name -> (space, place). `shared` and `local` places are offsets in
    the CTA's and the thread's own, the others are generic addresses.
    """

    places: dict[str, tuple[str, int]]

    def of(self, symbol: Symbol) -> tuple[str, int]:
        if symbol.name not in self.places:
            raise Unsupported(f"{symbol.name!r} is not a variable of this module")
        space, place = self.places[symbol.name]
        return space, place + symbol.offset
