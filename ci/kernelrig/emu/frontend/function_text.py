"""The text of a generated function on its way: its lines, and what it is given by name."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelrig.emu.frontend.unwritten_lanes import Numbers, UnwrittenLanes
from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.machine.special_registers import CLOCKS
from kernelrig.emu.numerics.arrays import Array
from kernelrig.ptx import Function, Guard, Instruction, Operand, Special


def compiled_late(name: str, text: str, file: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `name` of `text`, compiled when it is first called.

    The native core calls for few of a kernel's functions, and a launch reaches not all of them:
    to compile each took a tenth of a short emulation.
    """
    made: Callable[..., Any] | None = None

    def function(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the generated one takes
        nonlocal made
        if made is None:
            # The text comes from the PTX's structure alone: operands are numbers and names made
            # here.
            defined: dict[str, Any] = {}
            exec(compile(text, file, "exec"), names, defined)
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            made = defined[name]
        return made(*arguments)

    return function


class FunctionText:
    """What `Codegen` writes into; `names` are the globals of all functions of a kernel."""

    function: Function
    names: dict[str, Any]
    lines: list[str]
    unwritten: UnwrittenLanes

    def _function(self, name: str, parameters: str) -> Callable[..., Any]:
        body = "\n    ".join(self.lines)
        text = f"def {name}({parameters}):\n    {body}\n"
        return compiled_late(name, text, f"<{self.function.name} {name}>", self.names)

    def _dtype(self, dtype: np.dtype[Any]) -> str:
        name = f"t_{dtype.name}"
        self.names[name] = dtype
        return name

    def _constant(self, value: Array) -> str:
        # Constants are shared by all batches and schedules.
        value.setflags(write=False)
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def _follow(self, at: int, guard: str, operands: list[str]) -> None:
        """Have values that must not be used followed through the instruction."""
        read = "".join(f"{operand}, " for operand in operands)
        self.lines.append(f"if Q: T(C, {at}, M, {guard or None}, ({read}))")

    def _seen(self, reads: Sequence[tuple[Operand, np.dtype[Any]]], texts: list[str]) -> list[str]:
        """Return operands as following sees them: of a clock 0, as each read of one takes time."""
        return [
            self._constant(np.zeros((1, 1), dtype))
            if isinstance(operand, Special) and operand.name in CLOCKS
            else text
            for (operand, dtype), text in zip(reads, texts, strict=True)
        ]

    def _looks(self, at: int, i: Instruction, step: Step | None, guard: str) -> None:
        """Have the registers looked at that an instruction reads and that may not be written."""
        self._looks_at(at, self.unwritten.of_guard(i), "", None)
        self._looks_at(at, self.unwritten.read_by(i, step), guard, i.guard)
        by, added = self.unwritten.added_to(i, step)
        self._looks_at(at, added, f"r{by.register.index}" if by else "", by, sure=False)

    def _looks_at(
        self, at: int, numbers: Numbers, holds: str, by: Guard | None, *, sure: bool = True
    ) -> None:
        """Have lanes looked at that may not have written what they read, where `by` holds; `sure`:
        it holds something.
        """
        if numbers:
            known = f"if type({holds}) is A: " if holds and not sure else ""
            mask = f"N(M, {holds})" if holds else "M"
            self.lines.append(f"{known}Y(C, {mask}, {numbers}, {at})")

    def _fills(self, mask: str, numbers: Numbers) -> None:
        """Have lanes known as written from here on."""
        if numbers:
            self.lines.append(f"Z(C, {mask}, {numbers})")

    def _stored(self) -> None:
        """Say that an instruction that may store such values has run."""
        self.lines.append("if Q: E(C)")
