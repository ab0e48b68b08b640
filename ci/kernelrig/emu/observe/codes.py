"""What lanes of a warp accessed by one instruction, as codes of the granules they hit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords, shared_code
from kernelrig.emu.observe.order_check import Access
from kernelrig.emu.observe.shadow import Region

ALL_LANES = np.arange(LANES, dtype=np.int32)


def lanes_in(bits: int) -> Array:
    """Return the numbers of the lanes that are set."""
    if bits & (bits - 1) == 0:
        return np.array([bits.bit_length() - 1], np.int32)
    return np.flatnonzero(bits >> ALL_LANES.astype(np.int64) & 1).astype(np.int32)


def codes_of(
    region: Region, access: Access, record: int, flat: Array, lanes: Array
) -> tuple[Array, Array, Array]:
    """Return distinct granules, and for each its code and its lane, -1 for several."""
    if len(flat) > 1:
        steps = flat[1:] - flat[:-1]
        if steps.min() < access.size:
            if not steps.any():
                granules, _ = region.granules(flat[:1], access.size, aligned=True)
                code = shared_code(region.records, record << LANE_BITS, access.bits)
                return granules, np.full(len(granules), code, np.int32), _several(granules)
            if (np.diff(np.sort(flat)) < access.size).any():
                return _merged(region, access, record, flat, lanes)
    granules, each = region.granules(flat, access.size, aligned=True)
    own = lanes if each == 1 else np.repeat(lanes, each)
    return granules, own + np.int32(record << LANE_BITS), own


def _merged(
    region: Region, access: Access, record: int, flat: Array, lanes: Array
) -> tuple[Array, Array, Array]:
    """As `_codes`, where lanes share granules."""
    granules, each = region.granules(flat, access.size, aligned=True)
    lanes = np.repeat(lanes, each)
    by = np.argsort(granules, kind="stable")
    granules, lanes = granules[by], lanes[by]
    first = np.flatnonzero(np.diff(granules, prepend=-1))
    bits = np.left_shift(np.uint32(1), lanes.astype(np.uint32))
    masks = np.bitwise_or.reduceat(bits, first)
    codes = lanes[first] + np.int32(record << LANE_BITS)
    own = lanes[first].copy()
    several = masks & (masks - np.uint32(1)) != 0
    own[several] = -1
    for mask in np.unique(masks[several]).tolist():
        codes[masks == mask] = shared_code(region.records, record << LANE_BITS, mask)
    return granules[first], codes, own


def _several(granules: Array) -> Array:
    return np.full(len(granules), -1, np.int32)


def note_non_coherent(region: Region, granules: Array, codes: Array) -> None:
    """Remember reads by ld.global.nc."""
    if region.non_coherent is None:
        region.non_coherent = np.zeros_like(region.writes)
    region.non_coherent[granules] = codes


def by_itself(
    records: AccessRecords, access: Access, codes: Array, own: Array | int
) -> NDArray[np.bool_]:
    """Say which of the codes are of the very thread that accesses now."""
    number = codes >> LANE_BITS
    return np.asarray(
        (records.column[number] + (codes & (LANES - 1)) == own)
        & (records.mask[number] == 0)
        & (records.cluster[number] == access.cluster.number)
    )
