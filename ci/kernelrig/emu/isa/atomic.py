"""atom and red: one lane after the other where lanes of a batch share an address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._address_operands import bracketed, elements, source, target
from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, partly
from kernelrig.emu.machine.addressing import Located, locate
from kernelrig.emu.machine.instruction_table import Native, Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import Arena
from kernelrig.emu.machine.thread_memory import memory_semantics, vector_length
from kernelrig.emu.numerics.arrays import U64, UNSIGNED, Array, Mask
from kernelrig.emu.numerics.read_modify_write import (
    OPERATIONS,
    U128,
    Combine,
    combination,
)
from kernelrig.ptx import Instruction, Operand, Sink, Vector
from kernelrig.ptx.types import BYTES

_INTEGERS = "b16 b32 b64 b128 u32 s32 u64 s64"
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_FLOATS = f"{' '.join(_HALVES)} f32 f64"
_VECTORS = {
    "f32": (2, 4),
    "f16": (2, 4, 8),
    "bf16": (2, 4, 8),
    "f16x2": (2, 4),
    "bf16x2": (2, 4),
}
"""Element type -> lengths of the vector forms, which are for global memory alone."""
Turns = NDArray[np.intp]


class _Atomic:
    """An atom or a red: what it does to how many elements of which type."""

    def __init__(self, i: Instruction) -> None:
        self.how = memory_semantics(i, sem="relaxed", scope="gpu")
        operations = [o for o in OPERATIONS if o in i.flags]
        kinds = [t for t in f"{_INTEGERS} {_FLOATS}".split() if t in i.flags]
        if len(operations) != 1 or len(kinds) != 1:
            raise Unsupported(f"{i.mnemonic}: one operation and one type are needed")
        self.name = i.opcode
        self.operation, kind = operations[0], kinds[0]
        self.pairs = kind == "b128"  # its registers are pairs (frontend/wide_registers.py)
        self.dtype = U128 if self.pairs else UNSIGNED[BYTES[kind]]
        self.register = U64 if self.pairs else self.dtype
        self.count = vector_length(i)
        plain = combination(self.operation, kind)
        flushed = combination(self.operation, kind, flushed=True)
        if plain is None or flushed is None or (i.opcode == "red" and self.operation in _WHOLE):
            raise Unsupported(f"{i.mnemonic}: PTX has no .{self.operation} of .{kind}")
        self.plain: Combine = plain
        self.flushed: Combine = flushed
        if kind in _VECTORS and kind != "f32" and "noftz" not in i.flags:
            raise Unsupported(f"{i.mnemonic}: .noftz is missing")
        if kind in _VECTORS and self.operation != "add" and self.count == 1:
            raise Unsupported(f"{i.mnemonic}: .{self.operation} of .{kind} is for vectors alone")
        if self.count > 1:
            lengths = _VECTORS.get(kind, ())
            if self.how.space != "global" or self.count not in lengths:
                raise Unsupported(f"{i.mnemonic}: a vector is for .global only")

        # Of an atom that drops its results nothing is observed: it is a red (PTX ISA 8.2).
        self.observed = i.opcode == "atom" and any(
            not isinstance(item, Sink) for item in _results(i, self)
        )
        self.native = None
        if kind not in _HALVES:
            self.native = Native(f"atom.{self.operation}.{kind}", (*self.how.numbers, self.count))

    @property
    def size(self) -> int:
        return self.dtype.itemsize * self.count

    def run(
        self, batch: WarpBatch, mask: Mask, address: Array, operands: tuple[Array, ...]
    ) -> Array:
        """Do it, and return the old values, (elements, n, 32); of pairs their halves."""
        old = np.zeros((self.count, batch.size, 32), self.dtype)
        places = locate(
            batch, mask, address, self.size, self.how.space, f"{self.name}.{self.operation}",
            write=True,
        )  # fmt: skip
        for place in places:
            self._at(batch, place, operands, old)
        return np.stack((old["lower"][0], old["upper"][0])) if self.pairs else old

    def _at(
        self, batch: WarpBatch, place: Located, operands: tuple[Array, ...], old: Array
    ) -> None:
        machine, how = batch.machine, self.how
        chosen = batch.mask_of(place.mask)
        start = np.broadcast_to(place.flat, chosen.shape)[chosen]
        turns = _drawn(start, batch)
        if machine.hooks:
            lanes = None if turns is None else np.flatnonzero(chosen)[turns].tolist()
            machine.hooks.in_turn(batch, place.mask, lanes, self.observed)
            machine.hooks.accessed(
                batch,
                place.mask,
                place.space,
                place.flat,
                self.size,
                True,
                True,
                how.sem,
                how.scope,
            )
        arena = machine.memory.arena(place.space)
        combine = self.flushed if place.space == "global" else self.plain
        values = [np.broadcast_to(v, chosen.shape)[chosen] for v in operands]
        if self.pairs:
            values = [_joined(*values[n : n + 2]) for n in range(0, len(values), 2)]
        width = self.dtype.itemsize
        for element in range(self.count):
            if element:  # each is an atomic of its own
                turns = _drawn(start, batch)
            mine = values[element :: self.count]
            old[element][chosen] = _serialised(
                arena, start + element * width, mine, combine, turns, self.dtype
            )


def _joined(lower: Array, upper: Array) -> Array:
    values = np.empty(len(lower), U128)
    values["lower"], values["upper"] = lower, upper
    return values


def _serialised(
    arena: Arena,
    flat: Array,
    operands: list[Array],
    combine: Combine,
    turns: Turns | None,
    dtype: np.dtype[Any],
) -> Array:
    """Combine the operands into memory, those of one address one by one; return the old values."""
    cells = arena.bytes.view(dtype)
    where = flat // dtype.itemsize
    old = np.zeros(len(where), dtype)
    for step in _steps(where, turns):
        at = where[step]
        old[step] = cells[at]
        cells[at] = combine(old[step], *(o[step] for o in operands))
    arena.mark(flat, dtype.itemsize)
    return old


def _drawn(where: Array, batch: WarpBatch) -> Turns | None:
    """Return the order in which positions of `where` go, which the seed decides: None where no
    two are the same.
    """
    if len(np.unique(where)) == len(where):
        return None
    return np.array(batch.machine.rng.sample(range(len(where)), len(where)))


def _steps(where: Array, turns: Turns | None) -> Iterator[Turns]:
    """Yield positions of `where`, no address twice in one step."""
    if turns is None:
        yield np.arange(len(where))
        return
    order = turns[np.argsort(where[turns], kind="stable")]
    ordered = where[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    nth = np.arange(len(where)) - np.repeat(starts, np.diff(np.append(starts, len(where))))
    for step in range(int(nth.max()) + 1):
        yield order[nth == step]


_WHOLE = ("exch", "cas")


def _atom(i: Instruction) -> Step:
    if not i.operands:
        raise Unsupported(f"{i.mnemonic}: no operands")
    atomic = _Atomic(i)
    writes = tuple(target(i, item, atomic.register) for item in _results(i, atomic))

    def run(
        batch: WarpBatch, mask: Mask, address: Array, *operands: Array
    ) -> Array | tuple[Array, ...]:
        old = atomic.run(batch, mask, address, operands)
        return old[0] if len(writes) == 1 else tuple(old)

    reads = _reads(i, atomic, 1)
    return Step(run, reads, writes, effect=True, stop=True, native=atomic.native)


def _red(i: Instruction) -> Step:
    atomic = _Atomic(i)
    if atomic.how.sem not in ("relaxed", "release"):
        raise Unsupported(f"{i.mnemonic}: a red is .relaxed or .release")

    def run(batch: WarpBatch, mask: Mask, address: Array, *operands: Array) -> None:
        atomic.run(batch, mask, address, operands)

    return Step(run, _reads(i, atomic, 0), effect=True, stop=True, native=atomic.native)


def _reads(i: Instruction, atomic: _Atomic, first: int) -> tuple[Read, ...]:
    """Return the address and the operands behind it: two of a cas, else one; a policy may follow.

    Elements of an operand lie side by side.
    """
    wanted = 2 if atomic.operation == "cas" else 1
    count = first + 1 + wanted + ("L2::cache_hint" in i.flags)
    operands = expect(i, count)[first : first + 1 + wanted]
    items = tuple(item for o in operands[1:] for item in _parts(i, o, atomic))
    return (bracketed(i, operands[0]), *(source(i, item, atomic.register) for item in items))


def _results(i: Instruction, atomic: _Atomic) -> tuple[Operand, ...]:
    """Return where the old values go; one `_` is for all of them."""
    first = i.operands[0]
    count = 2 if atomic.pairs else atomic.count
    return (first,) * count if isinstance(first, Sink) else _parts(i, first, atomic)


def _parts(i: Instruction, operand: Operand, atomic: _Atomic) -> tuple[Operand, ...]:
    """Return the elements of an operand; of a register of 128 bits, its halves."""
    if not atomic.pairs:
        return elements(i, operand)
    if not isinstance(operand, Vector) or len(operand.items) != 2:
        raise Unsupported(f"{i.mnemonic}: {operand} is no register of 128 bits")
    return operand.items


_TAKES = (
    "relaxed acquire release acq_rel cta cluster gpu sys global shared shared::cta shared::cluster"
    f" noftz v2 v4 v8 L2::cache_hint {_INTEGERS} {_FLOATS} {' '.join(OPERATIONS)}"
)

# To global memory red.async releases like a red, and comes some time later: here at once.
_ASYNC = f"relaxed release cluster gpu sys mmio {_INTEGERS} {' '.join(OPERATIONS)}"
_TRIED = {
    "atom": f"global shared noftz v4 {_INTEGERS} {_FLOATS} {' '.join(OPERATIONS)}",
}
ROWS: tuple[Row, ...] = (
    *partly(
        (row("atom", _atom, takes=_TAKES), row("red", _red, takes=_TAKES)), MEMORY_ON_H100, _TRIED
    ),
    row("red", _red, needs="async global", takes=_ASYNC),
)
