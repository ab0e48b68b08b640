"""ld and st in every space, with the qualifiers that only advise caches."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed, elements, source, target
from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, partly
from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.thread_memory import (
    NO_VALUE,
    MemorySemantics,
    load,
    memory_semantics,
    store,
)
from kernelrig.emu.numerics.arrays import SIGNED, U64, UNSIGNED, Array, Mask
from kernelrig.ptx import Instruction, Integer, Operand, Vector
from kernelrig.ptx.types import BYTES

Dtype = np.dtype[Any]

TYPES = " ".join(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) + " b128 f32 f64"
VECTOR_TYPES = f"{TYPES} v2 v4 v8"
_GLOBAL_VECTOR_BYTES = 32
_VECTOR_BYTES = 16


def _dtype(i: Instruction) -> Dtype:
    """Return the unsigned or, for .sN, signed type of the elements: registers are wider, or not.

    Of .b128 it is that of a half: its registers are pairs (frontend/wide_registers.py).
    """
    name = next((word for word in TYPES.split() if word in i.flags), "")
    if not name:
        raise Unsupported(f"{i.mnemonic}: the type is missing")
    return (SIGNED if name[0] == "s" else UNSIGNED)[min(BYTES[name], U64.itemsize)]


def _elements(i: Instruction, operand: Operand, dtype: Dtype) -> tuple[Operand, ...]:
    """Return what the instruction loads into, or stores."""
    items = elements(i, operand)
    if "b128" in i.flags:
        pairs = [item for item in items if isinstance(item, Vector)]
        if len(pairs) != len(items):
            raise Unsupported(f"{i.mnemonic}: {operand} is no register of 128 bits")
        items = tuple(half for pair in pairs for half in pair.items)
    size = len(items) * dtype.itemsize
    limit = _GLOBAL_VECTOR_BYTES if "global" in i.flags else _VECTOR_BYTES
    if size > limit:
        raise Unsupported(f"{i.mnemonic}: {size} bytes a lane; PTX has 32 for .global, else 16")
    return items


def _ld(i: Instruction) -> Step:
    how = memory_semantics(i)
    dtype = _dtype(i)
    into, address = expect(i, *_with_policy(i, 2))[:2]
    items = _elements(i, into, dtype)
    width, count = dtype.itemsize, len(items)
    if how.non_coherent and how.space != "global":
        raise Unsupported(f"{i.mnemonic}: .nc is for .global")

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Array | tuple[Array, ...]:
        values = load(batch, mask, address, width, count, how)
        if count == 1:
            return values[0].view(dtype)
        return tuple(v.view(dtype) for v in values)

    writes = tuple(target(i, item, dtype) for item in items)
    stop = how.synchronises or "cv" in i.flags
    native = Native(f"ld.{8 * width}x{count}", (*how.numbers, how.non_coherent))
    return Step(run, (bracketed(i, address),), writes, effect=True, stop=stop, native=native)


def _with_policy(i: Instruction, count: int) -> tuple[int, ...]:
    """Return how many operands there may be: a cache policy may follow."""
    return (count + 1,) if "L2::cache_hint" in i.flags else (count,)


def _st(i: Instruction) -> Step:
    how = memory_semantics(i)
    if how.space == "const":
        raise Unsupported(f"{i.mnemonic}: .const cannot be written")
    dtype = UNSIGNED[_dtype(i).itemsize]
    address, value = expect(i, *_with_policy(i, 2))[:2]
    items = _elements(i, value, dtype)

    def run(batch: WarpBatch, mask: Mask, address: Array, *values: Array) -> None:
        store(batch, mask, address, values, how)

    reads = (bracketed(i, address), *(source(i, item, dtype) for item in items))
    native = Native(f"st.{8 * dtype.itemsize}x{len(items)}", (*how.numbers, 0))
    return Step(run, reads, effect=True, stop=how.synchronises, native=native)


def _st_bulk(i: Instruction) -> Step:
    """st.bulk [a], size, 0: writes that many zero bytes, a count for each thread."""

    def run(batch: WarpBatch, mask: Mask, address: Array, size: Array, value: Array) -> None:
        if value.any():
            batch.report("descriptor", "st.bulk writes zeros only: its value must be 0", mask)
        shape = batch.mask_of(mask).shape
        sizes = np.broadcast_to(size, shape)
        for amount in np.unique(sizes[batch.mask_of(mask)]):
            some = batch.mask_of(mask) & (sizes == amount)
            if amount % 8:
                text = f"st.bulk of {amount} bytes: the size must be a multiple of 8"
                batch.report("misaligned", text, some)
            elif amount:
                _zero(batch, some, address, int(amount), how)

    how = memory_semantics(i)
    if how.space not in ("generic", "shared", "shared::cta"):
        raise Unsupported(f"{i.mnemonic}: st.bulk is for .shared::cta")
    address, size, value = expect(i, 3)
    return Step(
        run, (bracketed(i, address), source(i, size, U64), source(i, value, U64)), effect=True
    )


def _zero(batch: WarpBatch, mask: Mask, address: Array, size: int, how: MemorySemantics) -> None:
    places = locate(batch, mask, address, size, how.space, "st.bulk", write=True, align=8)
    machine = batch.machine
    for space, flat, lanes in places:
        arena = machine.memory.arena(space)
        starts = np.broadcast_to(flat, batch.mask_of(lanes).shape)[batch.mask_of(lanes)]
        words = (starts[:, None] + np.arange(0, size, 8)).ravel()
        if machine.hooks:
            for at in range(0, size, 8):
                machine.hooks.accessed(batch, lanes, space, flat + at, 8, True)
        arena.scatter(words, (np.zeros(1, U64),), None)


# Words to caches.


def _nothing(i: Instruction) -> Step:
    return Step(_do_nothing, native=Native("nothing"))


def _do_nothing() -> None:
    """Values do not change."""


def _createpolicy(i: Instruction) -> Step:
    """A policy is opaque: zero."""
    writes = (target(i, expect(i, 2, 3, 4)[0], U64),)
    return Step(_policy, ((Integer(0), U64),), writes, native=Native("mov.u64"))


def _policy(opaque: Array) -> Array:
    return opaque


DISCARD_BYTES = 128


def _discard(i: Instruction) -> Step:
    """discard.L2: the line may not be read before it is written again."""
    how = memory_semantics(i)

    def run(batch: WarpBatch, mask: Mask, address: Array) -> None:
        for space, flat, lanes in locate(
            batch, mask, address, DISCARD_BYTES, how.space, "discard", write=True
        ):
            machine = batch.machine
            chosen = batch.mask_of(lanes)
            starts = np.broadcast_to(flat, chosen.shape)[chosen]
            if machine.hooks:
                for at in range(0, DISCARD_BYTES, 16):
                    machine.hooks.accessed(batch, lanes, space, flat + at, 16, True)
            machine.memory.arena(space).written[starts[:, None] + np.arange(DISCARD_BYTES)] = 0

    return Step(run, (bracketed(i, expect(i, 2)[0]),), effect=True)


_ORDER = "weak volatile relaxed cta cluster gpu sys mmio"
_STATE = "global shared shared::cta shared::cluster local param param::entry const"
_PREFETCH = "global local L1 L2 L2::evict_last L2::evict_normal"
_POLICY_WORDS = (
    "b64 L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged global L2 cvt"
)

# To global memory it releases, and comes some time later: here at once.
_ASYNC = "cluster gpu sys mmio b32 b64 u32 u64 s32 s64 f32 f64"
_TRIED = {
    "ld": "global shared param v4 b16 b32 b64 b128 u8 s8 u16 s16 u64",
    "st": "global shared shared::cluster v2 v4 b16 b32 b64 b128",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("ld", _ld, takes=f"{_ORDER} acquire {_STATE} nc {NO_VALUE} {VECTOR_TYPES}"),
        row("st", _st, takes=f"{_ORDER} release {_STATE} {NO_VALUE} {VECTOR_TYPES}"),
        row("st", _st, needs="async release global", takes=_ASYNC),
        row("st", _st_bulk, needs="bulk", takes="weak shared shared::cta"),
        row("prefetch", _nothing, takes=_PREFETCH),
        row("prefetch", _nothing, needs="tensormap", takes="param const"),
        row("prefetchu", _nothing, needs="L1"),
        row("createpolicy", _createpolicy, needs="fractional", takes=_POLICY_WORDS),
        row("createpolicy", _createpolicy, needs="range", takes=_POLICY_WORDS),
        row("createpolicy", _createpolicy, needs="cvt", takes=_POLICY_WORDS),
        row("applypriority", _nothing, takes="global L2::evict_normal"),
        row("discard", _discard, takes="global L2"),
    ),
    MEMORY_ON_H100,
    _TRIED,
)
