"""wmma: matrices of a warp in fragments, whose layout PTX leaves open; C++'s nvcuda::wmma.

PTX ISA 9.7.14.4. Here a fragment of A or B is its matrix in the order of memory, as many elements
a lane behind one another, so that its layout is that of the .row or .col it was loaded with; one
that has more registers than elements holds them several times. Fragments of C and D are row by row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed
from kernelrig.emu.isa._forms import expect, flat, read, write
from kernelrig.emu.isa._whole_warps import of_lanes, whole_warps
from kernelrig.emu.machine.instruction_table import Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import load, memory_semantics, store
from kernelrig.emu.numerics.arrays import (
    F32,
    F64,
    I32,
    LANES,
    U32,
    U64,
    UNSIGNED,
    Array,
    Mask,
    whole,
)
from kernelrig.emu.numerics.rounding import F16, NAN
from kernelrig.emu.tensor.formats import FORMATS
from kernelrig.emu.tensor.summation import HOPPER, hardware_sum
from kernelrig.emu.tensor.warp_product import elements, sums
from kernelrig.ptx import Instruction, Operand

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_LARGE = ("m16n16k16", "m8n32k16", "m32n8k16")
_SHAPES = {
    "f16": _LARGE, "bf16": _LARGE, "s8": _LARGE, "u8": _LARGE, "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}  # fmt: skip
_BYTES = {"f16": 2, "bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f32": 4, "s32": 4, "f64": 8}
_KINDS: dict[str, np.dtype[Any]] = {"f16": F16, "f32": F32, "s32": I32, "f64": F64}
_F16_REGISTERS = 8  # of A and B, whatever the shape
_TF32_STEP = 4  # of K, in one instruction of the hardware
_MOST = 16  # bytes of an access


@dataclass(frozen=True, slots=True)
class _Fragment:
    """`lines` of `length` elements of a type; `major`: rows of C's matrix are its lines."""

    type: str
    lines: int
    length: int
    registers: int

    @property
    def each(self) -> int:
        """The elements of a lane."""
        return self.lines * self.length // LANES

    @property
    def word(self) -> int:
        return 8 if self.type == "f64" else 4

    def values(self, held: list[Array]) -> Array:
        """Return the words of all lanes, (warps, lines, words of a line)."""
        used = self.each * _BYTES[self.type] // self.word
        together = np.stack(held[:used], axis=-1)
        return np.ascontiguousarray(together).reshape(len(together), self.lines, -1)

    def registers_of(self, words: Array) -> tuple[Array, ...]:
        """Return registers (warps, 32) of the words of all lanes, (warps, ...)."""
        apart = words.reshape(len(words), LANES, -1)
        count = apart.shape[2]
        return tuple(np.ascontiguousarray(apart[..., n % count]) for n in range(self.registers))


def _shape(i: Instruction, name: str) -> tuple[int, int, int]:
    shapes = [q for q in i.qualifiers if _SHAPE.fullmatch(q)]
    if len(shapes) != 1 or shapes[0] not in _SHAPES.get(name, ()):
        allowed = ", .".join(_SHAPES.get(name, ("none",)))
        raise Unsupported(f"{i.mnemonic}: shapes of .{name} are .{allowed}")
    m, n, k = (int(g) for g in re.findall(r"\d+", shapes[0]))
    return m, n, k


def _of_matrix(part: str, name: str, shape: tuple[int, int, int], layout: str) -> _Fragment:
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    lines, length = (rows, columns) if layout == "row" or part in "cd" else (columns, rows)
    word = 8 if name == "f64" else 4
    count = rows * columns * _BYTES[name] // word // LANES
    if part in "ab" and name == "f16":
        count = _F16_REGISTERS
    return _Fragment(name, lines, length, count)


def _named(i: Instruction, words: tuple[str, ...], what: str) -> str:
    found = [q for q in i.qualifiers if q in words]
    if len(found) != 1:
        raise Unsupported(f"{i.mnemonic} needs {what}: one of .{', .'.join(words)}")
    return found[0]


def _checked(i: Instruction, operand: Operand, fragment: _Fragment) -> tuple[Operand, ...]:
    items = flat(operand)
    if len(items) != fragment.registers:
        raise Unsupported(f"{i.mnemonic} takes {fragment.registers} registers, not {len(items)}")
    return items


def _accesses(
    fragment: _Fragment, stride: Array, crossed: bool, size: int
) -> list[tuple[Array, int, int]]:
    """Return (offset in bytes by lane, first element, elements) of each access of a lane.

    `stride` counts elements, (warps or 1, lanes or 1); `crossed`: lines lie across those in memory.
    """
    lane = np.arange(LANES)[None, :]
    step = 1 if crossed else min(fragment.each, fragment.length, _MOST // size)
    made = []
    for first in range(0, fragment.each, step):
        line, at = np.divmod(lane * fragment.each + first, fragment.length)
        offset = at * stride + line if crossed else line * stride + at
        made.append((offset * size, first, step))
    return made


def _memory(i: Instruction) -> tuple[str, str, _Fragment, bool]:
    """Return the type, the layout, the fragment, and whether its lines lie across memory's."""
    part = _named(i, ("a", "b", "c", "d"), "a matrix")
    layout = _named(i, ("row", "col"), "a layout")
    name = _named(i, tuple(_BYTES), "a type")
    if part in "ab":
        shape = _shape(i, name)
    else:  # C and D have the shapes of what they are sums of
        of = {"f64": "f64", "s32": "s8"}.get(name, "f16")
        tf32 = "m16n16k8" in i.flags and name == "f32"
        shape = _shape(i, "tf32" if tf32 else of)
    fragment = _of_matrix(part, name, shape, layout)
    return name, layout, fragment, part in "cd" and layout == "col"


def _contiguous(fragment: _Fragment, layout: str, crossed: bool) -> int:
    """Return the stride that a matrix without one has."""
    return fragment.lines if crossed else fragment.length


def _strided(i: Instruction, count: int) -> tuple[tuple[Operand, ...], tuple[Read, ...]]:
    operands = expect(i, count, count + 1)
    return operands[:count], tuple(read(o, I32) for o in operands[count:])


def _load(i: Instruction) -> Step:
    name, layout, fragment, crossed = _memory(i)
    (into, address), stride = _strided(i, 2)
    size, how = _BYTES[name], memory_semantics(i)
    targets = _checked(i, into, fragment)
    word = UNSIGNED[fragment.word]

    def run(batch: WarpBatch, mask: Mask, address: Array, *rest: Array) -> tuple[Array, ...]:
        whole_warps(batch, mask, "wmma.load")
        given = rest[0].astype(np.int64) if rest else _contiguous(fragment, layout, crossed)
        held = np.zeros((batch.size, LANES, fragment.each), UNSIGNED[size])
        for offset, first, count in _accesses(fragment, np.asarray(given), crossed, size):
            parts = load(batch, mask, address + offset, size, count, how, i.opcode)
            for n, part in enumerate(parts):
                held[..., first + n] = whole(part, batch.size)
        made = fragment.registers_of(held.reshape(batch.size, -1).view(word))
        return made if len(made) > 1 else made[0]  # type: ignore[return-value]

    writes = tuple(write(t, word) for t in targets)
    reads = (bracketed(i, address), *stride)
    return Step(run, reads, writes, effect=True, collective="warp")


def _store(i: Instruction) -> Step:
    name, layout, fragment, crossed = _memory(i)
    (address, value), stride = _strided(i, 2)
    size, how = _BYTES[name], memory_semantics(i)
    word = UNSIGNED[fragment.word]
    sources = _checked(i, value, fragment)
    at = len(stride)

    def run(batch: WarpBatch, mask: Mask, address: Array, *rest: Array) -> None:
        lanes = whole_warps(batch, mask, "wmma.store")
        given = rest[0].astype(np.int64) if at else _contiguous(fragment, layout, crossed)
        words = fragment.values(of_lanes(rest[at:], lanes))
        held = words.reshape(batch.size, -1).view(UNSIGNED[size]).reshape(batch.size, LANES, -1)
        for offset, first, count in _accesses(fragment, np.asarray(given), crossed, size):
            parts = tuple(held[..., first + n] for n in range(count))
            store(batch, mask, address + offset, parts, how, i.opcode)

    reads = (bracketed(i, address), *stride, *(read(s, word) for s in sources))
    return Step(run, reads, effect=True, collective="warp")


def _types(i: Instruction) -> tuple[str, str, str, str]:
    """Return the types of D, A, B and C: of f16 inputs, the text has those of D and C alone."""
    found = [q for q in i.qualifiers if q in _BYTES]
    if len(found) == 2:
        return found[0], "f16", "f16", found[1]
    if len(found) != 4:
        raise Unsupported(f"{i.mnemonic} needs the types of D and C, or of D, A, B and C")
    d, a, b, c = found
    return d, a, b, c


_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",),
         "u8": ("s32",), "f64": ("f64",)}  # fmt: skip


def _mma(i: Instruction) -> Step:
    d, a, b, c = _types(i)
    layouts = [q for q in i.qualifiers if q in ("row", "col")]
    if len(layouts) != 2 or a != b or d not in _SUMS.get(a, ()) or c not in _SUMS[a]:
        raise Unsupported(f"{i.mnemonic}: no product of these types and layouts")
    if i.flags & {"rz", "rm", "rp"} or ("satfinite" in i.flags and d != "s32"):
        raise Unsupported(f"{i.mnemonic}: .satfinite is of integers, .rn alone of float64")
    shape = _shape(i, a)
    fragments = (
        _of_matrix("d", d, shape, "row"), _of_matrix("a", a, shape, layouts[0]),
        _of_matrix("b", b, shape, layouts[1]), _of_matrix("c", c, shape, "row"),
    )  # fmt: skip
    parts = [_checked(i, o, f) for o, f in zip(expect(i, 4), fragments, strict=True)]
    into, of_a, of_b, of_c = fragments
    word = U64 if d == "f64" else U32
    satfinite = "satfinite" in i.flags

    def run(batch: WarpBatch, mask: Mask, *values: Array) -> tuple[Array, ...]:
        held = of_lanes(values, whole_warps(batch, mask, "wmma.mma"))
        left = elements(of_a.values(held[: of_a.registers]), a)
        rest = held[of_a.registers :]
        right = elements(of_b.values(rest[: of_b.registers]), b)
        words = of_c.values(rest[of_b.registers :])
        start = np.ascontiguousarray(words).view(_KINDS[c]).reshape(batch.size, shape[0], shape[1])
        left = left if layouts[0] == "row" else left.swapaxes(1, 2)
        right = right.swapaxes(1, 2) if layouts[1] == "row" else right
        if batch.machine.hardware_accumulation and d in ("f16", "f32"):
            total = _as_hardware(left, right, start.astype(F32), a, d)
        else:
            total = sums(left, right, start, d, satfinite)
        flat_words = np.ascontiguousarray(total).reshape(batch.size, -1).view(word)
        made = into.registers_of(flat_words)
        return made if len(made) > 1 else made[0]  # type: ignore[return-value]

    reads = tuple(read(operand, word) for part in parts[1:] for operand in part)
    writes = tuple(write(operand, word) for operand in parts[0])
    return Step(run, reads, writes, effect=True, collective="warp")


def _as_hardware(a: Array, b: Array, c: Array, name: str, d: str) -> Array:
    """Return A x B + C as tensor cores round it.

    ptxas makes two HMMA.1684 of a tf32 product, the first four of K and then the rest, where
    mma.sync of the same K is one HMMA.1688; everything else is one step, as on an H100.
    """
    forms, rounding = (FORMATS[name], FORMATS[name]), replace(HOPPER, half=d == "f16")
    made = np.empty(c.shape, _KINDS[d])
    step = _TF32_STEP if name == "tf32" else a.shape[-1]
    for warp in range(len(a)):
        total = c[warp]
        for k in range(0, a.shape[-1], step):
            left, right = (np.ascontiguousarray(m[warp, :, k : k + step]) for m in (a, b))
            total = hardware_sum(left, right, forms, total, rounding)
        made[warp] = total
    return np.where(np.isnan(made), NAN[F16], made) if d == "f16" else made


_ALL_SHAPES = " ".join(dict.fromkeys(s for shapes in _SHAPES.values() for s in shapes))
_WORDS = f"row col {_ALL_SHAPES} {' '.join(_BYTES)}"
_PLACES = "global shared shared::cta"
ROWS: tuple[Row, ...] = (
    *(row("wmma", _load, f"load {part} sync aligned", f"{_WORDS} {_PLACES}") for part in "abc"),
    row("wmma", _store, "store d sync aligned", f"{_WORDS} {_PLACES}"),
    row("wmma", _mma, "mma sync aligned", f"{_WORDS} satfinite rn"),
)
