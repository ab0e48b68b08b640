"""Calls of a kernel replaced by the functions that they call: an engine runs one function alone.

How it works. Each call gets a copy of its function, with registers, labels and local variables of
its own. A formal parameter is the variable that the caller passes, so nothing is copied; `ret` is a
branch behind the copy. A call by address becomes a comparison with the address of each function
that it may be: those that the module takes the address of and that have such parameters. Functions
that call themselves have a stack (recursive_calls.py). What cannot be replaced stays, and is
refused by name: functions without a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kernelrig.emu.frontend.call_copies import Copy, InFrame, made_of, parts, takes
from kernelrig.emu.frontend.recursion_code import RecursionCode
from kernelrig.emu.frontend.recursive_calls import Place
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
    made.copy(Copy(0, entry), ())
    instructions = tuple(made.resolved())
    named = (Label(label.name, made.at[0, label.target]) for label in entry.labels)
    reached = (o for i in instructions for o in i.operands if isinstance(o, Label))
    return replace(
        entry,
        instructions=instructions,
        labels=tuple(dict.fromkeys((*named, *reached, *_in_tables(instructions)))),
        registers=tuple(made.registers),
        variables=(*made.variables.values(), *((made.stack,) if made.recursions else ())),
        tables=tuple(made.tables),
        pragmas=(),
    )


class _Inliner(RecursionCode):
    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.addresses = function_addresses(module)
        self.variables: dict[str, Variable] = {}

    def copy(self, copy: Copy, callers: tuple[str, ...]) -> None:
        """Add the code of a copy; labels keep (copy, index) as long as it grows."""
        function, number = copy.function, copy.number
        suffix = f"$call{number}" if number else ""
        for register in function.registers:
            here = replace(register, name=register.name + suffix, index=len(self.registers))
            copy.registers[register.index] = here
            self.registers.append(here)
        for variable in function.variables:
            if copy.frame is not None and variable.name in copy.frame.variables:
                continue
            own = number and variable.space in ("local", "param")
            here_ = replace(variable, name=variable.name + suffix) if own else variable
            copy.variables[variable.name] = here_
            self.variables[here_.name] = here_
        callers = (*callers, function.name)
        self._place_arguments(copy)
        self._clear(copy)
        for instruction in function.instructions:
            self.at[number, instruction.index] = len(self.code)
            if instruction.opcode == "call" and self._call(copy, instruction, callers):
                continue
            if instruction.opcode == "ret" and copy.recursion is not None:
                self._return(copy, instruction)
                continue
            if instruction.opcode == "ret" and number:
                end = Label(f"$end{number}", self._key(number, len(function.instructions)))
                branch = replace(instruction, opcode="bra", qualifiers=(), flags=frozenset())
                self._add(copy, branch, (end,))
                continue
            operands = tuple(self._operand(copy, o) for o in instruction.operands)
            self._add_in_frame(copy, instruction, operands)
        self.at[number, len(function.instructions)] = len(self.code)

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

    def _add(self, copy: Copy, instruction: Instruction, operands: tuple[Operand, ...]) -> None:
        guard = instruction.guard
        if guard is not None:
            guard = Guard(copy.registers[guard.register.index], guard.negated)
        place = instruction.place
        if copy.place is not None:
            place = replace(place, frames=(*place.frames, *copy.place.frames))
        self.code.append(replace(instruction, operands=operands, guard=guard, place=place))

    def _add_in_frame(
        self, copy: Copy, instruction: Instruction, operands: tuple[Operand, ...]
    ) -> None:
        """Add an instruction; what lies in a frame is in local memory, and its address a sum."""
        own = copy.recursion is not None
        framed = [
            was for was, now in zip(instruction.operands, operands, strict=True)
            if isinstance(was, Address)
            and (isinstance(self._symbol_place(copy, was.base), Place)
                 or (own and isinstance(was.base, Register)))
        ]  # fmt: skip
        if framed and "param" in instruction.flags:
            words = tuple("local" if q == "param" else q for q in instruction.qualifiers)
            instruction = replace(instruction, qualifiers=words, flags=frozenset(words))
        sums: list[Operand] = []
        for operand in operands:
            if isinstance(operand, InFrame):
                made = self._register("b64")
                self._add(copy, made_of(instruction, "add", "s64"),
                          (made, operand.base, Integer(operand.offset)))  # fmt: skip
                sums.append(made)
            else:
                sums.append(operand)
        self._add(copy, instruction, tuple(sums))

    def _symbol_place(self, copy: Copy, operand: object) -> Symbol | Place | None:
        return copy.parameters.get(operand.name) if isinstance(operand, Symbol) else None

    def _operand(self, copy: Copy, operand: Operand) -> Operand:
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
                if isinstance(base, InFrame):
                    return Address(base.base, base.offset + operand.offset)
                return replace(operand, base=base)  # type: ignore[arg-type]
            case Symbol():
                return self._symbol(copy, operand)  # type: ignore[return-value]  # a sum: _add_in_frame
            case Label():
                return replace(operand, target=self._key(copy.number, operand.target))
            case Targets(items=items) if items and isinstance(items[0], Label):
                return replace(operand, items=tuple(self._operand(copy, o) for o in items))  # type: ignore[arg-type]
        return operand

    def _symbol(self, copy: Copy, symbol: Symbol) -> Symbol | InFrame:
        passed = copy.parameters.get(symbol.name)
        if isinstance(passed, Place):
            if isinstance(passed.base, Register):
                return InFrame(passed.base, passed.offset + symbol.offset)
            return replace(passed.base, offset=passed.offset + symbol.offset)
        if passed is not None:
            return replace(passed, offset=passed.offset + symbol.offset)
        if (variable := copy.variables.get(symbol.name)) is not None:
            return replace(symbol, name=variable.name, variable=variable)
        return symbol

    # Calls.
    def _call(self, copy: Copy, call: Instruction, callers: tuple[str, ...]) -> bool:
        """Add the code of what is called; False if it cannot be: the call stays as it is."""
        results, called, passed = parts(call)
        functions = list(self._called(call, called))
        given = [*results, *passed]
        if (
            not functions
            or len(self.code) > MOST_INSTRUCTIONS
            or any(f.name in callers and f.name not in self.groups for f in functions)
            or not all(isinstance(o, Symbol) for o in given)
            or any(not takes(f, len(results), len(passed)) for f in functions)
        ):
            return False
        self.copies += 1
        number = self.copies  # the labels between the copies of this call are those of a copy, too
        behind = Label(f"$behind{number}", self._key(number, 0))
        if call.guard is not None:
            around = replace(call.guard, negated=not call.guard.negated)
            self._add(copy, made_of(call, "bra", guard=around), (behind,))
        target = self._operand(copy, called)
        for way, function in enumerate(functions):
            next_ = Label(f"$next{number}_{way}", self._key(number, 1 + way))
            if not isinstance(called, Symbol):
                other = self._predicate()
                address = Integer(self.addresses[function.name])
                compared = made_of(call, "setp", "ne", "u64")
                self._add(copy, compared, (other, target, address))
                self._add(copy, made_of(call, "bra"), (next_,))
                self.code[-1] = replace(self.code[-1], guard=Guard(other))
            place = call.place
            if copy.place is not None:
                place = replace(place, frames=(*place.frames, *copy.place.frames))
            if function.name in self.groups:
                if not self._call_recursive(copy, call, function, callers, place):
                    return False
            else:
                self.copies += 1
                formal = (*function.results, *function.params)
                actual = (self._place_of(copy, o) for o in given)
                parameters = {f.name: a for f, a in zip(formal, actual, strict=True)}
                self.copy(Copy(self.copies, function, parameters, place, copy.top), callers)
            if not isinstance(called, Symbol):
                self._add(copy, made_of(call, "bra"), (behind,))
            self.at[number, 1 + way] = len(self.code)
        if not isinstance(called, Symbol):
            self._add(copy, made_of(call, "trap"), ())  # no function is at that address
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
