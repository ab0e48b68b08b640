"""cuTensorMapEncodeTiled and -Im2col: from numbers of cuda.h to a tensor map as kernels get it."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrig.emu.cudart.messages import TensorMapMessage
from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.map_image import AnyMap
from kernelrig.emu.tensor.packed_elements import PACKED
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.emu.tensor.tensor_map_rules import (
    ELEMENT_BYTES,
    INTERLEAVES,
    L2_PROMOTIONS,
    OOB_FILLS,
)
from kernelrig.errors import ConfigError

_ALIKE = {10: "f32", 11: "f32", 12: "f32"}
"""FLOAT32_FTZ, TFLOAT32 and TFLOAT32_FTZ are copied as the 32-bit floats that memory has."""
_NEWER = 100
"""The first arch whose driver takes all: with an H100 (driver 580.159.04) it returned
CUDA_ERROR_INVALID_VALUE for each swizzle by atoms and each type under a byte that was tried."""


def tensor_map_of(asked: TensorMapMessage) -> AnyMap:
    """Return the tensor map; `errors` says what CUDA would not take of it.

    Raises ConfigError for a number that cuda.h does not have.
    """
    types = {**dict(enumerate(ELEMENT_BYTES)), **_ALIKE, **dict(enumerate(PACKED, 13))}
    if asked.type not in types:
        raise ConfigError(f"data type {asked.type} is none of cuda.h")
    first = (types[asked.type], asked.address, asked.dims, asked.strides)
    words = (
        _named("interleave", INTERLEAVES, asked.interleave),
        _named("swizzle", tuple(SWIZZLES), asked.swizzle),
        _named("L2 promotion", L2_PROMOTIONS, asked.promotion),
        _named("fill", OOB_FILLS, asked.fill),
    )
    if asked.column is None:
        return TensorMap(*first, asked.box, asked.steps, *words)
    column = asked.column
    return Im2colMap(
        *first, column.lower, column.upper, column.channels, column.pixels, asked.steps, *words
    )


def arch_errors(made: AnyMap, arch: str) -> tuple[str, ...]:
    """Return what the driver of a GPU of `arch`, such as sm_90a, does not take of a tensor map."""
    if int(arch.removeprefix("sm_").rstrip("af")) >= _NEWER:
        return ()
    newer = [f"swizzle is {made.swizzle}"] if "ATOM" in made.swizzle else []
    newer += [f"dtype is {made.dtype}"] if made.dtype in PACKED else []
    return tuple(f"{what}: a GPU of {arch} has none, sm_{_NEWER}a does" for what in newer)


def _named(what: str, names: Sequence[str], number: int) -> str:
    if number >= len(names):
        raise ConfigError(f"{what} {number} is none of cuda.h")
    return names[number]
