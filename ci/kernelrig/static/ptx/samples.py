"""Numbers as functions of a root: what is computed from a thread index, one result a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelrig.ptx import Function, Instruction, Integer
from kernelrig.static.ptx.arithmetic import compared, computed
from kernelrig.static.ptx.condition import Among, Condition, Root, negated

LANES = 32
_SMALL = range(9)
_EXTREMES = (2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Samples:
    """A number for each value of `root`; a constant has no root, and one number."""

    root: Root | None
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One constant where the condition holds, the other where not: a bool in a register."""

    condition: Condition
    yes: int
    no: int


Value = Samples | Choice


def constant(number: int) -> Samples:
    return Samples(None, (number,))


def identity(root: Root) -> Samples:
    return Samples(root, root.domain)


def compare(setp: Instruction, a: Value, b: Value) -> Condition | None:
    """Return what the comparison says of its root; None if it is of two, or no integers'."""
    match a, b:
        case Choice(condition, yes, no), Samples(None, _):
            either = (compare(setp, constant(yes), b), compare(setp, constant(no), b))
            if either[0] == either[1]:
                return either[0]
            return condition if either == (True, False) else negated(condition)
        case Samples(), Samples():
            root, rows = _rows([a, b])
            answers = [compared(setp, *row) for row in rows]
            if not answers or None in answers:
                return None
            if root is None:
                return bool(answers[0])
            return Among(root, sum(1 << i for i, yes in enumerate(answers) if yes))
    return None


def compute(instruction: Instruction, operands: Sequence[Value | None]) -> Samples | None:
    """Return the results of integer arithmetic; None where an operand is not known in numbers."""
    samples = [o for o in operands if isinstance(o, Samples)]
    if not samples or len(samples) < len(operands):
        return None
    root, rows = _rows(samples)
    found = [computed(instruction, list(row)) for row in rows]
    known = tuple(n for n in found if n is not None)
    return Samples(root, known) if known and len(known) == len(found) else None


def _rows(samples: list[Samples]) -> tuple[Root | None, list[tuple[int, ...]]]:
    """Return the operands for each value of their root; no rows if they have several."""
    roots = {s.root for s in samples if s.root}
    if len(roots) > 1:
        return None, []
    root = next(iter(roots), None)
    count = len(root.domain) if root else 1
    columns = [s.numbers if s.root else s.numbers * count for s in samples]
    return root, list(zip(*columns, strict=True))


def telling(function: Function) -> tuple[int, ...]:
    """Return numbers that tell apart whatever the function compares an unknown one with."""
    asked = {
        o.value
        for i in function.instructions
        if i.opcode == "setp"
        for o in i.operands
        if isinstance(o, Integer)
    }
    near = {n + d & (2**64 - 1) for n in asked for d in (-1, 0, 1)}
    return tuple(sorted({*near, *_SMALL, *_EXTREMES}))


def threads_of(function: Function) -> int | None:
    """Return the most threads of a CTA that lies in one row; None if it may have several rows."""
    for name in ("reqntid", "maxntid"):
        match function.directive(name):
            case (int(x), *rest) if all(n == 1 for n in rest) and 0 < x <= 1024:
                return x
    return None


def given_constant(write: Instruction) -> int | None:
    """Return the constant that a `mov` gives its register."""
    match write.opcode, write.operands, write.guard:
        case "mov", (_, Integer(value)), None:
            # nvcc gives predicates -1 for true.
            return int(value != 0) if write.has("pred") else value & (2**64 - 1)
    return None
