"""Instructions on addresses: from one window to another, and whose shared memory it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, native, partly, read, write
from kernelrig.emu.machine.addressing import WINDOW_SHIFT
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from kernelrig.emu.numerics.arrays import BOOL, I64, U32, U64, Array, Mask
from kernelrig.ptx import Instruction

_SPACES = "const global local shared shared::cta shared::cluster param param::entry"
_RANK_BITS = 0xFF << RANK_SHIFT


def _space(i: Instruction) -> str:
    named = [s for s in _SPACES.split() if s in i.flags]
    if len(named) != 1:
        raise Unsupported(f"{i.mnemonic}: the state space is missing")
    return named[0].split("::")[0] if named[0] != "shared::cluster" else named[0]


def _cvta(i: Instruction) -> Step:
    """Global memory, constants and parameters lie at their generic addresses."""
    base = {"shared": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}
    window = U64.type(base.get(_space(i), 0))
    into, address = expect(i, 2)
    reads, writes = (read(address, U64),), (write(into, U64),)
    if not window:
        return Step(lambda a: a, reads, writes, native=native("mov", U64))
    by = -int(window) if "to" in i.flags else int(window)
    handler = native("cvta", U64, constants=(by,))
    if "to" in i.flags:
        return Step(lambda a: a - window, reads, writes, native=handler)
    return Step(lambda a: a + window, reads, writes, native=handler)


def _isspacep(i: Instruction) -> Step:
    """.shared is .shared::cta, the thread's own CTA; .global is true of parameters too."""
    space = _space(i)
    if space == "const":
        raise Unsupported(
            f"{i.mnemonic}: constants have no window of their own: they are global memory here"
        )

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Array:
        window = address >> WINDOW_SHIFT
        if space == "global":
            return np.asarray(window == GLOBAL_BASE >> WINDOW_SHIFT)
        if space == "local":
            return np.asarray(window == LOCAL_WINDOW >> WINDOW_SHIFT)
        if space == "param":
            machine = batch.machine
            params = machine.memory.global_.find(machine.params - GLOBAL_BASE)
            inside = address - machine.params
            return np.asarray((inside >= 0) & (inside < (params.size if params else 0)))
        rank = (address - SHARED_WINDOW) >> RANK_SHIFT
        if space == "shared":
            return np.asarray(rank == batch.rank)
        return np.asarray((rank >= 0) & (rank < batch.machine.geometry.cluster_ctas))

    into, named = expect(i, 2)
    one = {"global": GLOBAL_BASE, "local": LOCAL_WINDOW}.get(space)
    handler = None
    if one is not None:
        handler = native("isspacep", I64, constants=(one >> WINDOW_SHIFT, WINDOW_SHIFT))
    return Step(run, (read(named, I64),), (write(into, BOOL),), effect=True, native=handler)


def _width(i: Instruction) -> np.dtype[Any]:
    return U64 if "u64" in i.flags else U32


def _mapa(i: Instruction) -> Step:
    """The address of the same place in the CTA of a rank: bits 24 to 31 become the rank."""
    dtype = _width(i)
    keep = dtype.type(~_RANK_BITS & ((1 << 8 * dtype.itemsize) - 1))
    shift = dtype.type(RANK_SHIFT)

    def run(address: Array, rank: Array) -> Array:
        return np.asarray(address & keep | rank.astype(dtype) << shift)

    into, address, rank = expect(i, 3)
    handler = native("mapa", dtype, constants=(~_RANK_BITS, RANK_SHIFT))
    reads = (read(address, dtype), read(rank, U32))
    return Step(run, reads, (write(into, dtype),), native=handler)


def _getctarank(i: Instruction) -> Step:
    dtype = _width(i)
    shift, low = dtype.type(RANK_SHIFT), dtype.type(0xFF)

    def run(address: Array) -> Array:
        return np.asarray((address >> shift & low).astype(U32))

    into, address = expect(i, 2)
    handler = native("getctarank", dtype, constants=(RANK_SHIFT,))
    return Step(run, (read(address, dtype),), (write(into, U32),), native=handler)


_TRIED = {
    "cvta.u64": "param shared",
    "isspacep": "global local param shared shared::cta shared::cluster",
    "mapa": "shared::cluster u32 u64",
    "getctarank": "u64",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("cvta", _cvta, needs="u64", takes=_SPACES),
        row("cvta", _cvta, needs="to u64", takes=_SPACES),
        row("isspacep", _isspacep, takes=_SPACES),
        row("mapa", _mapa, takes="shared::cluster u32 u64"),
        row("getctarank", _getctarank, takes="shared::cluster u32 u64"),
    ),
    MEMORY_ON_H100,
    _TRIED,
)
