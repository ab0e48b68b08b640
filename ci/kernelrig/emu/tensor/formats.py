"""What the elements of an operand are worth.

An operand is a run of 32 bytes a row along K for every type. Values are float32, which holds all of
them exactly; exponents, for the published models of the sums, are those of a significand in [1, 2),
and of the smallest normal number for subnormals and zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import Array

ROW_BYTES = 32
"""Bytes of K that one product takes, whatever the type."""


@dataclass(frozen=True, slots=True)
class Format:
    """A type of elements. `fraction` counts the bits behind the point, `lowest` is the exponent of
    the smallest normal number.

    `bits` is less than those of `bytes` for types under a byte: 16 of them lie packed at the start
    of each 16 bytes, or `dense`, one behind the other.
    """

    name: str
    bytes: int
    fraction: int
    lowest: int
    bits: int = 0
    dense: bool = False

    @property
    def k(self) -> int:
        return ROW_BYTES * 8 // self.bits if self.dense else ROW_BYTES // self.bytes


E4M3 = Format("e4m3", 1, 3, -6)
E5M2 = Format("e5m2", 1, 2, -14)
F16 = Format("f16", 2, 10, -14)
BF16 = Format("bf16", 2, 7, -126)
TF32 = Format("tf32", 4, 10, -126)
S8 = Format("s8", 1, 0, 0)
U8 = Format("u8", 1, 0, 0)

E2M3 = Format("e2m3", 1, 3, 0, 6)
E3M2 = Format("e3m2", 1, 2, -2, 6)
E2M1 = Format("e2m1", 1, 1, 0, 4)
DENSE_E2M1 = Format("e2m1", 1, 1, 0, 4, dense=True)

FORMATS: dict[str, Format] = {f.name: f for f in (E4M3, E5M2, F16, BF16, TF32, S8, U8)}


@cache
def narrow_values(form: Format) -> NDArray[np.float32]:
    """Return the values of the codes of a type under a byte: a sign, an exponent, a fraction."""
    codes = np.arange(1 << form.bits)
    sign = np.where(codes >> form.bits - 1, -1.0, 1.0)
    exponent = codes >> form.fraction & (1 << form.bits - 1 - form.fraction) - 1
    fraction = (codes & (1 << form.fraction) - 1) / (1 << form.fraction)
    size = np.where(exponent == 0, fraction, (1 + fraction) * 2.0 ** (exponent - 1.0))
    return np.asarray(sign * size * 2.0**form.lowest, np.float32)


_PACKED = 16
"""Elements of a type under a byte that lie together in 16 bytes, unless it is dense."""


def _narrow(raw: NDArray[np.uint8], form: Format) -> NDArray[np.float32]:
    if form.bits == 4:
        used = raw if form.dense else raw.reshape(*raw.shape[:-1], -1, _PACKED)[..., :8]
        codes = np.stack((used & 15, used >> 4), axis=-1)
    else:  # four in three bytes
        used = raw.reshape(*raw.shape[:-1], -1, _PACKED)[..., :12]
        first, second, third = (used[..., n::3].astype(np.uint32) for n in range(3))
        word = first | second << 8 | third << 16
        codes = np.stack([word >> 6 * n & 63 for n in range(4)], axis=-1)
    return np.take(narrow_values(form), codes.reshape(*raw.shape[:-1], -1))


@cache
def scale_values(name: str) -> NDArray[np.float64]:
    """Return the values of the 256 codes of a scale: ue8m0 is a power of two, ue4m3 an e4m3."""
    codes = np.arange(256)
    if name == "ue8m0":
        return np.where(codes == 255, np.nan, 2.0 ** (codes - 127.0))
    return np.take(byte_values("e4m3").astype(np.float64), codes & 127)


def byte_values(name: str) -> NDArray[np.float32]:
    """Return the values of the 256 bytes of an 8-bit type."""
    codes = np.arange(256)
    if name == "e5m2":
        return (codes << 8).astype(np.uint16).view(np.float16).astype(np.float32)
    if name == "s8":
        return codes.astype(np.uint8).view(np.int8).astype(np.float32)
    if name == "u8":
        return codes.astype(np.float32)
    sign = np.where(codes >= 128, -1.0, 1.0)
    exponent, fraction = codes >> 3 & 15, codes & 7
    normal = (1 + fraction / 8) * 2.0 ** (exponent - 7)
    value = sign * np.where(exponent == 0, fraction / 8 * 2.0**-6, normal)
    value[(codes & 127) == 127] = np.nan  # no infinity: 448 is the largest
    return value.astype(np.float32)


@cache
def _pairs(name: str) -> NDArray[np.uint64]:
    """Return the values of two bytes at once: half the look-ups."""
    values = byte_values(name)
    table = np.empty((256, 256, 2), np.float32)  # high byte, low byte
    table[..., 0] = values[None, :]
    table[..., 1] = values[:, None]
    return table.view(np.uint64).reshape(-1)


def decode(raw: NDArray[np.uint8], form: Format) -> NDArray[np.float32]:
    """Return the elements of contiguous bytes, the last axis `form.bytes` times shorter."""
    if form.bits:
        return _narrow(raw, form)
    if form.bytes == 1:
        pairs = np.take(_pairs(form.name), raw.view(np.uint16))
        return pairs.view(np.float32)
    if form is F16:
        return raw.view(np.float16).astype(np.float32)
    if form is BF16:
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def exponents(values: Array, form: Format) -> NDArray[np.int16]:
    """Return the exponent of each finite value."""
    exponent = np.frexp(values)[1].astype(np.int16) - np.int16(1)
    exponent[values == 0] = form.lowest
    return np.asarray(np.maximum(exponent, np.int16(form.lowest)))
