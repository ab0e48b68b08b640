"""What registers hold, as far as a branch may rest on it.

A register that is written once, outside every loop, holds one value; so does what is computed from
such values alone, wherever that is done again. All else is unknown, but for a flag: a register that
is given constants, and asked where it still has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

from kernelrig.ptx import (
    Flow,
    Guard,
    Instruction,
    Integer,
    Negated,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
    results,
)
from kernelrig.static.ptx.arithmetic import PURE, comparison, type_of
from kernelrig.static.ptx.condition import Among, Both, Condition, Either, Root, negated, roots_of
from kernelrig.static.ptx.samples import (
    LANES,
    Choice,
    Samples,
    Value,
    compare,
    compute,
    constant,
    given_constant,
    identity,
    telling,
    threads_of,
)

_MOST_THREADS = 1024
_BOUNDED = {"laneid": range(LANES), "cluster_ctarank": range(16)}
_MOVING = ("clock", "pm", "globaltimer", "smid", "warpid")
"""Special registers that may say something else the next time."""
_INVERSE = {"ne": "eq", "ge": "lt", "gt": "le", "hs": "lo", "hi": "ls"}
_ALL_LANES = (1 << LANES) - 1
_BOOLEAN = (0, 1)
_TRUE = 0b10


class Values:
    """The values of a function's registers, found in one pass over its text."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._writes: dict[Register, list[Instruction]] = defaultdict(list)
        for instruction in flow.function.instructions:
            for register in results(instruction):
                self._writes[register].append(instruction)
        self._roots: dict[Hashable, Root] = {}
        self._numbers: dict[Register, Value] = {}
        self._conditions: dict[Register, Condition] = {}
        self._nearby: dict[Register, Value] = {}
        self._in_block: dict[Register, tuple[int, Condition]] = {}
        self._flags: dict[Register, Root | None] = {}
        self._at = 0
        self._telling = telling(flow.function)
        self.threads = threads_of(flow.function)
        self.tid = self._root("%tid.x", "%tid.x", range(self.threads or _MOST_THREADS))
        for block in flow.blocks:
            self._nearby.clear()
            for instruction in flow.instructions(block):
                self._at = instruction.index
                for register in results(instruction):
                    if len(self._writes[register]) == 1 and not instruction.guard:
                        self._learn(instruction, register)

    @property
    def elected(self) -> tuple[Root, ...]:
        """The roots that stand for "this lane is the elected one"."""
        return tuple(r for r in self._roots.values() if r.name == "elect.sync")

    @property
    def numbered(self) -> tuple[Root, ...]:
        """The roots that tell lanes apart by their number."""
        return tuple(r for r in self._roots.values() if r.name in ("%tid.x", "%laneid"))

    def holds(self, guard: Guard, at: Instruction) -> Condition | None:
        """Return what the guard of that instruction asks; None if nothing is known of it."""
        found = self._conditions.get(guard.register)
        if found is None:
            block, condition = self._in_block.get(guard.register, (-1, True))
            if block == self._flow.block_of[at.index]:
                found = condition
            elif flag := self.flag(guard.register):
                found = Among(flag, _TRUE)
        if found is None:
            return None
        return negated(found) if guard.negated else found

    def flag(self, register: Register) -> Root | None:
        """Return the root of a register that has no one value, but is given constants."""
        if register not in self._flags:
            writes = self._writes[register]
            given = {n for w in writes if (n := given_constant(w)) is not None}
            domain = _BOOLEAN if register.type == "pred" else sorted(given.union(self._telling))
            is_flag = len(writes) > 1 and given
            root = self._root(register, str(register), domain) if is_flag else None
            self._flags[register] = root
        return self._flags[register]

    def _learn(self, instruction: Instruction, register: Register) -> None:
        if register.type != "pred":
            value = self._value(instruction)
            if value is None and (root := self._opaque(instruction, register, self._telling)):
                value = identity(root)
            if value is not None:
                held = self._nearby if self._of_flags(value) else self._numbers
                held[register] = value
            return
        condition = self._condition(instruction, register)
        if condition is None and (root := self._opaque(instruction, register, _BOOLEAN)):
            condition = Among(root, _TRUE)
            condition = negated(condition) if _base(instruction)[1] else condition
        if condition is not None and self._of_flags(condition):
            self._in_block[register] = (self._flow.block_of[instruction.index], condition)
        elif condition is not None:
            self._conditions[register] = condition

    def _condition(self, instruction: Instruction, register: Register) -> Condition | None:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode == "elect":
            # The same lane for the same mask, every time.
            mask = instruction.operand(1)
            key = mask.value & _ALL_LANES if isinstance(mask, Integer) else register
            return Among(self._root(("elect", key), "elect.sync", _BOOLEAN), _TRUE)
        if opcode == "setp" and len(operands) == 3 and isinstance(operands[0], Register):
            a, b = (self._number(o) for o in operands[1:])
            return None if a is None or b is None else compare(instruction, a, b)
        if "pred" not in instruction.flags:
            return None
        match opcode, [self._asked(o) for o in operands[1:]]:
            case "mov", [found]:
                return found
            case "not", [found] if found is not None:
                return negated(found)
            case "and", [left, right] if left is not None and right is not None:
                return Both(left, right)
            case "or", [left, right] if left is not None and right is not None:
                return Either(left, right)
        return None

    def _of_flags(self, known: Value | Condition) -> bool:
        """Say whether it rests on a flag, and so holds in its block alone."""
        match known:
            case Samples(root, _):
                roots = {root} - {None}
            case Choice(condition, _, _):
                roots = set(roots_of(condition))
            case _:
                roots = set(roots_of(known))
        return any(root in self._flags.values() for root in roots)

    def _asked(self, operand: Operand) -> Condition | None:
        match operand:
            case Register():
                return self._conditions.get(operand)
            case Integer(value):
                return bool(value)
            case Negated("!", Register() as register):
                found = self._conditions.get(register)
                return None if found is None else negated(found)
        return None

    def _number(self, operand: Operand) -> Value | None:
        match operand:
            case Register():
                return (
                    self._numbers.get(operand) or self._nearby.get(operand) or self._kept(operand)
                )
            case Integer(value):
                return constant(value & (2**64 - 1))
            case Special():
                return self._special(operand)
        return None

    def _kept(self, register: Register) -> Samples | None:
        """Return what a flag holds, if it stays as it is to the end of this block."""
        root = self.flag(register) if register.type != "pred" else None
        end = self._flow.blocks[self._flow.block_of[self._at]].end
        if root is None or any(self._at < w.index < end for w in self._writes[register]):
            return None
        return identity(root)

    def _special(self, special: Special) -> Samples | None:
        if str(special) == "%tid.x":
            return identity(self.tid)
        if special.name == "laneid" and self.threads:
            return Samples(self.tid, tuple(t % LANES for t in self.tid.domain))
        if special.name.startswith(_MOVING):
            return None
        domain = _BOUNDED.get(special.name, self._telling)
        return identity(self._root(str(special), str(special), domain))

    def _value(self, instruction: Instruction) -> Value | None:
        numbers = [self._number(o) for o in instruction.operands[1:]]
        if isinstance(instruction.operands[0], Vector):
            return None
        match instruction.opcode, numbers:
            case "mov", [value]:
                return value
            case "shfl", [Samples() as source, Samples(None, (lane,)), Samples(None, (31,)), _]:
                return self._broadcast(instruction, source, lane)
            case "selp", [yes, no, None]:
                return self._select(yes, no, self._asked(instruction.operands[3]))
        return compute(instruction, numbers)

    @staticmethod
    def _select(yes: Value | None, no: Value | None, on: Condition | None) -> Value | None:
        match yes, no, on:
            case _, _, bool():
                return yes if on else no
            case Samples(None, (a,)), Samples(None, (b,)), Among() | Both() | Either():
                return Choice(on, a, b)
        return None

    def _broadcast(self, shfl: Instruction, source: Samples, lane: int) -> Samples | None:
        """`shfl.sync.idx` of one lane's thread index is a value of the whole warp."""
        if not shfl.has("idx") or source.root not in (None, self.tid):
            return None
        if source.root is None or not self.threads:
            return source if source.root is None else None
        last = self.threads - 1
        firsts = [min(t - t % LANES + lane % LANES, last) for t in source.root.domain]
        return Samples(source.root, tuple(source.numbers[t] for t in firsts))

    def _opaque(
        self, instruction: Instruction, register: Register, domain: Iterable[int]
    ) -> Root | None:
        """Name a value that is not computed here, if it is the same whenever it is computed."""
        if instruction.opcode in PURE and instruction.operands[0] == register:
            operands = [self._same(o) for o in instruction.operands[1:]]
            if None not in operands:
                return self._root((_base(instruction)[0], *operands), str(register), domain)
        if instruction.opcode == "ld" and instruction.has("param"):
            key = (instruction.mnemonic, str(instruction.operand(1)))
            return self._root(key, str(register), domain)
        if self._flow.block_of[instruction.index] in self._flow.looped:
            return None
        return self._root(register, str(register), domain)

    def _same(self, operand: Operand) -> Hashable:
        """Return what an operand holds, in a form that is equal where its value is."""
        match operand:
            case Register(type="pred") | Negated():
                return self._asked(operand)
            case Register():
                return self._numbers.get(operand)
            case Special():
                return self._special(operand)
            case Integer() | Symbol():
                return str(operand)
        return None

    def _root(self, key: Hashable, name: str, domain: Iterable[int]) -> Root:
        if key not in self._roots:
            self._roots[key] = Root(len(self._roots), name, tuple(domain))
        return self._roots[key]


def _base(instruction: Instruction) -> tuple[str, bool]:
    """Return the mnemonic, of a comparison one for it and its opposite, and whether it is that."""
    how = comparison(instruction) if instruction.opcode == "setp" else ""
    opposite = how in _INVERSE and type_of(instruction) is not None
    if not opposite:
        return instruction.mnemonic, False
    return instruction.mnemonic.replace(f".{how}.", f".{_INVERSE[how]}.", 1), True
