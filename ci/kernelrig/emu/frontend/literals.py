"""Constants of PTX as arrays of one element, which broadcast to all lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.numerics.arrays import BOOL, UNSIGNED, Array
from kernelrig.ptx import Float


def integer(value: int, dtype: np.dtype[Any]) -> Array:
    if dtype == BOOL:
        return np.array([[bool(value)]])
    bits = value & ((1 << 8 * dtype.itemsize) - 1)
    return np.array([[bits]], UNSIGNED[dtype.itemsize]).view(dtype)


def floating(value: Float, dtype: np.dtype[Any]) -> Array:
    if value.width == 8 * dtype.itemsize:
        return np.array([[value.bits]], UNSIGNED[dtype.itemsize]).view(dtype)
    if value.width == 64 and dtype.itemsize == 4:  # a decimal constant is rounded to its type
        double = np.array([[value.bits]], np.uint64).view(np.float64)
        return double.astype(np.float32).view(dtype)
    raise Unsupported(f"constant {value} is no {dtype.name}")
