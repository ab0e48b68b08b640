"""Single instructions in both engines: NumPy's step, and the core's handler on the same values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from kernelrig.emu.frontend.literals import floating, integer
from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.instruction_table import Native, Step
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.native.library import Applied, library
from kernelrig.emu.numerics.arrays import BOOL, LANES, UNSIGNED
from kernelrig.ptx import Float, Integer, Negated, Register
from numpy.typing import NDArray

from tests.emu.instructions.case import values

Array = NDArray[Any]
CONTINUE, FALLBACK = 0, 1
ELECTED = ("first", "last", "hash")
SLOT = 256  # bytes of an operand in a register file: 32 lanes of 8 bytes
EVERYONE = 0xFFFFFFFF

_KINDS = {
    8: ("i64", "f64", "f32x2", "i64", "f64", "i64"),
    4: ("i32", "f32", "bf16x2", "f16x2", "count", "i32"),
    2: ("i16", "f16", "bf16", "i16", "f16", "bf16"),
}
BLOCKS, NAN_BLOCKS = 6, 2
_EXPONENTS = {8: (0x7FF << 52,), 4: (0x7F800000, 0x7C007C00, 0x7F807F80), 2: (0x7C00, 0x7F80)}
ROWS = (BLOCKS + NAN_BLOCKS) * 32


@cache
def operand_values(dtype: np.dtype[Any], position: int) -> Array:
    """Return (ROWS, 32) values: edges of every kind of that width, then NaNs with payloads."""
    rng = np.random.default_rng(position)
    if dtype == BOOL:
        return rng.random((ROWS, LANES)) < 0.5
    size = dtype.itemsize
    unsigned = UNSIGNED[size]
    if size == 1:
        return rng.integers(0, 256, (ROWS, LANES)).astype(unsigned).view(dtype)
    parts = [values(kind, position).astype(unsigned) for kind in _KINDS[size]]
    for _ in range(NAN_BLOCKS):
        bits = rng.integers(0, 1 << 63, len(parts[0]), np.uint64) * np.uint64(2)
        bits |= np.uint64(1)
        nan = rng.choice(np.array(_EXPONENTS[size], np.uint64), len(bits))
        parts.append(np.where(rng.random(len(bits)) < 0.6, bits | nan, bits).astype(unsigned))
    return np.concatenate(parts).reshape(ROWS, LANES).view(dtype)


@cache
def lane_masks() -> NDArray[np.uint32]:
    """Return which lanes of each row execute: all of most, some, one, none of the others."""
    rng = np.random.default_rng(0)
    masks = np.full(ROWS, EVERYONE, np.uint32)
    some = rng.random(ROWS) < 0.3
    masks[some] = rng.integers(0, 1 << 32, int(some.sum()), np.uint64)
    masks[5::40], masks[11::40] = 0, 1 << 7
    return masks


def member_masks() -> Array:
    """Return member masks of each lane, (ROWS, 32): in most rows they name all that execute."""
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 1 << 32, (ROWS, LANES), np.uint64).astype(np.uint32)
    return np.where(np.arange(ROWS)[:, None] % 5 == 0, drawn, drawn | lane_masks()[:, None])


def as_lanes(masks: Array) -> NDArray[np.bool_]:
    return (masks[:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(np.bool_)


def as_masks(lanes: Array) -> NDArray[np.uint32]:
    packed = np.packbits(np.ascontiguousarray(lanes), axis=-1, bitorder="little")
    return packed.view(np.uint32)[:, 0]


@dataclass
class Operands:
    """What a step reads: an array each, (ROWS, 32), or (1, 1) of a constant."""

    arrays: list[Array]

    @staticmethod
    def of(step: Step) -> Operands:
        arrays = []
        for position, (operand, dtype) in enumerate(step.reads):
            match operand:
                case Integer(value=value):
                    arrays.append(integer(value, dtype))
                case Float():
                    arrays.append(floating(operand, dtype))
                case Register() if operand == step.members:
                    arrays.append(member_masks())
                case Negated():
                    arrays.append(~operand_values(dtype, position % 4))
                case _:
                    arrays.append(operand_values(dtype, position % 4))
        return Operands(arrays)


@dataclass
class Outcome:
    """What a handler returned, and each result with what it held before."""

    code: int
    results: list[Array]


def apply(
    native: Native,
    step: Step,
    operands: Sequence[Array],
    before: Sequence[Array],
    masks: Array,
    memory: int = 0,
    place: int = 0,
    elected: int = 0,
) -> Outcome:
    """Run the handler of `native` on register files that hold `before` and `operands`.

    `memory` is the address of a `Memory` of the core, `place` the instruction's number, `elected`
    the lane that elect.sync takes: first, last, by a hash.
    """
    core = library()
    outs, ins = len(step.writes), len(operands)
    files = np.zeros((len(masks), (outs + ins) * SLOT), np.uint8)
    pool = np.zeros(max(ins, 1) * SLOT, np.uint8)
    numbers = []
    for at, ((register, _), held) in enumerate(zip(step.writes, before, strict=True)):
        numbers.append(at * SLOT if register is not None else -(1 << 31))
        _put(files[:, at * SLOT :], held)
    for at, array in enumerate(operands):
        if array.shape == (1, 1):
            numbers.append(~(at * SLOT))
            _put(pool[None, at * SLOT :], np.broadcast_to(array, (1, LANES)))
        else:
            numbers.append((outs + at) * SLOT)
            _put(files[:, (outs + at) * SLOT :], array)
    listed = np.array(numbers, np.int32)
    constants = np.array(native.immediates or (0,), object).astype(np.int64)
    lanes = np.ascontiguousarray(masks, np.uint32)
    number = core.core_find(native.name.encode())
    assert number >= 0, f"no handler is named {native.name}"
    code = core.core_apply(
        ctypes.byref(
            Applied(
                number, outs, ins, listed.ctypes.data, constants.ctypes.data, pool.ctypes.data,
                files.ctypes.data, files.shape[1], lanes.ctypes.data, len(masks),
                memory, place, elected,
            )
        )
    )  # fmt: skip
    results = [_get(files[:, at * SLOT :], held.dtype) for at, held in enumerate(before)]
    return Outcome(code, results)


def _put(files: Array, array: Array) -> None:
    raw = as_masks(array)[:, None] if array.dtype == BOOL else np.ascontiguousarray(array)
    raw = raw.view(np.uint8)
    files[:, : raw.shape[1]] = raw


def _get(files: Array, dtype: np.dtype[Any]) -> Array:
    if dtype == BOOL:
        return as_lanes(np.ascontiguousarray(files[:, :4]).view(np.uint32)[:, 0])
    size = LANES * dtype.itemsize
    return np.ascontiguousarray(files[:, :size]).view(dtype)


def has_handler(name: str) -> bool:
    return int(library().core_find(name.encode())) >= 0


def before_of(step: Step) -> list[Array]:
    """Return what the results' registers hold before."""
    return [operand_values(dtype, 3) for _, dtype in step.writes]


def bits(array: Array) -> Array:
    return array if array.dtype == BOOL else array.view(UNSIGNED[array.dtype.itemsize])


def differences(step: Step, operands: Sequence[Array]) -> str:
    """Say where the handler of a pure step differs from NumPy; "" for nowhere."""
    assert step.native is not None
    masks = lane_masks()
    before = before_of(step)
    with np.errstate(all="ignore"):
        made = step.run(*operands)
    outcome = apply(step.native, step, operands, before, masks)
    if outcome.code != CONTINUE:
        return f"{step.native.name} returned {outcome.code}"
    return _compared(step, operands, before, as_lanes(masks), made, outcome)


def _compared(
    step: Step,
    operands: Sequence[Array],
    before: Sequence[Array],
    lanes: Array,
    made: Any,  # noqa: ANN401 - what a step returns
    outcome: Outcome,
) -> str:
    assert step.native is not None
    made = made if isinstance(made, tuple) else (made,)
    for (register, dtype), old, new, got in zip(
        step.writes, before, made, outcome.results, strict=True
    ):
        if register is None:
            continue
        full = np.broadcast_to(new, lanes.shape)
        assert full.dtype.itemsize == dtype.itemsize
        wanted = np.where(lanes, bits(np.ascontiguousarray(full)), bits(old))
        wrong = np.argwhere(wanted != bits(got))
        if len(wrong):
            row, lane = wrong[0]
            terms = [
                hex(int(bits(np.broadcast_to(a, lanes.shape)[row : row + 1].copy())[0, lane]))
                for a in operands
            ]
            return (
                f"{step.native.name} of {', '.join(terms)}: {int(bits(got)[row, lane]):#x}, "
                f"NumPy {int(wanted[row, lane]):#x} ({len(wrong)} lanes differ)"
            )
    return ""


def differences_by_warp(machine: Machine, step: Step, operands: Sequence[Array]) -> str:
    """Say where the handler of an effect differs, a warp at a time.

    Where NumPy reports something the handler must leave it to the step.
    """
    assert step.native is not None
    masks, before = lane_masks(), before_of(step)
    continued = 0
    for row in np.flatnonzero(masks):
        lanes = as_lanes(masks[row : row + 1])
        batch = WarpBatch(machine, 0, np.array([row % len(machine.slot_of)]), lanes, [])
        machine.findings = Findings()
        terms = [a if a.shape == (1, 1) else a[row : row + 1] for a in operands]
        held = [b[row : row + 1] for b in before]
        with np.errstate(all="ignore"):
            made = step.run(batch, None, *terms)
        elected = ELECTED.index(machine.elected)
        outcome = apply(step.native, step, terms, held, masks[row : row + 1], elected=elected)
        if machine.findings.all:
            if outcome.code != FALLBACK:
                return f"{step.native.name}: no fallback where NumPy has a finding"
            made = tuple(held)
        elif outcome.code != CONTINUE:
            return f"{step.native.name} returned {outcome.code} where NumPy has no finding"
        continued += outcome.code == CONTINUE
        if step.writes and (said := _compared(step, terms, held, lanes, made, outcome)):
            return said
    return "" if continued else f"{step.native.name} never went on"
