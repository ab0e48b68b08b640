"""The whole table: every family of `ci.emu.ops`."""

from __future__ import annotations

from functools import cache

from ci.emu.ops import (
    address,
    atomic,
    barrier,
    bits,
    bulk,
    compare,
    control,
    convert,
    cp_async,
    fence,
    float,
    half,
    integer,
    logic,
    matrix_load,
    mbarrier,
    memory,
    move,
    remote_store,
    tcgen05_alloc,
    tcgen05_load,
    tcgen05_mma,
    tensor_copy,
    warp,
    wgmma,
)
from ci.emu.table import Table

FAMILIES = (
    address, atomic, barrier, bits, bulk, compare, control, convert, cp_async, fence, float, half,
    integer, logic, matrix_load, mbarrier, memory, move, remote_store, tcgen05_alloc, tcgen05_load,
    tcgen05_mma, tensor_copy, warp, wgmma,
)  # fmt: skip


@cache
def instruction_table() -> Table:
    """Return the rows of all families."""
    return Table(*(family.ROWS for family in FAMILIES))
