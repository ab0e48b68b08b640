"""The Python function of one instruction: what the core calls back for where it has no handler.

They are written as the NumPy engine writes its segments (`frontend.codegen`), one instruction each
and only when one is called for. Their operands come as they lie in the register file: what must be
checked of a register the core checked before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelrig.emu.frontend.basic_blocks import successors
from kernelrig.emu.frontend.codegen import Codegen
from kernelrig.emu.frontend.unwritten_lanes import Numbers
from kernelrig.emu.numerics.arrays import U32
from kernelrig.ptx import Guard, Register


class StepFunctions(Codegen):
    """`checks` and `fetched`, by instruction: the registers whose first read in the segment it is,
    and those that the segment has read or written before.
    """

    def __init__(self, codegen: Codegen) -> None:
        self.__dict__.update(codegen.__dict__)
        self.names = dict(codegen.names)
        self.checks: dict[int, tuple[int, ...]] = {}
        self.overwriting: dict[int, tuple[int, ...]] = {}  # by instruction: watched registers
        # By instruction: what is looked at, where what holds, and what is written (UnwrittenLanes).
        self.looked_at: dict[int, list[tuple[Guard | None, Numbers]]] = {}
        self.filled: dict[int, Numbers] = {}
        self.fetched: dict[int, frozenset[int]] = {}
        self.segment_of: dict[int, int] = {}
        self._functions: dict[int, Callable[..., Any]] = {}
        self._followed: dict[int, Callable[..., Any]] = {}
        self._checking: list[int] = []
        self._overwriting: list[int] = []
        self._looking: list[tuple[Guard | None, Numbers]] = []
        self._filling: Numbers = ()
        self._known: frozenset[int] = frozenset()
        for index, (first, last) in enumerate(self.cuts):
            self._start()
            for at in range(first, last):
                self.segment_of[at] = index
                self.fetched[at] = frozenset(self.held)
                self._checking = []
                self._overwriting = []
                self._looking, self._filling = [], ()
                self._instruction(at)
                self.checks[at] = tuple(self._checking)
                self.overwriting[at] = tuple(self._overwriting)
                self.looked_at[at], self.filled[at] = self._looking, self._filling

    def _instruction(self, at: int) -> str:
        instruction, step = self.function.instructions[at], self.steps[at]
        if step is not None:
            self._step(at, instruction, step)
            return "None"
        first, last = self.cuts[self.segment_of[at]]
        is_table = instruction.opcode == "brx" and last > first
        return self._control(at, instruction, "table" if is_table else "")

    def function_of(self, at: int) -> Callable[..., Any]:
        """Return `f(batch, registers, lanes)` that does what the instruction does."""
        made = self._functions.get(at)
        if made is None:
            made = self._functions[at] = self._made(at)
        return made

    def following_of(self, at: int) -> Callable[..., Any]:
        """Return `f(batch, registers, lanes)` that follows values through the instruction."""
        made = self._followed.get(at)
        if made is None:
            instruction, step = self.function.instructions[at], self.steps[at]
            self._start()
            guard = self._guard(at, instruction.guard)
            reads = step.reads if step else [(o, U32) for o in instruction.operands[:1]]
            if instruction.opcode == "bra" or (step is None and not instruction.operands):
                reads = ()
            in_flight = step is not None and step.in_flight
            operands = [self._operand(at, o, d, in_flight) for o, d in reads]
            read = "".join(f"{operand}, " for operand in self._seen(reads, operands))
            self.lines.append(f"return T(C, {at}, M, {guard or None}, ({read}))")
            made = self._followed[at] = self._function(f"following_{at}", "C, R, M")
        return made

    def _follow(self, at: int, guard: str, operands: list[str]) -> None:
        """Do nothing: the core asks for it before it runs an instruction."""

    def _looks_at(
        self, at: int, numbers: Numbers, holds: str, by: Guard | None, *, sure: bool = True
    ) -> None:
        """The core looks by itself (`encode`)."""
        if numbers:
            self._looking.append((by, numbers))

    def _fills(self, mask: str, numbers: Numbers) -> None:
        """The core does by itself."""
        self._filling = numbers

    def _stored(self) -> None:
        """Do nothing: the core says so behind it."""

    def _made(self, at: int) -> Callable[..., Any]:
        self._start()
        self._known = self.fetched[at]
        result = self._instruction(at)
        step = self.steps[at]
        behind = self.behind[self.segment_of[at]]
        written = sorted(self.written)
        if step is not None and step.in_flight:
            # A result in flight goes where the NumPy engine puts it, which is by liveness.
            live = [r for r in written if behind >> r & 1]
            pairs = ", ".join(f"({r}, r{r})" for r in live)
            self.lines.append(f"R.put(({pairs}{',' if live else ''}))")
        else:
            self.lines += [f"R[{r}] = r{r}" for r in written]
        self.lines.append(f"return {result}")
        made = self._function(f"step_{at}", "C, R, M")
        self._known = frozenset()
        return made

    def _fetch(self, name: str, register: Register, quiet: bool) -> None:
        # Only what may be in flight, or never written, is asked as the register that it is.
        asked = quiet and register.index not in self._known
        source = f"R[{register.index}]" if asked else f"C.held_bits({register.index})"
        self.lines.append(f"{name} = {source}")

    def _check(self, name: str, register: Register, at: int) -> None:
        self._checking.append(register.index)

    def _overwrites(self, at: int, register: int, guard: str) -> None:
        """The core is told by itself (`encode`)."""
        self._overwriting.append(register)


def surely_set(functions: StepFunctions) -> list[frozenset[int]]:
    """Return, by segment, the registers that hold a value when it begins, whatever way led there.

    What an asynchronous load fills is not among them until something else sets it.
    """
    cuts, steps = functions.cuts, functions.steps
    every = frozenset(range(len(functions.function.registers)))
    sets: list[tuple[frozenset[int], frozenset[int]]] = []
    for first, last in cuts:
        made: set[int] = set()
        lost: set[int] = set()
        for at in range(first, last):
            step = steps[at]
            if step is None:
                continue
            written = {r.index for r, _ in step.writes if r is not None}
            if step.in_flight:
                made -= written
                lost |= written
            elif not (step.effect and functions.function.instructions[at].guard):
                made |= written
                lost -= written
        sets.append((frozenset(made), frozenset(lost)))
    known = [frozenset[int]() if index == 0 else every for index in range(len(cuts))]
    following = successors(cuts, functions.flow)
    changed = True
    while changed:
        changed = False
        for index, (gained, without) in enumerate(sets):
            left = (known[index] - without) | gained
            for after in following[index]:
                met = known[after] & left
                if met != known[after]:
                    known[after] = met
                    changed = True
    return known
