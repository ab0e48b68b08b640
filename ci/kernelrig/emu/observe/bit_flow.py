"""Which bits of a result follow from bits that must not be used.

Compilers put a value beside one that nobody needs into a wider register, and take it out again. So
the bits of a register are told apart where an instruction does so: where it copies them, combines
them one by one, carries only upwards, or has several elements in a register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.numerics.arrays import I64, LANES, U64, UNSIGNED, Array, lane_bits, lanes_of_bits
from kernelrig.emu.observe.value_origin import WHOLE, Held, Parts, as_part, first_of
from kernelrig.ptx import Instruction


@dataclass(frozen=True, slots=True)
class Flow:
    """One instruction. `values` are (number of the operand, register) of what is handed on, `used`
    registers that decide something that is seen, `outs` those that are written, -1 for `_`.

    `live` are the registers that are read from here on, where a segment starts.
    """

    kind: str
    step: Step | None
    instruction: Instruction
    guard: int
    pure: bool
    values: tuple[tuple[int, int], ...]
    used: tuple[int, ...]
    outs: tuple[int, ...]
    live: frozenset[int] | None


_COPIES = {"mov": 8, "not": 1, "brev": 1, "prmt": 2, "shl": 1, "shr": 1, "shf": 2, "bfe": 1,
           "bfi": 2, "cvt": 1}  # fmt: skip
"""How many of the operands are copied: each bit of the result is a bit of one of them."""
COPIES = frozenset({*_COPIES, "selp"})
_COMBINES = {"and": 2, "or": 2, "xor": 2, "lop3": 3, "selp": 3}
"""Each bit of the result follows from one bit of each operand."""
_CARRIES = frozenset({"add", "sub", "mul", "mad", "neg"})
_ELEMENTS = {"f16x2": 16, "bf16x2": 16, "u16x2": 16, "s16x2": 16, "f32x2": 32}
_MANY_ELEMENTS = frozenset({"setp", "set", "cvt", "vote"})


def part_read(part: Parts, dtype: np.dtype[Any]) -> Array:
    """Return the bits that an operand of some type takes of a register."""
    return part.astype(UNSIGNED[dtype.itemsize]) if dtype.kind != "b" else part


def results_by_bits(
    flow: Flow, row: int, operands: Sequence[Any], lanes: int, held: Mapping[int, Held]
) -> list[Held] | None:
    """Return what the results of an instruction hold; None where all of each follows from all."""
    i, step = flow.instruction, flow.step
    assert step is not None
    reads = [dtype for _, dtype in step.reads]
    here = {
        number: held[register]._replace(lanes=some)
        for number, register in flow.values
        if register in held and (some := _reading(held[register], lanes, reads[number]))
    }
    if not here:
        return []
    copies, combines = _COPIES.get(i.opcode, 0), _COMBINES.get(i.opcode, 0)
    if i.opcode == "cvt" and not _of_integers(i, reads, [d for _, d in step.writes]):
        copies = 0
    if i.opcode == "lop3" and i.flags & {"and", "or"}:
        combines = 0
    origin = first_of(value.origin for value in here.values())
    if max(here) < (copies or combines):
        every = _tried(flow, row, operands, here, both=bool(combines))
        return [Held(bits & lanes, origin, part) for bits, part in every]
    bits = 0
    for value in here.values():
        bits |= value.lanes
    element = next((n for word, n in _ELEMENTS.items() if word in i.flags), 0)
    if element and i.opcode not in _MANY_ELEMENTS:
        read, part, mask = _read(here, reads).view(U64), np.zeros(LANES, U64), (1 << element) - 1
        for at in range(0, 64, element):
            part |= np.where(read >> at & mask, U64.type(mask << at), U64.type(0))
        return [Held(bits, origin, part.view(I64))] * len(flow.outs)
    if _only_upwards(i, reads):
        read = _read(here, reads)
        lowest = read & -read
        return [Held(bits, origin, -lowest)] * len(flow.outs)
    return None


def _reading(value: Held, lanes: int, dtype: np.dtype[Any]) -> int:
    """Return the lanes in which an operand takes something of such a value."""
    some = value.lanes & lanes
    if not some or value.part is WHOLE:
        return some
    return some & lane_bits(part_read(value.part, dtype) != 0)


def _read(here: Mapping[int, Held], reads: Sequence[np.dtype[Any]]) -> Parts:
    """Return the bits that any of some operands takes of such values."""
    every = np.zeros(LANES, I64)
    for number, value in here.items():
        every |= part_read(value.bits, reads[number]).astype(I64)
    return every


def _of_integers(
    i: Instruction, reads: Sequence[np.dtype[Any]], writes: Sequence[np.dtype[Any]]
) -> bool:
    return "sat" not in i.flags and all(dtype.kind in "iu" for dtype in (*reads, *writes))


def _only_upwards(i: Instruction, reads: Sequence[np.dtype[Any]]) -> bool:
    """Say whether bits of sums follow from those of operands that are not above them."""
    if i.opcode not in _CARRIES or i.flags & {"sat", "cc", "hi", "wide"}:
        return False
    return all(dtype.kind in "iu" for dtype in reads)


def _tried(
    flow: Flow, row: int, operands: Sequence[Any], here: Mapping[int, Held], *, both: bool
) -> list[tuple[int, Parts]]:
    """Run the instruction with such bits clear and set: those that differ follow from them.

    `both`: bits of several operands meet in one, so that all combinations count.
    """
    step = flow.step
    assert step is not None
    of_row = [_row_of(operand, row) for operand in operands]
    masks = {number: _mask(value, of_row[number]) for number, value in here.items()}
    choices: list[Sequence[bool]] = [(False, True)] * len(here) if both else [(False, True)]
    first: list[Array] = []
    differ: list[Array] = []
    for tries in product(*choices):
        tried = list(of_row)
        for number, value in zip(masks, tries if both else tries * len(masks), strict=True):
            tried[number] = _with(of_row[number], masks[number], value)
        made = step.run(*tried)
        bits = [_bits(part) for part in (made if isinstance(made, tuple) else (made,))]
        if not first:
            first, differ = bits, [np.zeros_like(part) for part in bits]
        differ = [d | (part ^ known) for d, part, known in zip(differ, bits, first, strict=True)]
    found = []
    for (_, dtype), part in zip(step.writes, differ, strict=True):
        flat = np.broadcast_to(part, (1, LANES))[0]
        found.append((lane_bits(flat != 0), WHOLE if dtype.kind == "b" else as_part(flat, dtype)))
    return found


def _row_of(operand: Any, row: int) -> Array:  # noqa: ANN401 - an array, or a constant
    values: Array = np.asarray(operand)
    one = values[row : row + 1] if len(values) > 1 else values
    return np.broadcast_to(one, (1, LANES)).copy()


def _mask(value: Held, like: Array) -> Array:
    if like.dtype.kind == "b":
        return lanes_of_bits(value.lanes)[None]
    return part_read(value.bits, like.dtype)[None]


def _with(values: Array, mask: Array, ones: bool) -> Array:
    bits = _bits(values)
    made: Array = (bits | mask if ones else bits & ~mask).view(values.dtype)
    return made


def _bits(values: Array) -> Array:
    if values.dtype.kind == "b":
        return values
    return np.ascontiguousarray(values).view(UNSIGNED[values.dtype.itemsize])
