"""What a launch file may say of shared and tensor memory, so that messages use the kernel's names.

Schema 2 of the launch file; both keys are optional. Offsets are from the start of dynamic shared
memory, columns from the first column of tensor memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelrig.emu.machine.region_names import MBARRIER_BYTES, SharedRegion, TensorRegion

TENSOR_COLUMNS = 512


@dataclass(frozen=True, slots=True)
class SharedEntry:
    """`count` elements, `stride_bytes` apart; an element has `size_bytes`: the stride if unset."""

    name: str
    kind: Literal["mbarrier", "buffer", "word"]
    offset_bytes: int
    stride_bytes: int
    count: int = 1
    size_bytes: int | None = None

    @property
    def element_bytes(self) -> int:
        return self.stride_bytes if self.size_bytes is None else self.size_bytes

    @property
    def spans(self) -> list[tuple[int, int]]:
        """[first, end) of each element."""
        starts = (self.offset_bytes + i * self.stride_bytes for i in range(self.count))
        return [(start, start + self.element_bytes) for start in starts]


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """`count` elements of `columns` columns each, side by side from `column`."""

    name: str
    column: int
    columns: int
    count: int = 1


def layout_errors(
    shared: Sequence[SharedEntry], tensor: Sequence[TensorEntry], dynamic_smem_bytes: int
) -> list[str]:
    """Return a sentence for each entry that contradicts itself, another one or the launch."""
    said = [text for entry in shared if (text := _shared_error(entry, dynamic_smem_bytes))]
    said += [text for entry in tensor if (text := _tensor_error(entry))]
    if said:
        return said
    said += _overlaps("shared_layout", "byte", ((e.name, s) for e in shared for s in e.spans))
    columns = ((e.name, (e.column, e.column + e.columns * e.count)) for e in tensor)
    return said + _overlaps("tensor_layout", "column", columns)


def _shared_error(entry: SharedEntry, dynamic_smem_bytes: int) -> str:
    what = f"'shared_layout': {entry.name!r}"
    if entry.count < 1 or entry.stride_bytes < 1 or entry.offset_bytes < 0:
        return f"{what}: count and stride_bytes start at 1, offset_bytes at 0"
    if not 1 <= entry.element_bytes <= entry.stride_bytes:
        return f"{what}: size_bytes must be from 1 to the stride of {entry.stride_bytes}"
    if entry.kind == "mbarrier" and entry.element_bytes != MBARRIER_BYTES:
        return f"{what}: an mbarrier has {MBARRIER_BYTES} bytes, not {entry.element_bytes}"
    end = entry.offset_bytes + (entry.count - 1) * entry.stride_bytes + entry.element_bytes
    if end > dynamic_smem_bytes:
        return f"{what} ends at byte {end}, 'dynamic_smem_bytes' is {dynamic_smem_bytes}"
    return ""


def _tensor_error(entry: TensorEntry) -> str:
    what = f"'tensor_layout': {entry.name!r}"
    if entry.count < 1 or entry.columns < 1 or entry.column < 0:
        return f"{what}: count and columns start at 1, column at 0"
    end = entry.column + entry.columns * entry.count
    if end > TENSOR_COLUMNS:
        return f"{what} ends at column {end}, beyond the {TENSOR_COLUMNS} of tensor memory"
    return ""


def _overlaps(key: str, unit: str, spans: Iterable[tuple[str, tuple[int, int]]]) -> list[str]:
    last, end = "", 0
    for name, (first, behind) in sorted(spans, key=lambda s: s[1]):
        if first < end:
            return [f"{key!r}: {last!r} and {name!r} overlap at {unit} {first}"]
        last, end = name, behind
    return []


def shared_regions(entries: Iterable[SharedEntry], base: int) -> tuple[SharedRegion, ...]:
    """Return the regions of entries, where dynamic shared memory starts at address `base`."""
    return tuple(
        SharedRegion(
            e.name, base + e.offset_bytes, e.element_bytes, e.stride_bytes, e.count, e.kind
        )
        for e in entries
    )


def tensor_regions(entries: Iterable[TensorEntry]) -> tuple[TensorRegion, ...]:
    return tuple(TensorRegion(e.name, e.column, e.columns, e.count) for e in entries)
