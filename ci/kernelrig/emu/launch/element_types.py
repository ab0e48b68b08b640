"""The element types of buffers, as arrays and as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import Array
from kernelrig.reference.inputs import E4M3_VALUES, bf16_bits, bf16_values, e4m3_codes

DTYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(np.uint8) for name in ("e4m3", "e5m2", "u8")},
    **{name: np.dtype(np.uint16) for name in ("bf16", "u16")},
    **{name: np.dtype(name.replace("i", "int")) for name in ("i8", "i16", "i32", "i64")},
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""Type -> what its arrays are made of; e4m3, e5m2 and bf16 are kept as their bits."""


def encoded(values: NDArray[np.float64], dtype: str) -> Array:
    """Round numbers to `dtype`, nearest even; e4m3 and e5m2 saturate, integers are cut."""
    single = values.astype(np.float32)
    match dtype:
        case "e4m3":
            return e4m3_codes(single)
        case "e5m2":
            return _e5m2_codes(single)
        case "bf16":
            return bf16_bits(single)
        case "f16" | "f32" | "f64":
            return values.astype(DTYPES[dtype])
    return np.trunc(values).astype(np.int64).astype(DTYPES[dtype])


def decoded(array: Array, dtype: str) -> NDArray[np.float64]:
    """Return the numbers that the elements of `dtype` stand for."""
    match dtype:
        case "e4m3":
            return E4M3_VALUES[array].astype(np.float64)
        case "e5m2":
            return (array.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
        case "bf16":
            return bf16_values(array).astype(np.float64)
    return array.astype(np.float64)


def _e5m2_codes(values: NDArray[np.float32]) -> Array:
    """The upper half of an f16, rounded to nearest even from the f32 itself."""
    clipped = np.clip(values, -57344, 57344)
    codes = np.arange(0x7C, dtype=np.uint16)
    known = (codes << 8).view(np.float16).astype(np.float64)
    magnitude = np.abs(clipped).astype(np.float64)
    above = np.minimum(np.searchsorted(known, magnitude), 0x7B)
    below = np.maximum(above - 1, 0)
    up, down = known[above] - magnitude, magnitude - known[below]
    nearer = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    found = np.where(np.isnan(values), 0x7F, nearer)
    return (found | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
