"""Calls of a kernel replaced by the functions that they call: an engine runs one function alone.

How it works. Each call gets a copy of its function, with registers, labels and local variables of
its own. A formal parameter is the variable that the caller passes, so nothing is copied; `ret` is a
branch behind the copy. A call by address becomes a comparison with the address of each function
that it may be: those that the module takes the address of and that have such parameters. What
cannot be replaced stays, and is refused by name: recursion, and functions without a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kernelrig.model.frame import Place
from kernelrig.ptx import (
    Address,
    Arguments,
    Component,
    Function,
    Guard,
    Instruction,
    Integer,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Prototype,
    Register,
    Symbol,
    Targets,
    TensorAddress,
    Variable,
    Vector,
)
from kernelrig.ptx.operands import Initial

MOST_INSTRUCTIONS = 400_000
"""Of a kernel with its calls replaced: copies of copies grow without bound otherwise."""
_CODE = 0x100000
"""Addresses of functions begin here: no memory is there."""


def function_addresses(module: Module) -> dict[str, int]:
    """Return where each function is, for those who compare or store its address."""
    names = dict.fromkeys(f.name for f in module.functions)
    places = {name: _CODE + 16 * number for number, name in enumerate(names)}
    others = {alias: places[name] for alias, name in module.aliases.items() if name in places}
    return places | others


def inlined(module: Module, entry: Function) -> Function:
    """Return `entry` without the calls that can be replaced."""
    if not any(i.opcode == "call" for i in entry.instructions):
        return entry
    made = _Inliner(module)
    made.copy(_Copy(0, entry), ())
    instructions = tuple(made.resolved())
    named = (Label(label.name, made.at[0, label.target]) for label in entry.labels)
    reached = (o for i in instructions for o in i.operands if isinstance(o, Label))
    return replace(
        entry,
        instructions=instructions,
        labels=tuple(dict.fromkeys((*named, *reached, *_in_tables(instructions)))),
        registers=tuple(made.registers),
        variables=tuple(made.variables.values()),
        tables=tuple(made.tables),
        pragmas=(),
    )


@dataclass
class _Copy:
    """A copy of a function: what its names are here. `parameters` are the caller's variables."""

    number: int
    function: Function
    parameters: dict[str, Symbol] = field(default_factory=dict)
    place: Place | None = None  # of the call
    registers: dict[int, Register] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.addresses = function_addresses(module)
        self.code: list[Instruction] = []
        self.at: dict[tuple[int, int], int] = {}  # of (copy, index in it): where it is
        self.registers: list[Register] = []
        self.variables: dict[str, Variable] = {}
        self.tables: list[Targets | Prototype] = []
        self.copies = 0

    def copy(self, copy: _Copy, callers: tuple[str, ...]) -> None:
        """Add the code of a copy; labels keep (copy, index) as long as it grows."""
        function, number = copy.function, copy.number
        suffix = f"$call{number}" if number else ""
        for register in function.registers:
            here = replace(register, name=register.name + suffix, index=len(self.registers))
            copy.registers[register.index] = here
            self.registers.append(here)
        for variable in function.variables:
            own = number and variable.space in ("local", "param")
            here_ = replace(variable, name=variable.name + suffix) if own else variable
            copy.variables[variable.name] = here_
            self.variables[here_.name] = here_
        callers = (*callers, function.name)
        for instruction in function.instructions:
            self.at[number, instruction.index] = len(self.code)
            if instruction.opcode == "call" and self._call(copy, instruction, callers):
                continue
            if instruction.opcode == "ret" and number:
                end = Label(f"$end{number}", self._key(number, len(function.instructions)))
                branch = replace(instruction, opcode="bra", qualifiers=(), flags=frozenset())
                self._add(copy, branch, (end,))
                continue
            operands = tuple(self._operand(copy, o) for o in instruction.operands)
            self._add(copy, instruction, operands)
        self.at[number, len(function.instructions)] = len(self.code)

    def _key(self, copy: int, index: int) -> int:
        """Return a number for a label's target that is not known yet."""
        return -1 - ((copy << 32) | index)

    def resolved(self) -> Iterator[Instruction]:
        """Yield the code with its labels where they are."""
        for index, instruction in enumerate(self.code):
            operands = tuple(map(self._landed, instruction.operands))
            yield replace(instruction, index=index, operands=operands)

    def _landed(self, operand: Operand) -> Operand:
        match operand:
            case Label():
                key = -1 - operand.target
                return replace(operand, target=self.at[key >> 32, key & 0xFFFFFFFF])
            case Targets(items=items) if items and isinstance(items[0], Label):
                landed = tuple(self._landed(item) for item in items)
                return replace(operand, items=landed)  # type: ignore[arg-type]
        return operand

    def _add(self, copy: _Copy, instruction: Instruction, operands: tuple[Operand, ...]) -> None:
        guard = instruction.guard
        if guard is not None:
            guard = Guard(copy.registers[guard.register.index], guard.negated)
        place = instruction.place
        if copy.place is not None:
            place = replace(place, frames=(*place.frames, *copy.place.frames))
        self.code.append(replace(instruction, operands=operands, guard=guard, place=place))

    def _operand(self, copy: _Copy, operand: Operand) -> Operand:
        match operand:
            case Register():
                return copy.registers[operand.index]
            case Component():
                return replace(operand, register=copy.registers[operand.register.index])
            case Negated():
                return replace(operand, operand=self._operand(copy, operand.operand))  # type: ignore[arg-type]
            case Pair():
                first, second = (self._operand(copy, o) for o in (operand.first, operand.second))
                return Pair(first, second)
            case Vector() | TensorAddress() | Arguments():
                return replace(operand, items=tuple(self._operand(copy, o) for o in operand.items))
            case Address():
                base = self._operand(copy, operand.base)
                return replace(operand, base=base)  # type: ignore[arg-type]
            case Symbol():
                return self._symbol(copy, operand)
            case Label():
                return replace(operand, target=self._key(copy.number, operand.target))
            case Targets(items=items) if items and isinstance(items[0], Label):
                return replace(operand, items=tuple(self._operand(copy, o) for o in items))  # type: ignore[arg-type]
        return operand

    def _symbol(self, copy: _Copy, symbol: Symbol) -> Symbol:
        if (passed := copy.parameters.get(symbol.name)) is not None:
            return replace(passed, offset=passed.offset + symbol.offset)
        if (variable := copy.variables.get(symbol.name)) is not None:
            return replace(symbol, name=variable.name, variable=variable)
        return symbol

    # Calls.
    def _call(self, copy: _Copy, call: Instruction, callers: tuple[str, ...]) -> bool:
        """Add the code of what is called; False if it cannot be: the call stays as it is."""
        results, called, passed = _parts(call)
        functions = list(self._called(call, called))
        given = [*results, *passed]
        if (
            not functions
            or len(self.code) > MOST_INSTRUCTIONS
            or any(f.name in callers for f in functions)
            or not all(isinstance(o, Symbol) for o in given)
            or any(not _takes(f, len(results), len(passed)) for f in functions)
        ):
            return False
        self.copies += 1
        number = self.copies  # the labels between the copies of this call are those of a copy, too
        behind = Label(f"$behind{number}", self._key(number, 0))
        if call.guard is not None:
            around = replace(call.guard, negated=not call.guard.negated)
            self._add(copy, _made(call, "bra", guard=around), (behind,))
        target = self._operand(copy, called)
        for way, function in enumerate(functions):
            next_ = Label(f"$next{number}_{way}", self._key(number, 1 + way))
            if not isinstance(called, Symbol):
                other = self._predicate()
                address = Integer(self.addresses[function.name])
                compared = _made(call, "setp", "ne", "u64")
                self._add(copy, compared, (other, target, address))
                self._add(copy, _made(call, "bra"), (next_,))
                self.code[-1] = replace(self.code[-1], guard=Guard(other))
            self.copies += 1
            formal = (*function.results, *function.params)
            actual = (self._operand(copy, o) for o in given)
            parameters = {f.name: a for f, a in zip(formal, actual, strict=True)}
            place = call.place
            if copy.place is not None:
                place = replace(place, frames=(*place.frames, *copy.place.frames))
            self.copy(_Copy(self.copies, function, parameters, place), callers)  # type: ignore[arg-type]
            if not isinstance(called, Symbol):
                self._add(copy, _made(call, "bra"), (behind,))
            self.at[number, 1 + way] = len(self.code)
        if not isinstance(called, Symbol):
            self._add(copy, _made(call, "trap"), ())  # no function is at that address
        self.at[number, 0] = len(self.code)
        return True

    def _called(self, call: Instruction, called: Operand) -> Iterable[Function]:
        """Return the functions that a call may reach, none where one has no body."""
        if isinstance(called, Symbol):
            function = self.module.function(called.name)
            return (function,) if function and function.has_body and not function.is_entry else ()
        last = call.operands[-1]
        taken = [f for name in self._taken() if (f := self.module.function(name)) is not None]
        match last:
            case Targets(items=items):
                names = [i.name for i in items]
                found = [f for n in names if (f := self.module.function(n)) is not None]
            case Prototype():
                found = [f for f in taken if _alike(f, last)]
            case _:
                return ()
        return found if all(f.has_body and not f.is_entry for f in found) else ()

    def _taken(self) -> list[str]:
        """Return the functions whose address some code or initialiser of the module takes."""
        known = {f.name for f in self.module.functions if not f.is_entry}
        found: dict[str, None] = {}
        for variable in self.module.variables:
            found.update(dict.fromkeys(_named(variable.initial)))
        for function in self.module.functions:
            for instruction in function.instructions:
                if instruction.opcode != "call":
                    symbols = (o for o in instruction.operands if isinstance(o, Symbol))
                    found.update(dict.fromkeys(s.name for s in symbols))
        names = (self.module.aliases.get(name, name) for name in found)
        return [name for name in dict.fromkeys(names) if name in known]

    def _predicate(self) -> Register:
        made = Register(f"%called{len(self.registers)}", "pred", len(self.registers))
        self.registers.append(made)
        return made


def _in_tables(instructions: Iterable[Instruction]) -> Iterator[Label]:
    for instruction in instructions:
        for operand in instruction.operands:
            if isinstance(operand, Targets):
                yield from (item for item in operand.items if isinstance(item, Label))


def _parts(call: Instruction) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
    """Return what a call gives, what it calls, and what it passes."""
    operands = list(call.operands)
    first = operands.pop(0) if isinstance(operands[0], Arguments) else None
    called = operands.pop(0)
    passed = operands.pop(0) if operands and isinstance(operands[0], Arguments) else None
    items = (o.items if isinstance(o, Arguments) else () for o in (first, passed))
    given, taken = items
    return given, called, taken


def _made(call: Instruction, opcode: str, *words: str, guard: Guard | None = None) -> Instruction:
    flags = frozenset(words)
    return replace(call, opcode=opcode, qualifiers=words, flags=flags, operands=(), guard=guard)


def _takes(function: Function, results: int, params: int) -> bool:
    variables = (*function.results, *function.params)
    return (len(function.results), len(function.params)) == (results, params) and all(
        isinstance(v, Variable) for v in variables
    )


def _alike(function: Function, prototype: Prototype) -> bool:
    """Whether a function has the parameters and results of a prototype."""

    def sizes(variables: tuple[Variable | Register, ...]) -> list[object]:
        return [v.size if isinstance(v, Variable) else v.type for v in variables]

    return (sizes(function.results), sizes(function.params)) == (
        sizes(prototype.results),
        sizes(prototype.params),
    )


def _named(initial: Initial | None) -> Iterator[str]:
    match initial:
        case tuple():
            for item in initial:
                yield from _named(item)
        case Symbol():
            yield initial.name
