"""What cuTensorMapEncodeIm2col takes: cuda.h's rules (CUDA 13.0), and an H100's."""

from __future__ import annotations

from typing import Protocol

from kernelrig.emu.tensor.tensor_map_rules import (
    Tensor,
    count_errors,
    dims_and_strides_errors,
    packed_errors,
    range_errors,
    row_errors,
    size_errors,
    step_errors,
    together_errors,
    word_errors,
)

RANKS = range(3, 6)
MAX_CHANNELS = 256
MAX_PIXELS = 1024
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""By rank: bits of each coordinate of a corner, which are signed."""
OFFSET_BITS = CORNER_BITS
"""Of an offset, which are not."""
MAX_LAST = (1 << 31) - 2
"""The last pixel of a bounding box in a dimension; an H100's driver takes none behind it."""


class Asked(Tensor, Protocol):
    """What was asked for: im2col_map.Im2colMap."""

    @property
    def lower_corner(self) -> tuple[int, ...]: ...
    @property
    def upper_corner(self) -> tuple[int, ...]: ...
    @property
    def channels_per_pixel(self) -> int: ...
    @property
    def pixels_per_column(self) -> int: ...
    @property
    def box_bytes(self) -> int: ...


def shape_errors(of: Asked) -> list[str]:
    found = word_errors(of)
    if of.rank not in RANKS:
        return [*found, f"dims has {of.rank} entries: 3 to 5 are allowed"]
    found += count_errors("strides_bytes", of.strides_bytes, of.rank - 1)
    found += count_errors("lower_corner", of.lower_corner, of.rank - 2)
    found += count_errors("upper_corner", of.upper_corner, of.rank - 2)
    return found + count_errors("element_strides", of.element_strides, of.rank)


def value_errors(of: Asked) -> list[str]:
    found = dims_and_strides_errors(of)
    found += range_errors("channels_per_pixel", of.channels_per_pixel, MAX_CHANNELS)
    found += range_errors("pixels_per_column", of.pixels_per_column, MAX_PIXELS)
    found += step_errors(of)
    found += _corner_errors(of)
    found += row_errors(of, "channels_per_pixel", of.channels_per_pixel)
    found += size_errors(of.box_bytes)
    found += together_errors(of)
    return found + packed_errors(of, "channels_per_pixel", of.channels_per_pixel)


def _corner_errors(of: Asked) -> list[str]:
    limit = 1 << CORNER_BITS[of.rank] - 1
    found = [
        f"{field}[{i}] is {value}: {-limit} to {limit - 1} is allowed with {of.rank} dims"
        for field, values in (
            ("lower_corner", of.lower_corner),
            ("upper_corner", of.upper_corner),
        )
        for i, value in enumerate(values)
        if not -limit <= value < limit
    ]
    for i, (dim, lower, upper) in enumerate(
        zip(of.dims[1:-1], of.lower_corner, of.upper_corner, strict=True)
    ):
        if dim - 1 + upper > MAX_LAST:
            found.append(
                f"the bounding box of dims[{i + 1}] ends at {dim - 1 + upper}: at most {MAX_LAST}"
                " is allowed"
            )
        if lower > dim - 1 + upper:
            found.append(
                f"the bounding box of dims[{i + 1}] begins at {lower} and ends at"
                f" {dim - 1 + upper}: a pixel is wanted"
            )
    return found
