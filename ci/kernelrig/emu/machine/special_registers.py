"""The special registers: %tid, %ctaid, %laneid, %clock and the others that kernels read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import Dimensions, WarpBatch
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES
from kernelrig.emu.numerics.arrays import LANES, Array

_AXES = {"x": 0, "y": 1, "z": 2}
CYCLES_A_READ = 16
"""How much a clock advances at each read, so that a loop that waits for a time ends."""

CLOCKS = frozenset(
    ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
)
"""Those that change as time goes on; all others are the same for a warp all the time."""


def special(batch: WarpBatch, name: str, part: str) -> Array:
    """Return the value of `%name.part` as an array of U32, U64 or bool."""
    machine = batch.machine
    geometry = machine.geometry
    match name:
        case "tid":
            return _position(batch, part)
        case "ntid":
            return _constant(_axis(geometry.block, part, 1))
        case "nctaid":
            return _constant(_axis(geometry.grid, part, 1))
        case "cluster_nctaid":
            return _constant(_axis(geometry.cluster, part, 1))
        case "nclusterid":
            pairs = zip(geometry.grid, geometry.cluster, strict=True)
            x, y, z = (g // c for g, c in pairs)
            return _constant(_axis((x, y, z), part, 1))
        case "ctaid":
            return _of_cta(batch, part, lambda at, _: at)
        case "clusterid":
            return _of_cta(batch, part, lambda at, size: at // size)
        case "cluster_ctaid":
            return _of_cta(batch, part, lambda at, size: at % size)
        case "cluster_ctarank":
            return batch.rank.astype(np.uint32)
        case "cluster_nctarank":
            return _constant(geometry.cluster_ctas)
        case "laneid":
            return _LANE
        case "warpid":
            return batch.warp_in_cta.astype(np.uint32)
        case "nwarpid":
            return _constant(geometry.warps)
        case "smid":
            return batch.slot.astype(np.uint32)
        case "nsmid":
            return _constant(max(geometry.ctas, 1))
        case "gridid":
            return _constant(1, np.uint64)
        case _ if name in CLOCKS:
            return _time(batch, name)
        case "lanemask_eq" | "lanemask_le" | "lanemask_lt" | "lanemask_ge" | "lanemask_gt":
            return _LANE_MASKS[name[-2:]]
        case "dynamic_smem_size":
            return _constant(machine.memory.dynamic_shared_bytes)
        case "total_smem_size":
            return _constant(-(-machine.memory.shared_bytes // 128) * 128)
        case "aggr_smem_size":
            return _constant(-(-machine.memory.shared_bytes // 128) * 128 + RESERVED_BYTES)
        case "reserved_smem_offset_begin":
            return _constant(0)
        case "reserved_smem_offset_end":
            return _constant(RESERVED_BYTES)
        case "envreg1":
            return _constant(geometry.grid_workspace >> 32)
        case "envreg2":
            return _constant(geometry.grid_workspace & 0xFFFF_FFFF)
        case "is_explicit_cluster":
            return np.array([[geometry.cluster_ctas > 1]])
    raise Unsupported(f"special register %{name} has no value here")


def known_special(name: str) -> bool:
    return name in _KNOWN


def _constant(value: int, kind: type = np.uint32) -> Array:
    return np.array([[value]], kind)


def _axis(dimensions: Dimensions, part: str, beyond: int) -> int:
    return dimensions[_AXES[part]] if part in _AXES else (0 if part == "w" else beyond)


def _position(batch: WarpBatch, part: str) -> Array:
    x, y, _ = batch.machine.geometry.block
    linear = batch.warp_in_cta * LANES + np.arange(LANES)
    if part == "x":
        return (linear % x).astype(np.uint32)
    if part == "y":
        return (linear // x % y).astype(np.uint32)
    if part == "z":
        return (linear // (x * y)).astype(np.uint32)
    return _constant(0)


def _of_cta(batch: WarpBatch, part: str, of: Callable[[Array, int], Array]) -> Array:
    if part not in _AXES:
        return _constant(0)
    geometry = batch.machine.geometry
    x, y, _ = geometry.grid
    linear = batch.machine.cta_of[batch.warps][:, None]
    at = (linear % x, linear // x % y, linear // (x * y))[_AXES[part]]
    return of(at, geometry.cluster[_AXES[part]]).astype(np.uint32)


def _time(batch: WarpBatch, name: str) -> Array:
    batch.machine.time += CYCLES_A_READ
    time = batch.machine.time
    if name in ("clock64", "globaltimer"):
        return _constant(time & 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
    return _constant((time >> 32 if name.endswith("_hi") else time) & 0xFFFF_FFFF)


_LANE = np.arange(LANES, dtype=np.uint32)[None, :]
_LANE_MASKS = {
    "eq": np.uint32(1) << _LANE,
    "lt": (np.uint32(1) << _LANE) - np.uint32(1),
    "le": (np.uint64(2) << _LANE.astype(np.uint64)).astype(np.uint32) - np.uint32(1),
    "ge": ~((np.uint32(1) << _LANE) - np.uint32(1)),
    "gt": ~((np.uint64(2) << _LANE.astype(np.uint64)).astype(np.uint32) - np.uint32(1)),
}
_KNOWN = frozenset(
    """tid ntid nctaid cluster_nctaid nclusterid ctaid clusterid cluster_ctaid cluster_ctarank
    cluster_nctarank laneid warpid nwarpid smid nsmid gridid clock clock_hi clock64 globaltimer
    globaltimer_lo globaltimer_hi lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt
    dynamic_smem_size total_smem_size aggr_smem_size reserved_smem_offset_begin
    reserved_smem_offset_end is_explicit_cluster envreg1 envreg2""".split()  # noqa: SIM905
)
