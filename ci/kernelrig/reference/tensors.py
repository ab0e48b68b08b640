"""The inputs of an operation in NumPy, and the numbers of its element types.

The same bits as kernel/tensor.cuh makes, by an independent implementation: an error in that header
would be common to a kernel and to what it is compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.model import Dtype, InputTensor, Pattern, Values
from kernelrig.reference.inputs import (
    E4M3_VALUES,
    Doubles,
    Floats,
    Indices,
    bf16_bits,
    bf16_values,
    e4m3_codes,
    hash_at,
    unit_at,
    unit_double_at,
)

Elements = NDArray[Any]
Numbers = NDArray[Any]
"""Doubles; of I64 and U64 integers, of which doubles have only 53 bits."""
Reals = NDArray[np.floating[Any]]
WIDE_INTEGERS = (Dtype.I64, Dtype.U64)
STORED: dict[Dtype, np.dtype[Any]] = {
    Dtype.E4M3: np.dtype(np.uint8),
    Dtype.E5M2: np.dtype(np.uint8),
    Dtype.BF16: np.dtype("<u2"),
    Dtype.F16: np.dtype("<f2"),
    Dtype.F32: np.dtype("<f4"),
    Dtype.F64: np.dtype("<f8"),
    Dtype.I8: np.dtype(np.int8),
    Dtype.U8: np.dtype(np.uint8),
    Dtype.I16: np.dtype("<i2"),
    Dtype.U16: np.dtype("<u2"),
    Dtype.I32: np.dtype("<i4"),
    Dtype.U32: np.dtype("<u4"),
    Dtype.I64: np.dtype("<i8"),
    Dtype.U64: np.dtype("<u8"),
}
"""What arrays of a type are made of; E4M3, E5M2 and BF16 are kept as their bits."""

ROUNDING: dict[Dtype, tuple[float, float]] = {
    Dtype.E4M3: (2.0**-4, 2.0**-10),
    Dtype.E5M2: (2.0**-3, 2.0**-17),
    Dtype.BF16: (2.0**-8, 2.0**-126),
    Dtype.F16: (2.0**-11, 2.0**-25),
    Dtype.F32: (2.0**-24, 2.0**-149),
    Dtype.F64: (2.0**-53, 2.0**-1074),
}
"""The most that rounding to a type changes a number: relative to it, and absolute near 0."""

RAMP = 251
"""Elements after which a ramp begins anew: no power of two, so that rows differ."""
_AT_ONCE = 1 << 20
_LARGEST_E5M2 = 57344.0


def input_elements(tensor: InputTensor, pattern: Pattern, seed: int) -> Elements:
    """Return the whole tensor as it is stored."""
    made = np.empty(tensor.elements, STORED[tensor.dtype])
    for first in range(0, tensor.elements, _AT_ONCE):
        indices = np.arange(first, min(first + _AT_ONCE, tensor.elements), dtype=np.int64)
        made[first : first + indices.size] = encoded(
            _values(tensor, pattern, seed, indices), tensor.dtype
        )
    return made.reshape(tensor.shape)


def _values(tensor: InputTensor, pattern: Pattern, seed: int, indices: Indices) -> Reals:
    """Return values in FP32, of a type of 64 bits in FP64."""
    wide = tensor.dtype.bytes_each == 8
    real: Any = np.float64 if wide else np.float32
    if tensor.values is Values.ZEROS:
        return np.zeros(indices.size, real)
    if pattern is Pattern.CONSTANT:
        return np.ones(indices.size, real)
    unit_of = unit_double_at if wide else unit_at
    if pattern is Pattern.INTEGER:
        thirds: Reals = np.floor(unit_of(tensor.name, seed, indices) * real(3.0))
        return thirds if tensor.dtype.is_unsigned else thirds - real(1.0)
    low, high = real(tensor.low), real(tensor.high)
    if tensor.values is Values.RAMP:
        steps: Reals = (indices % RAMP).astype(real) * real(2.0**-8)
        ramp: Reals = steps * (high - low) + low
        return ramp
    values: Reals = unit_of(tensor.name, seed, indices) * (high - low) + low
    if tensor.values is Values.UNIFORM:
        return values
    halvings = (hash_at(tensor.name, seed, indices) & np.uint64(15)).astype(np.int32)
    return np.asarray(np.ldexp(values, -halvings), real)


def encoded(values: Reals, dtype: Dtype) -> Elements:
    """Round numbers (doubles, floats or integers) to `dtype` as it is stored: nearest even, cut for
    integers.

    What exceeds a type becomes its infinity; E4M3 and E5M2 have their largest number in its place.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        match dtype:
            case Dtype.E4M3:
                return e4m3_codes(_once_rounded(values))
            case Dtype.E5M2:
                half = np.clip(values, -_LARGEST_E5M2, _LARGEST_E5M2)
                return _e5m2_codes(half.astype(np.float64))
            case Dtype.BF16:
                return bf16_bits(_once_rounded(values))
            case Dtype.F16 | Dtype.F32 | Dtype.F64:
                return values.astype(STORED[dtype])
        if values.dtype.kind in "iu":
            return values.astype(STORED[dtype])
        return np.trunc(values).astype(np.int64).astype(STORED[dtype])


def decoded(elements: Elements, dtype: Dtype) -> Numbers:
    """Return the numbers that stored elements stand for."""
    if dtype in WIDE_INTEGERS:
        return elements
    match dtype:
        case Dtype.E4M3:
            return E4M3_VALUES[elements].astype(np.float64)
        case Dtype.E5M2:
            return (elements.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
        case Dtype.BF16:
            elements = bf16_values(elements)
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return elements.astype(np.float64)


def _once_rounded(values: Reals) -> Floats:
    """Return FP32 numbers that round on to fewer bits as `values` do: to odd, not to nearest.

    A double on no FP32 number goes to the one of its two neighbours whose last bit is 1, which is
    no tie of a shorter format.
    """
    if values.dtype == np.float32:
        return np.asarray(values, np.float32)
    single = values.astype(np.float32)
    inexact = (single.astype(np.float64) != values) & np.isfinite(single)
    bits = single.view(np.uint32).copy()
    away = inexact & (bits & np.uint32(1) == 0)
    toward = np.where(values > single.astype(np.float64), np.inf, -np.inf).astype(np.float32)
    bits[away] = np.nextafter(single, toward)[away].view(np.uint32)
    return bits.view(np.float32)


def _e5m2_codes(values: Doubles) -> NDArray[np.uint8]:
    """Round to E5M2, nearest even: the upper half of an FP16 number."""
    known = (np.arange(0x7C, dtype=np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
    magnitudes = np.abs(values)
    above = np.minimum(np.searchsorted(known, magnitudes), 0x7B)
    below = np.maximum(above - 1, 0)
    up, down = known[above] - magnitudes, magnitudes - known[below]
    nearer = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    found = np.where(np.isnan(values), 0x7F, nearer)
    return (found | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
