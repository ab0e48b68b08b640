"""Whether a tile is read by the swizzle that it was written with.

A tensor copy lays its box out by its map's swizzle; the descriptor of a product, or the map of a
store, says by which one it is read. Where they differ the rows of the tile change places. That is
within the rules of PTX, and wrong: no two swizzles lay out rows of 32 bytes and more alike.
"""

from __future__ import annotations

from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import AsyncOperation
from kernelrig.emu.observe.order_check import Access
from kernelrig.emu.observe.shadow import Region
from kernelrig.emu.tensor.swizzle import SWIZZLES

_NAMES = {one.number: one.name for one in SWIZZLES.values()}


class TileSwizzles:
    """What was told of; each pair of instructions is told of once a CTA."""

    def __init__(self, records: AccessRecords) -> None:
        self.records = records
        self._told: set[tuple[int, int, int]] = set()

    def other(
        self, region: Region, access: Access, flat: int, swizzle: int
    ) -> tuple[int, int, int] | None:
        """Return the granule at `flat`, the code of the copy that wrote it, and its swizzle, if it
        is read by another one.
        """
        granule = (flat - region.start) >> region.shift
        code = int(region.writes[granule])
        who = self.records.entries[code >> LANE_BITS].who
        if not isinstance(who, AsyncOperation) or who.swizzle in (0, swizzle):
            return None
        pair = (access.at, int(self.records.at[code >> LANE_BITS]), access.cta)
        if pair in self._told:
            return None
        self._told.add(pair)
        return granule, code, who.swizzle


def text_of(written: int, read: int, *, stores: bool) -> str:
    """Return the words for a tile of those swizzles."""
    by = "the map of this store" if stores else "the matrix descriptor"
    return (
        f"{by} has {_with(read)}, and the map of that copy has {_with(written)}: what it reads is"
        " out of place"
    )


def _with(swizzle: int) -> str:
    name = _NAMES.get(swizzle, "another one")
    return "no swizzle" if name == "none" else f"swizzle {name}"
