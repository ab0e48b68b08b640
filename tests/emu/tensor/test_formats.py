"""What the bytes of each type are worth."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.tensor.formats import BF16, E4M3, E5M2, F16, TF32, Format, decode, exponents


@pytest.mark.parametrize(
    ("code", "value"),
    [(0x7E, 448), (0x08, 2**-6), (0x01, 2**-9), (0x07, 7 * 2**-9), (0xB8, -1), (0x80, -0.0)],
)
def test_e4m3(code: int, value: float) -> None:
    assert decode(np.array([code, 0], np.uint8), E4M3)[0] == value


def test_e4m3_has_two_nans_and_no_infinity() -> None:
    values = decode(np.arange(256, dtype=np.uint8), E4M3)
    assert np.flatnonzero(np.isnan(values)).tolist() == [0x7F, 0xFF]
    assert not np.isinf(values).any()


@pytest.mark.parametrize(("code", "value"), [(0x7B, 57344), (0x01, 2**-16), (0xFC, -np.inf)])
def test_e5m2(code: int, value: float) -> None:
    assert decode(np.array([0, code], np.uint8), E5M2)[1] == value


@pytest.mark.parametrize(
    ("form", "raw", "value"),
    [
        (F16, [0x00, 0x3C], 1.0),
        (BF16, [0x80, 0xBF], -1.0),
        (TF32, [0xFF, 0x1F, 0x80, 0x3F], 1.0),  # the low 13 bits are not looked at
    ],
)
def test_wider_types(form: Format, raw: list[int], value: float) -> None:
    assert decode(np.array(raw, np.uint8), form).tolist() == [value]


def test_zeros_and_subnormals_have_the_lowest_exponent() -> None:
    values = np.array([0, 2**-9, 2**-6, 1.75, 448], np.float32)
    assert exponents(values, E4M3).tolist() == [-6, -6, -6, 0, 8]
