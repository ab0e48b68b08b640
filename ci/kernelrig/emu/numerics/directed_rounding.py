"""Quotients and roots of float64 rounded down, up or towards zero, from the nearest ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from kernelrig.emu.numerics.arrays import Array


def directed_64(opcode: str, mode: str, nearest: Callable[..., Array]) -> Callable[..., Array]:
    """Return `nearest` (div, rcp or sqrt of float64) with another mode: rz, rm or rp."""

    def run(*operands: Array) -> Array:
        found = nearest(*operands)
        given = np.broadcast_arrays(found, *operands)
        flat = (one.reshape(-1).tolist() for one in given)
        rounded = [_moved(opcode, mode, *values) for values in zip(*flat, strict=True)]
        return np.array(rounded, np.float64).reshape(given[0].shape)

    return run


def _moved(opcode: str, mode: str, near: float, *operands: float) -> float:
    if math.isnan(near) or not all(map(math.isfinite, operands)):
        return near
    over = _excess(opcode, near, *operands)
    if over > 0 and (mode == "rm" or (mode == "rz" and near > 0)):
        return math.nextafter(near, -math.inf)
    if over < 0 and (mode == "rp" or (mode == "rz" and near < 0)):
        return math.nextafter(near, math.inf)
    return near


def _excess(opcode: str, near: float, *operands: float) -> float:
    """Return a number with the sign of what `near` is above the exact result."""
    if opcode == "sqrt":
        exact = Fraction(near) ** 2 - Fraction(operands[0])
        return (exact > 0) - (exact < 0)
    above, below = (1.0, operands[0]) if opcode == "rcp" else operands
    if not below:
        return 0
    if math.isinf(near):  # it is too large for a float64
        return near
    exact = Fraction(near) - Fraction(above) / Fraction(below)
    return (exact > 0) - (exact < 0)
