"""cvt.rs against a model by fractions: a carry out of what is cut off rounds away from zero."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.isa.test_convert_narrow import converted

EDGES = np.array(
    [0, 1, 0x00800000, 0x33800000, 0x387FFFFF, 0x38800001, 0x3A800000, 0x3C7FFFFF, 0x3C800001,
     0x3F800000, 0x3F801FFF, 0x3F8FFFFF, 0x43DFFFFF, 0x43E00000, 0x43E80000, 0x477FE000,
     0x477FFFFF, 0x47800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000],
    np.uint32,
)  # fmt: skip


def inputs(seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Values of about the size of the types, edges among them, and random bits."""
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(400) * 2.0 ** rng.integers(-30, 18, 400)).astype(np.float32)
    bits = np.concatenate([EDGES, EDGES | 0x80000000, values.view(np.uint32)])
    randoms = rng.integers(0, 1 << 32, len(bits), np.uint32)
    randoms[::7], randoms[1::7] = 0, 0xFFFFFFFF
    return bits, randoms


def stochastic(x: float, random: int, bits: int, digits: int, lowest: int) -> Fraction:
    """The number of the format at or above |x|: above where the random bits carry."""
    size = abs(Fraction(x))
    exponent = lowest
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - digits)
    return (size / unit + Fraction(random, 1 << bits)) // 1 * unit


def f16(bits: int, random: int, *, finite: bool, relu: bool) -> int:
    x = float(np.uint32(bits).view(np.float32))
    if np.isnan(x):
        return 0x7FFF
    if relu and not x > 0:
        return 0
    size = np.inf if np.isinf(x) else float(stochastic(x, random & 0x1FFF, 13, 10, -14))
    if size > 65504:
        size = 65504.0 if finite else np.inf
    return int(np.float16(np.copysign(size, x)).view(np.uint16))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", ["", ".relu", ".satfinite", ".relu.satfinite"])
def test_two_halves(words: str, engine: str) -> None:
    bits, randoms = inputs(len(words))
    text = (
        f"xor.b32 %r4, %r1, 0x1234; mov.b32 %f2, %r4; cvt.rs{words}.f16x2.f32 %r3, %f1, %f2, %r2;"
    )
    found = converted(text, bits, randoms, engine)
    how = {"finite": "satfinite" in words, "relu": "relu" in words}
    expected = [
        f16(b, r >> 16, **how) << 16 | f16(b ^ 0x1234, r, **how)
        for b, r in zip(bits.tolist(), randoms.tolist(), strict=True)
    ]
    assert [hex(x) for x in found[: len(bits)]] == [hex(x) for x in expected]


MAGNITUDES = [
    float(Fraction(2) ** -9 * code) if code < 8 else (1 + code % 8 / 8) * 2.0 ** (code // 8 - 7)
    for code in range(127)
]


def e4m3(bits: int, random: int, *, relu: bool) -> int:
    x = float(np.uint32(bits).view(np.float32))
    sign = bits >> 24 & 0x80
    if np.isnan(x):
        return 0x7F
    if relu and not x > 0:
        return 0
    size = 448.0 if np.isinf(x) else min(448.0, float(stochastic(x, random, 16, 3, -6)))
    return MAGNITUDES.index(size) | sign


def backwards(bits: int) -> int:
    return int(f"{bits:016b}"[::-1], 2)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", ["", ".relu"])
def test_four_bytes(words: str, engine: str) -> None:
    bits, randoms = inputs(9)
    changes = 0x80000000, 0x00100000, 0x00ABCDEF, 0
    text = "".join(f"xor.b32 %r4, %r1, {c}; mov.b32 %f{n}, %r4;" for n, c in enumerate(changes, 3))
    text += f"cvt.rs{words}.satfinite.e4m3x4.f32 %r3, {{%f3, %f4, %f5, %f6}}, %r2;"
    found = converted(text, bits, randoms, engine)
    relu = bool(words)
    for b, r, made in zip(bits.tolist(), randoms.tolist(), found.tolist(), strict=False):
        high, low = r >> 16, r & 0xFFFF
        chunks = backwards(high), high, backwards(low), low
        expected = [e4m3(b ^ c, k, relu=relu) for c, k in zip(changes, chunks, strict=True)]
        assert list(made.to_bytes(4, "big")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "cvt.rs.bf16x2.f32 %r1, %f1, %f2, %r2;",
        "cvt.rs.satfinite.e5m2x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;",
        "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1, %f2, %f3, %f4}, %r2;",
        "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2}, %r2;",
    ],
)
def test_forms_whose_random_bits_no_text_names_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(text, {})
