"""The whole table: every family of `kernelrig.emu.isa`."""

from __future__ import annotations

from functools import cache

from kernelrig.emu.isa import (
    address,
    atomic,
    barrier,
    bits,
    bulk,
    cluster_launch,
    compare,
    control,
    convert,
    convert_narrow,
    convert_stochastic,
    cp_async,
    fence,
    float,
    half,
    integer,
    logic,
    matrix_load,
    mbarrier,
    mma,
    move,
    quad_mma,
    remote_store,
    surface,
    tcgen05_alloc,
    tcgen05_copy,
    tcgen05_load,
    tcgen05_mma,
    tcgen05_scaled,
    tensor_copy,
    tensor_map_edit,
    texture,
    thread_stack,
    video,
    warp,
    wgmma,
    wmma,
)
from kernelrig.emu.isa import (
    load_store as memory,
)
from kernelrig.emu.machine.instruction_table import Table

FAMILIES = (
    address, atomic, barrier, bits, bulk, cluster_launch, compare, control, convert, convert_narrow,
    convert_stochastic, cp_async, fence, float, half, integer, logic, matrix_load, mbarrier, memory,
    quad_mma, mma, move, remote_store, surface, tcgen05_alloc, tcgen05_copy, tcgen05_load,
    tcgen05_mma, tcgen05_scaled, tensor_copy, tensor_map_edit, texture, thread_stack, video, warp,
    wgmma, wmma,
)  # fmt: skip


@cache
def instruction_table() -> Table:
    """Return the rows of all families."""
    return Table(*(family.ROWS for family in FAMILIES))
