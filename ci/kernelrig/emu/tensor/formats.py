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
    """

    name: str
    bytes: int
    fraction: int
    lowest: int

    @property
    def k(self) -> int:
        return ROW_BYTES // self.bytes


E4M3 = Format("e4m3", 1, 3, -6)
E5M2 = Format("e5m2", 1, 2, -14)
F16 = Format("f16", 2, 10, -14)
BF16 = Format("bf16", 2, 7, -126)
TF32 = Format("tf32", 4, 10, -126)
S8 = Format("s8", 1, 0, 0)
U8 = Format("u8", 1, 0, 0)

FORMATS: dict[str, Format] = {f.name: f for f in (E4M3, E5M2, F16, BF16, TF32, S8, U8)}


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
