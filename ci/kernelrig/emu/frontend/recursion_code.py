"""The code of recursive calls: what a call saves, where its frame begins, and how it returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kernelrig.emu.frontend.call_copies import Copy, Recursion, made_of, parts, takes
from kernelrig.emu.frontend.recursive_calls import (
    Frame,
    Place,
    call_variables,
    frame_of,
    recursive_groups,
)
from kernelrig.emu.machine.recursion_stack import STACK, STACK_BYTES, STACK_OVERFLOW
from kernelrig.model import frame as source_place
from kernelrig.ptx import (
    Address,
    Function,
    Guard,
    Instruction,
    Integer,
    Label,
    Module,
    Operand,
    Prototype,
    Register,
    Symbol,
    Targets,
    Variable,
)
from kernelrig.ptx.types import BYTES


class RecursionCode:
    """The part of the replacement of calls that adds recursive ones.

    `code` grows; `at` says where a label of (copy, index) is in it.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.code: list[Instruction] = []
        self.at: dict[tuple[int, int], int] = {}
        self.registers: list[Register] = []
        self.tables: list[Targets | Prototype] = []
        self.copies = 0
        self.recursions = 0
        self.groups = recursive_groups(
            {f.name: self._callees(f) for f in module.functions if f.has_body and not f.is_entry}
        )
        self.stack = Variable(
            STACK, "local", "b8", 0, 16, dimensions=(STACK_BYTES,), element_bytes=1
        )
        self.frame_start: Register | None = None  # what a call tells the function
        self.site: Register | None = None

    # What the rest of the replacement does.
    def copy(self, copy: Copy, callers: tuple[str, ...]) -> None:
        raise NotImplementedError

    def _add(self, copy: Copy, instruction: Instruction, operands: tuple[Operand, ...]) -> None:
        raise NotImplementedError

    def _called(self, call: Instruction, called: Operand) -> Iterable[Function]:
        raise NotImplementedError

    def _symbol(self, copy: Copy, symbol: Symbol) -> object:
        raise NotImplementedError

    def _key(self, copy: int, index: int) -> int:
        """Return a number for a label's target that is not known yet."""
        return -1 - ((copy << 32) | index)

    def _callees(self, function: Function) -> list[str]:
        calls = [i for i in function.instructions if i.opcode == "call"]
        return [f.name for i in calls for f in self._called(i, parts(i)[1])]

    def _place_of(self, copy: Copy, operand: Operand) -> Symbol | Place:
        assert isinstance(operand, Symbol)
        passed = copy.parameters.get(operand.name)
        if isinstance(passed, Place):
            return replace(passed, offset=passed.offset + operand.offset)
        symbol = self._symbol(copy, operand)
        assert isinstance(symbol, Symbol)
        return symbol

    def _top(self, copy: Copy) -> Place:
        return copy.top or Place(Symbol(STACK, self.stack), 0)

    def _place_arguments(self, copy: Copy) -> None:
        """Say that what is passed to recursive functions lies in the frame of the call."""
        for call in (i for i in copy.function.instructions if i.opcode == "call"):
            given, called, passed = parts(call)
            recursive = [f for f in self._called(call, called) if f.name in self.groups]
            symbols = (*given, *passed)
            if not recursive or not takes(recursive[0], len(given), len(passed)):
                continue
            top = self._top(copy)
            for offset, one in zip(call_variables(recursive[0]).values(), symbols, strict=True):
                if isinstance(one, Symbol):
                    copy.parameters[one.name] = Place(top.base, top.offset + offset)

    def _register(self, type_: str) -> Register:
        made = Register(f"%frame{len(self.registers)}", type_, len(self.registers))
        self.registers.append(made)
        return made

    def _label(self, name: str) -> Label:
        self.copies += 1
        return Label(f"${name}{self.copies}", self._key(self.copies, 0))

    def _land(self, label: Label) -> None:
        self.at[(-1 - label.target) >> 32, 0] = len(self.code)

    def _call_recursive(
        self,
        copy: Copy,
        call: Instruction,
        function: Function,
        callers: tuple[str, ...],
        place: source_place.Place,
    ) -> bool:
        self.frame_start = self.frame_start or self._register("b64")
        self.site = self.site or self._register("b32")
        within = copy.recursion
        if within is None or function.name not in within.group:
            return self._call_from_outside(copy, call, function, callers, place)
        assert copy.frame is not None
        assert copy.start is not None
        called = self._copy_for(within, function, place)
        if called is None or called.entry is None:
            return False
        back = self._label("back")
        self._save(copy, call, copy.frame)
        self._enter(copy, call, within, back)
        self._add(copy, made_of(call, "bra", "uni"), (called.entry,))
        self._land(back)
        before = Integer(-copy.frame.size)
        self._add(copy, made_of(call, "add", "s64"), (copy.start, self.frame_start, before))
        self._restore(copy, call, copy.frame)
        return True

    def _call_from_outside(
        self,
        copy: Copy,
        call: Instruction,
        function: Function,
        callers: tuple[str, ...],
        place: source_place.Place,
    ) -> bool:
        self.recursions += 1
        recursion = Recursion(self.groups[function.name])
        if self._copy_for(recursion, function, place) is None:
            return False
        behind = self._label("outside")
        self._enter(copy, call, recursion, behind)
        assert self.frame_start is not None
        assert self.site is not None
        while recursion.left:
            one = recursion.left.pop(0)
            assert one.entry is not None
            assert one.start is not None
            self._land(one.entry)
            self._add(copy, made_of(call, "mov", "b64"), (one.start, self.frame_start))
            store = made_of(call, "st", "local", "u32")
            self._check_stack(copy, call, one)
            self._add(copy, store, (Address(one.start), self.site))
            self.copy(one, callers)
        table = Targets(f"$returns{self.recursions}", tuple(recursion.sites))
        self.tables.append(table)
        for at in recursion.returns:
            branch = self.code[at]
            self.code[at] = replace(branch, operands=(branch.operands[0], table))
        self._land(behind)
        return True

    def _check_stack(self, copy: Copy, call: Instruction, called: Copy) -> None:
        """End a recursion whose frame does not fit."""
        assert called.start is not None
        assert called.frame is not None
        last, full = self._register("b64"), self._register("pred")
        end = Symbol(STACK, self.stack, STACK_BYTES - called.frame.size)
        self._add(copy, made_of(call, "mov", "b64"), (last, end))
        self._add(copy, made_of(call, "setp", "gt", "s64"), (full, called.start, last))
        self._add(copy, made_of(call, "call"), (Symbol(STACK_OVERFLOW),))
        self.code[-1] = replace(self.code[-1], guard=Guard(full))

    def _copy_for(
        self, recursion: Recursion, function: Function, place: source_place.Place
    ) -> Copy | None:
        """Return the copy of a function in a recursion; one that is new is to be added."""
        if function.name not in recursion.copies:
            calls = [i.index for i in function.instructions if i.opcode == "call" and any(
                f.name in recursion.group for f in self._called(i, parts(i)[1]))]  # fmt: skip
            frame = frame_of(function, calls)
            if frame is None:
                return None
            start, entry = self._register("b64"), self._label("entry")
            self.copies += 1
            places: dict[str, Symbol | Place] = {
                name: Place(start, offset) for name, offset in frame.variables.items()
            }
            made = Copy(
                self.copies, function, places, place, Place(start, frame.size), recursion, frame,
                start, entry,
            )  # fmt: skip
            recursion.copies[function.name] = made
            recursion.left.append(made)
        return recursion.copies[function.name]

    def _enter(self, copy: Copy, call: Instruction, into: Recursion, back: Label) -> None:
        """Say where the frame of a call begins, and which site it returns to."""
        assert self.frame_start is not None
        assert self.site is not None
        top = self._top(copy)
        if isinstance(top.base, Register):
            made = made_of(call, "add", "s64")
            self._add(copy, made, (self.frame_start, top.base, Integer(top.offset)))
        else:
            self._add(copy, made_of(call, "mov", "b64"), (self.frame_start, top.base))
        number = Integer(len(into.sites))
        self._add(copy, made_of(call, "mov", "b32"), (self.site, number))
        into.sites.append(back)

    def _return(self, copy: Copy, ret: Instruction) -> None:
        assert copy.start is not None
        assert copy.recursion is not None
        assert self.frame_start is not None
        assert self.site is not None
        on = self._label("on")
        if ret.guard is not None:
            around = replace(ret.guard, negated=not ret.guard.negated)
            self._add(copy, made_of(ret, "bra", guard=around), (on,))
        self._add(copy, made_of(ret, "mov", "b64"), (self.frame_start, copy.start))
        load = made_of(ret, "ld", "local", "u32")
        self._add(copy, load, (self.site, Address(copy.start)))
        copy.recursion.returns.append(len(self.code))
        self._add(copy, made_of(ret, "brx", "idx"), (self.site,))
        self._land(on)

    def _clear(self, copy: Copy) -> None:
        """Give what is saved a value: on some ways a call saves what nothing has written yet."""
        if copy.frame is None:
            return
        first = copy.function.instructions[0]
        for index in copy.frame.saved:
            register, zero = copy.registers[index], Integer(0)
            if register.type == "pred":
                self._add(copy, made_of(first, "setp", "ne", "u32"), (register, zero, zero))
            else:
                width = f"b{8 * BYTES[register.type]}"
                self._add(copy, made_of(first, "mov", width), (register, zero))

    def _save(self, copy: Copy, call: Instruction, frame: Frame) -> None:
        assert copy.start is not None
        for index, offset in frame.saved.items():
            register, at = copy.registers[index], Address(copy.start, offset)
            if register.type == "pred":
                held = self._register("b32")
                choose = made_of(call, "selp", "b32")
                self._add(copy, choose, (held, Integer(1), Integer(0), register))
                register = held
            width = f"b{8 * BYTES[register.type]}"
            self._add(copy, made_of(call, "st", "local", width), (at, register))

    def _restore(self, copy: Copy, call: Instruction, frame: Frame) -> None:
        assert copy.start is not None
        for index, offset in frame.saved.items():
            register, at = copy.registers[index], Address(copy.start, offset)
            held = self._register("b32") if register.type == "pred" else register
            width = f"b{8 * BYTES[held.type]}"
            self._add(copy, made_of(call, "ld", "local", width), (held, at))
            if held is not register:
                test = made_of(call, "setp", "ne", "u32")
                self._add(copy, test, (register, held, Integer(0)))
