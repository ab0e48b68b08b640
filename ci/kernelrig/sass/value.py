"""What a register holds, where that follows from the thread's index alone.

It covers the instructions between `threadIdx.x / 32` and the branch on it. None means unknown; so
is a register that an instruction not covered here may have written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelrig.sass.code import Instruction
from kernelrig.sass.flow import Flow
from kernelrig.sass.writes import REGISTER, may_write

_MASK = 0xFFFFFFFF
_WARP = 32
_COMPARE = re.compile(r"U?ISETP\.(EQ|NE|LT|LE|GT|GE)(\.U32)?\.(AND|OR|XOR)")
_PREDICATE = re.compile(r"!?U?P[0-9T]")
Point = tuple[int, int]
"""A block, and an instruction's place in it: the value before that instruction is meant."""

_UNWRITTEN: Point = (-1, -1)
"""In place of where a register is written: some way has not written it."""


@dataclass(slots=True)
class Values:
    """The values of one function's registers, thread by thread; CTAs have one dimension.

    Results are cached; a value that depends on itself, in a loop, is unknown.
    """

    flow: Flow
    kept: dict[tuple[str, Point, int], int | None] = field(default_factory=dict)
    _writers: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)
    _reaching: dict[tuple[int, str], frozenset[Point] | None] = field(default_factory=dict)

    def takes(self, block: int, thread: int) -> bool | None:
        """Return whether `thread` takes the branch at the end of `block`, None if unknown."""
        code = self.flow.blocks[block].instructions
        last, at = code[-1], (block, len(code) - 1)
        if last.matches("BRA.DIV"):
            return False  # taken by a warp that has diverged: it does the same, thread by thread
        conditions = [last.guard or "PT", *last.operands[:-1]]
        known = [self.predicate(c, at, thread) for c in conditions]
        return None if None in known else all(known)

    def predicate(self, operand: str, at: Point, thread: int) -> bool | None:
        name = operand.lstrip("!")
        held = 1 if name in ("PT", "UPT") else self._last(name, at, thread)
        return None if held is None else bool(held) != operand.startswith("!")

    def number(self, operand: str, at: Point, thread: int) -> int | None:
        """Return what `operand` is to an instruction at `at`, as 32 bits without a sign."""
        if operand in ("RZ", "URZ"):
            return 0
        if REGISTER.fullmatch(operand):
            return self._last(operand.removesuffix(".reuse"), at, thread)
        if re.fullmatch(r"-?0x[0-9a-f]+", operand):
            return int(operand, 16) & _MASK
        return None

    def _last(self, name: str, at: Point, thread: int) -> int | None:
        if (key := (name, at, thread)) not in self.kept:
            self.kept[key] = None
            self.kept[key] = self._search(name, at, thread)
        return self.kept[key]

    def _search(self, name: str, at: Point, thread: int) -> int | None:
        """Return what was last written to `name` on every way to `at`, if it is one value."""
        if (points := self._unguarded(name, at)) is not None:
            values = {self._written(name, point, thread) for point in points}
            return values.pop() if len(values) == 1 else None
        found: set[int | None] = set()
        waiting, seen = [at], set[int]()
        while waiting:
            block, end = waiting.pop()
            code = self.flow.blocks[block].instructions
            for n in self._writers_of(name, block):
                if n >= end:
                    continue
                runs = self.predicate(code[n].guard or "PT", (block, n), thread)
                if runs is not False:
                    known = runs and _RESULTS.get(code[n].root)
                    found.add(known(self, code[n], name, (block, n), thread) if known else None)
                    break
            else:
                before = [p for p in self.flow.graph.predecessors(block) if p not in seen]
                seen.update(before)
                waiting += [(p, len(self.flow.blocks[p].instructions)) for p in before]
                if block == self.flow.entry:
                    found.add(None)
        return found.pop() if len(found) == 1 else None

    def _written(self, name: str, at: Point, thread: int) -> int | None:
        if at == _UNWRITTEN:
            return None
        i = self.flow.blocks[at[0]].instructions[at[1]]
        known = _RESULTS.get(i.root)
        return known(self, i, name, at, thread) if known else None

    def _unguarded(self, name: str, at: Point) -> frozenset[Point] | None:
        """Return where `name` is written last on each way to `at`; None if under a predicate.

        It is the same for every thread, and so is found once.
        """
        block, end = at
        before = [n for n in self._writers_of(name, block) if n < end]
        if before:
            writer = self.flow.blocks[block].instructions[before[0]]
            return None if writer.conditional else frozenset([(block, before[0])])
        if (key := (block, name)) not in self._reaching:
            self._reaching[key] = self._from_before(name, block)
        return self._reaching[key]

    def _from_before(self, name: str, block: int) -> frozenset[Point] | None:
        found = {_UNWRITTEN} if block == self.flow.entry else set[Point]()
        waiting, seen = list(self.flow.graph.predecessors(block)), set[int]()
        while waiting:
            above = waiting.pop()
            if above in seen:
                continue
            seen.add(above)
            if writers := self._writers_of(name, above):
                if self.flow.blocks[above].instructions[writers[0]].conditional:
                    return None
                found.add((above, writers[0]))
                continue
            if above == self.flow.entry:
                found.add(_UNWRITTEN)
            waiting += self.flow.graph.predecessors(above)
        return frozenset(found)

    def _writers_of(self, name: str, block: int) -> tuple[int, ...]:
        """Return where in `block` `name` may be written, last first: the same for every thread."""
        if (key := (block, name)) not in self._writers:
            code = self.flow.blocks[block].instructions
            self._writers[key] = tuple(
                n for n in range(len(code) - 1, -1, -1) if may_write(code[n], name)
            )
        return self._writers[key]


_Result = Callable[[Values, Instruction, str, Point, int], int | None]


def _of(count: int, compute: Callable[..., int], first: int = 1) -> _Result:
    """Return how a result follows from `count` numbers, which begin at operand `first`."""

    def result(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
        if i.operands[0] != name or len(i.operands) < first + count:
            return None
        known = [values.number(o, at, thread) for o in i.operands[first : first + count]]
        numbers = [k for k in known if k is not None]
        return compute(*numbers) & _MASK if len(numbers) == count else None

    return result


def _move(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    return _of(1, lambda a: a)(values, i, name, at, thread) if len(i.operands) == 2 else None


def _imad(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    if ".HI" in i.opcode or ".WIDE" in i.opcode or ".X" in i.opcode:
        return None
    return _of(3, lambda a, b, c: a * b + c)(values, i, name, at, thread)


def _shift(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    if i.opcode in ("SHF.R.U32.HI", "USHF.R.U32.HI") and i.operands[1] in ("RZ", "URZ"):
        return _of(2, lambda by, a: a >> by, 2)(values, i, name, at, thread)
    if i.opcode in ("SHF.L.U32", "USHF.L.U32") and i.operands[3] in ("RZ", "URZ"):
        return _of(2, lambda a, by: a << by)(values, i, name, at, thread)
    return None


def _logic(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    """`LOP3.LUT R9, R4, R9, RZ, 0x3c, !PT`; a predicate in front says that the result is not 0."""
    tested = not REGISTER.fullmatch(i.operands[0]) and i.operands[0] not in ("RZ", "URZ")
    if name not in i.operands[: 1 + tested] or i.operands[-1] not in ("!PT", "!UPT"):
        return None
    numbers = [values.number(o, at, thread) for o in i.operands[1 + tested : -1]]
    known = [n for n in numbers if n is not None]
    if len(known) != 4 or len(numbers) != 4:
        return None
    a, b, c, table = known
    rows = (
        (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        for row in range(8)
        if table >> row & 1
    )
    result = sum(row & _MASK for row in rows)  # no bit is in two rows
    return int(result != 0) if tested and name == i.operands[0] else result


def _add(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    if i.opcode in ("IADD3", "UIADD3"):
        carries = [o for o in i.operands[1:] if _PREDICATE.fullmatch(o)]  # since sm_100 written out
        if set(carries) <= {"PT", "UPT"}:
            add = _of(3, lambda a, b, c: a + b + c, 1 + len(carries))
            return add(values, i, name, at, thread)
    return _of(2, lambda a, b: a + b)(values, i, name, at, thread) if "VIADD" in i.root else None


def _logic_of_predicates(
    values: Values, i: Instruction, name: str, at: Point, thread: int
) -> int | None:
    """`PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0`: two tables of three predicates, two results."""
    if i.opcode not in ("PLOP3.LUT", "UPLOP3.LUT") or name not in i.operands[:2]:
        return None
    table = values.number(i.operands[5 + i.operands.index(name)], at, thread)
    known = [values.predicate(o, at, thread) for o in i.operands[2:5]]
    if table is None or None in known:
        return None
    a, b, c = map(bool, known)
    return table >> (4 * a + 2 * b + c) & 1


def _special(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    if i.operands[0] != name:
        return None
    return {"SR_TID.X": thread, "SR_LANEID": thread % _WARP}.get(i.operands[1])


def _shuffle(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    """`SHFL.IDX PT, R0, R0, RZ, 0x1f`: what another lane of the warp has."""
    if i.opcode != "SHFL.IDX" or i.operands[1] != name or i.operands[4] != "0x1f":
        return None
    lane = values.number(i.operands[3], at, thread)
    if lane is None:
        return None
    return values.number(i.operands[2], at, thread - thread % _WARP + lane % _WARP)


def _compare(values: Values, i: Instruction, name: str, at: Point, thread: int) -> int | None:
    found = _COMPARE.fullmatch(i.opcode)
    if not found or i.operands[0] != name:
        return None
    a, b = (values.number(o, at, thread) for o in i.operands[2:4])
    also = values.predicate(i.operands[4], at, thread)
    if a is None or b is None or also is None:
        return None
    if not found[2]:
        a, b = ((n ^ 1 << 31) - (1 << 31) for n in (a, b))
    holding = {"EQ": a == b, "NE": a != b, "LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b}
    holds = holding[found[1]]
    return int({"AND": holds and also, "OR": holds or also, "XOR": holds != also}[found[3]])


_RESULTS: dict[str, _Result] = {
    "MOV": _move,
    "UMOV": _move,
    "R2UR": _move,
    "IMAD": _imad,
    "SHF": _shift,
    "USHF": _shift,
    "LOP3": _logic,
    "ULOP3": _logic,
    "PLOP3": _logic_of_predicates,
    "UPLOP3": _logic_of_predicates,
    "IADD3": _add,
    "UIADD3": _add,
    "VIADD": _add,
    "UVIADD": _add,
    "S2R": _special,
    "S2UR": _special,
    "SHFL": _shuffle,
    "ISETP": _compare,
    "UISETP": _compare,
}
