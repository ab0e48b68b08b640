"""Sums by the published models, against the same rules in exact integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from kernelrig.emu.tensor.formats import E4M3, E5M2, Format, byte_values
from kernelrig.emu.tensor.summation import BLACKWELL_FP8, HOPPER_FP8, Rounding, hardware_sum


def exponent_of(value: Fraction, lowest: int) -> int:
    """The exponent of a significand in [1, 2), and `lowest` for what is smaller."""
    exponent = lowest
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    return exponent


def truncated(value: Fraction, unit: Fraction) -> Fraction:
    whole = abs(value) // unit
    return whole * unit if value >= 0 else -whole * unit


def by_the_rules(a: list[float], b: list[float], c: float, lowest: int, how: Rounding) -> float:
    pairs = [(Fraction(x), Fraction(y)) for x, y in zip(a, b, strict=True)]
    exponents = [exponent_of(x, lowest) + exponent_of(y, lowest) for x, y in pairs if x and y]
    if c:
        exponents.append(exponent_of(Fraction(c), -126))
    if not exponents:
        return 0.0
    unit = Fraction(2) ** (max(exponents) - how.fraction)
    total = sum((truncated(x * y, unit) for x, y in pairs), truncated(Fraction(c), unit))
    if not total:
        return 0.0
    return float(truncated(total, Fraction(2) ** (exponent_of(total, -126) - how.result)))


@pytest.mark.parametrize("how", [BLACKWELL_FP8, HOPPER_FP8])
@pytest.mark.parametrize("form", [E4M3, E5M2])
@pytest.mark.parametrize("spread", [3, 60, 120])
def test_sums_are_those_of_the_model(how: Rounding, form: Format, spread: int) -> None:
    rng = np.random.default_rng(spread)
    codes = rng.integers(64 - spread // 2, 64 + spread // 2, (2, 6, 32)) & 0x7F
    codes = np.where(codes >= 0x7C, 0, codes) | rng.integers(0, 2, codes.shape) << 7
    a, b = byte_values(form.name)[codes]
    c = (rng.standard_normal((6, 6)) * 2.0 ** rng.integers(-20, 20, (6, 6))).astype(np.float32)
    c[0] = 0
    found = hardware_sum(a, b, (form, form), c, how)
    for m in range(6):
        for n in range(6):
            wanted = by_the_rules(a[m].tolist(), b[n].tolist(), float(c[m, n]), form.lowest, how)
            assert found[m, n] == np.float32(wanted), (m, n)


def test_hopper_keeps_13_bits_where_blackwell_keeps_25() -> None:
    a = np.zeros((1, 32), np.float32)
    b = np.zeros((1, 32), np.float32)
    a[0, :2], b[0, :2] = (16, 2**-6), (16, 2**-6)  # 2^8 and 2^-12
    forms = (E4M3, E4M3)
    assert hardware_sum(a, b, forms, None, HOPPER_FP8)[0, 0] == 256
    assert hardware_sum(a, b, forms, None, BLACKWELL_FP8)[0, 0] == 256 + 2**-12


def test_what_is_cut_is_cut_toward_zero() -> None:
    a = np.zeros((2, 32), np.float32)
    b = np.ones((1, 32), np.float32)
    a[:, 0] = (1, -1)
    c = np.array([[2.0**-14], [-(2.0**-14)]], np.float32)
    found = hardware_sum(a, b, (E4M3, E4M3), c, HOPPER_FP8)
    assert found.tolist() == [[1.0], [-1.0]]


def test_nan_is_canonical_and_infinities_stay() -> None:
    a, b = np.ones((1, 32), np.float32), np.ones((2, 32), np.float32)
    b[0, 3] = np.nan
    found = hardware_sum(a, b, (E4M3, E4M3), np.array([[1, np.inf]], np.float32), BLACKWELL_FP8)
    assert found.view(np.uint32).tolist() == [[0x7FFFFFFF, 0x7F800000]]
