"""The inputs of a kernel in NumPy: the hash, the number formats, the patterns.

The same bits as kernel/inputs.cuh makes, by an independent implementation: the CUDA reference and
the kernels share that header, so an error in it would be common to both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.model import Pattern

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]
Words = NDArray[np.uint16]
Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


# --- the hash ------------------------------------------------------------------------------------


def splitmix64(x: Hashes) -> Hashes:
    """Mix each number; all arithmetic is modulo 2^64, which is how NumPy's arrays wrap."""
    x = x + np.uint64(GOLDEN_GAMMA)
    shifted = np.empty_like(x)  # the only other array: millions of elements are hashed
    for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= np.right_shift(x, np.uint64(bits), out=shifted)
        x *= np.uint64(factor)
    x ^= np.right_shift(x, np.uint64(31), out=shifted)
    return x


def fnv1a64(text: str) -> int:
    hashed = 0xCBF29CE484222325
    for byte in text.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & _MASK
    return hashed


def hash_base(name: str, seed: int) -> int:
    """Return the start value of all hashes of the buffer `name` under `seed`."""
    mixed = splitmix64(np.array([seed & _MASK], np.uint64))
    return fnv1a64(name) ^ int(mixed[0])


def hash_at(name: str, seed: int, indices: Indices) -> Hashes:
    """Return h(name, seed, i) for each row-major flat index."""
    steps = indices.astype(np.uint64)
    steps *= np.uint64(GOLDEN_GAMMA)
    steps += np.uint64(hash_base(name, seed))
    return splitmix64(steps)


def unit_at(name: str, seed: int, indices: Indices) -> Floats:
    """Return u, uniform in [0, 1): the upper 24 bits of the hash, exact in FP32."""
    hashes = hash_at(name, seed, indices)
    hashes >>= np.uint64(40)
    upper = hashes.astype(np.float32)
    upper *= np.float32(2.0**-24)
    return upper


def unit_double_at(name: str, seed: int, indices: Indices) -> Doubles:
    """Return u with as many bits as a double has: the upper 53 of the hash."""
    return np.asarray((hash_at(name, seed, indices) >> np.uint64(11)) * 2.0**-53, np.float64)


def uniform_at(name: str, seed: int, indices: Indices, low: float, high: float) -> Floats:
    """Return low + (high - low) * u, product and sum rounded apart: the fill `hash`."""
    values = unit_at(name, seed, indices)
    values *= np.float32(np.float32(high) - np.float32(low))
    values += np.float32(low)
    return values


# --- the number formats --------------------------------------------------------------------------


def bf16_bits(values: Floats) -> Words:
    """Round to BF16, nearest even; every NaN becomes the canonical 0x7FFF."""
    bits = values.view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits  # only a NaN's wraps around
    rounded >>= np.uint32(16)
    words = rounded.astype(np.uint16)
    words[np.isnan(values)] = 0x7FFF
    return words


def bf16_values(bits: Words) -> Floats:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_sum(a: Words, b: Words) -> Words:
    """Return a +bf16 b; the sum in FP32 rounds twice without harm (24 >= 2 * 8 + 2 bits)."""
    return bf16_bits(bf16_values(a) + bf16_values(b))


def bf16_ulp(magnitudes: Doubles) -> Doubles:
    """Return the ulp: the distance of neighbouring BF16 numbers at each magnitude."""
    _, exponents = np.frexp(np.maximum(magnitudes, 2.0**-126))
    # frexp's fraction lies in [1/2, 1), and eight significant bits follow from there
    ulp: Doubles = np.ldexp(np.ones_like(magnitudes), exponents - 8)
    return ulp


def _e4m3_table() -> Floats:
    codes = np.arange(128)
    exponents, mantissas = codes >> 3, codes & 7
    subnormal = np.ldexp(mantissas.astype(np.float64), -9)
    normal = np.ldexp(8.0 + mantissas, exponents - 10)
    values = np.where(exponents == 0, subnormal, normal)
    values[127] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


E4M3_VALUES = _e4m3_table()
"""The value of each E4M3 code: 1-4-3, bias 7, no infinity, 448 the largest, 0x7F and 0xFF NaN."""

_LEAST_NORMAL = np.float32(2.0**-6)
_PER_SUBNORMAL = np.float32(2.0**9)
_REBIASED = np.uint32((127 - 7) << 3)
"""What the exponents of FP32 and E4M3 differ by, above three bits of mantissa."""


def e4m3_codes(values: Floats) -> Codes:
    """Round to E4M3, nearest even, saturating at 448."""
    magnitudes = np.abs(values)
    bits = magnitudes.view(np.uint32)
    # A normal number: the upper bits of FP32 with half a step added, or less on a tie to even.
    codes = bits >> np.uint32(20)
    codes &= np.uint32(1)
    codes += np.uint32(0x7FFFF)
    codes += bits
    codes >>= np.uint32(20)
    codes -= np.minimum(codes, _REBIASED)
    np.minimum(codes, np.uint32(126), out=codes)
    small = magnitudes < _LEAST_NORMAL
    if small.any():
        codes[small] = np.rint(magnitudes[small] * _PER_SUBNORMAL)
    codes[np.isnan(values)] = 127
    codes |= np.signbit(values).astype(np.uint32) << np.uint32(7)
    return codes.astype(np.uint8)


# --- the patterns --------------------------------------------------------------------------------


_THIRDS = e4m3_codes(np.array([-1.0, 0.0, 1.0], np.float32))


def operand_codes(pattern: Pattern, name: str, seed: int, indices: Indices) -> Codes:
    """Return the E4M3 codes of elements of A or B."""
    if pattern is Pattern.CONSTANT:
        return np.full(indices.shape, e4m3_codes(np.array([1.5], np.float32))[0])
    if pattern is Pattern.INTEGER:
        thirds = uniform_at(name, seed, indices, 0.0, 3.0)
        return _THIRDS.take(thirds.astype(np.int8))
    return e4m3_codes(uniform_at(name, seed, indices, -2.0, 2.0))


def table_values(pattern: Pattern, name: str, seed: int, indices: Indices) -> Floats:
    """Return elements of bias or pos_embed, before their sum is rounded to BF16."""
    if pattern is Pattern.CONSTANT:
        return np.zeros(indices.shape, np.float32)
    if pattern is Pattern.INTEGER:
        return np.floor(uniform_at(name, seed, indices, 0.0, 17.0)) - np.float32(8.0)
    return uniform_at(name, seed, indices, -1.0, 1.0)


def combined_bits(
    pattern: Pattern, seed: int, positions: Indices, columns: Indices, n: int
) -> Words:
    """Return comb = bf16(bias[column] + pos_embed[position, column]), element by element."""
    bias = table_values(pattern, "bias", seed, columns)
    pos = table_values(pattern, "pos_embed", seed, positions * n + columns)
    return bf16_bits(bias + pos)
