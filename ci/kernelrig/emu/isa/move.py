"""mov: values, addresses, special registers, and registers packed into wider ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelrig.emu.isa._forms import (
    MEMORY_ON_H100,
    WHOLLY,
    chosen,
    compared,
    expect,
    flat,
    native,
    read,
    typed,
    unsigned,
    write,
)
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import U64, UNSIGNED, Array
from kernelrig.ptx import Instruction, Special, Vector


def _same(value: Array) -> Array:
    return value


def _mov(i: Instruction) -> Step:
    target, source = expect(i, 2)
    if isinstance(target, Vector):
        return _unpack(i)
    if isinstance(source, Vector):
        return _pack(i)
    kind = typed(i)
    if kind.kind != "b":  # a predicate
        kind = unsigned(kind)
    return Step(_same, (read(source, kind),), (write(target, kind),), native=native("mov", kind))


def _part_kind(i: Instruction, parts: int) -> np.dtype[np.generic]:
    size, rest = divmod(typed(i).itemsize, max(parts, 1))
    if not parts or rest or size not in UNSIGNED:
        raise Unsupported(f"{i.mnemonic} does not take {parts} parts")
    return UNSIGNED[size]


def _pack(i: Instruction) -> Step:
    """The first element is the lowest."""
    target, source = i.operands
    parts = flat(source)
    part, whole = _part_kind(i, len(parts)), unsigned(typed(i))
    bits = 8 * part.itemsize

    def run(*values: Array) -> Array:
        result = values[-1].astype(whole)
        for value in values[-2::-1]:
            result = result << whole.type(bits) | value
        return result

    reads, writes = tuple(read(p, part) for p in parts), (write(target, whole),)
    handler = native("mov", whole) if len(parts) == 1 else native("pack", part, whole)
    return Step(run, reads, writes, native=handler)


def _unpack(i: Instruction) -> Step:
    target, source = i.operands
    parts = flat(target)
    part, whole = _part_kind(i, len(parts)), unsigned(typed(i))
    shifts = [whole.type(8 * part.itemsize * k) for k in range(len(parts))]
    writes = tuple(write(p, part) for p in parts)
    if len(parts) == 1:
        return Step(_same, (read(source, whole),), writes, native=native("mov", whole))

    def run(value: Array) -> tuple[Array, ...]:
        return tuple((value >> by).astype(part) for by in shifts)

    return Step(run, (read(source, whole),), writes, native=native("unpack", part, whole))


_AXES = "xyzw"


def _vector(i: Instruction) -> Step:
    """mov.v2 and mov.v4: element for element, or a special register as a whole."""
    count = int(chosen(i, "v2 v4")[1:])
    target, source = expect(i, 2)
    targets = flat(target)
    sources = flat(source)
    if isinstance(source, Special) and not source.part:
        sources = tuple(Special(source.name, axis) for axis in _AXES[:count])
    if len(targets) != count or len(sources) != count:
        raise Unsupported(f"{i.mnemonic} moves {count} elements")
    kind = unsigned(typed(i))
    run: Callable[..., tuple[Array, ...]] = lambda *values: values  # noqa: E731
    reads, writes = tuple(read(s, kind) for s in sources), tuple(write(t, kind) for t in targets)
    return Step(run, reads, writes, native=native("mov", kind))


def _wide(i: Instruction) -> Step:
    """mov.b128: its registers are pairs of 64 bits, as what is packed into them."""
    targets, sources = (flat(operand) for operand in expect(i, 2))
    if len(targets) != 2 or len(sources) != 2:
        raise Unsupported(f"{i.mnemonic} moves registers of 128 bits and pairs of 64")
    run: Callable[..., tuple[Array, ...]] = lambda *values: values  # noqa: E731
    reads, writes = tuple(read(s, U64) for s in sources), tuple(write(t, U64) for t in targets)
    return Step(run, reads, writes, native=native("mov", U64))


_TYPES = "b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64 pred f16 bf16 f16x2 bf16x2"

_UNTRIED = {
    "mov": "b8 u8 s8 s16 s64 f16 bf16 f16x2 bf16x2",
    "mov.v2": WHOLLY,
    "mov.v4": " ".join(set(_TYPES.split()) - {"u32"}),
}

ROWS: tuple[Row, ...] = (
    row("mov", _wide, "b128", checked=MEMORY_ON_H100),
    *compared(
        (
            row("mov", _mov, takes=_TYPES),
            row("mov", _vector, "v2", _TYPES),
            row("mov", _vector, "v4", _TYPES),
        ),
        _UNTRIED,
    ),
)
