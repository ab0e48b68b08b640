"""cvt of types under a byte and of powers of two, and cvt.pack, against tables of their values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import places
from tests.emu.test_tcgen05_scaled import narrow

SIZES = {"e2m1": 4, "e2m3": 6, "e3m2": 6}


def converted(
    text: str, a: NDArray[np.uint32], b: NDArray[np.uint32], engine: str
) -> NDArray[np.uint32]:
    """Run `text`, which makes %r3 of %r1 and %r2 (%f1 and %f2 hold the same)."""
    body = places(a=4, b=4, c=4) + (
        ".reg .b8 %b<9>; ld.global.b32 %r1, [%rd1]; ld.global.b32 %r2, [%rd2];"
        f"mov.b32 %f1, %r1; mov.b32 %f2, %r2; {text} st.global.b32 [%rd3], %r3;"
    )
    count = -(-len(a) // 32) * 32
    a, b = (np.resize(x, count) for x in (a, b))
    result = run_ptx(
        body, {"a": a, "b": b, "c": np.zeros(count, np.uint32)}, block=(count, 1, 1), engine=engine
    )
    assert result.findings == ()
    return np.asarray(result.buffers["c"])


def unpacked(name: str) -> str:
    return f"mov.b16 {{%b1, _}}, %h1; cvt.rn.f16x2.{name}x2 %r3, %b1;" if name == "e2m1" else (
        f"cvt.rn.f16x2.{name}x2 %r3, %h1;"
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SIZES)
def test_every_code_is_what_the_format_says(name: str, engine: str) -> None:
    bits = SIZES[name]
    codes = np.arange(1 << bits)
    upper = np.roll(codes, 3)
    shift = 4 if bits == 4 else 8
    words = (codes | upper << shift).astype(np.uint32)
    made = converted(f"cvt.u16.u32 %h1, %r1; {unpacked(name)}", words, words, engine)
    found = made[: len(codes)].view(np.float16).reshape(-1, 2).astype(float)
    assert found[:, 0].tolist() == [narrow(int(c), name) for c in codes]
    assert found[:, 1].tolist() == [narrow(int(c), name) for c in upper]


def nearest(x: float, name: str) -> int:
    """The code of the nearest number, by search; of two the even one."""
    bits = SIZES[name]
    top = (1 << bits - 1) - 1
    if np.isnan(x):
        return top
    sign = int(np.signbit(x)) << bits - 1
    best = min(range(top + 1), key=lambda c: (abs(narrow(c, name) - abs(x)), c & 1))
    return sign | (top if abs(x) > narrow(top, name) else best)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SIZES)
def test_numbers_are_rounded_to_the_nearest_code(name: str, engine: str) -> None:
    rng = np.random.default_rng(3)
    known = sorted(narrow(c, name) for c in range(1 << SIZES[name] - 1))
    middles = [(x + y) / 2 for x, y in pairwise(known)]
    special = [0.0, np.inf, np.nan, 1e30, 1e-30, known[-1] * 1.01]
    some = np.array([*known, *middles, *special, *rng.normal(0, 4, 64)], np.float32)
    values = np.concatenate([some, -some])
    a, b = values.view(np.uint32), np.roll(values, 7).view(np.uint32)
    cvt = f"cvt.rn.satfinite.{name}x2.f32"
    text = f"{cvt} %b1, %f1, %f2; mov.b16 %h1, {{%b1, 0}};" if name == "e2m1" else (
        f"{cvt} %h1, %f1, %f2;"
    )  # fmt: skip
    made = converted(f"{text} cvt.u32.u16 %r3, %h1;", a, b, engine)
    shift = 4 if name == "e2m1" else 8
    wanted = [
        nearest(float(x), name) << shift | nearest(float(y), name)
        for x, y in zip(a.view(np.float32), b.view(np.float32), strict=True)
    ]
    assert made[: len(values)].tolist() == wanted


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("how", "value", "code"),
    [
        ("rz", 1.0, 127), ("rz", 1.5, 127), ("rz", -3.0, 128), ("rz", 0.0, 0),
        ("rp", 1.0, 127), ("rp", 1.0001, 128), ("rp", 2.0**-127, 0), ("rp", 2.0**-126.5, 1),
        ("rz", float("inf"), 255), ("rz", float("nan"), 255), ("rp", 3.4e38, 255),
        ("rp.satfinite", 3.4e38, 254), ("rz.satfinite", float("inf"), 254),
        ("rz.satfinite", float("nan"), 255),
    ],
)  # fmt: skip
def test_powers_of_two(how: str, value: float, code: int, engine: str) -> None:
    """The codes are those of cuda_fp8.hpp's own code for GPUs that have no such instruction."""
    a, b = (np.full(32, x, np.float32).view(np.uint32) for x in (value, 4.0))
    text = f"cvt.{how}.ue8m0x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r3, %h1;"
    assert converted(text, a, b, engine)[0] == code << 8 | 129


@pytest.mark.parametrize("engine", ENGINES)
def test_powers_of_two_of_and_to_bfloat16(engine: str) -> None:
    words = np.array([0x00003F80, 0xFF807F80, 0x7FC04040, 0x00000001], np.uint32)
    text = "cvt.rz.ue8m0x2.bf16x2 %h1, %r1; cvt.rn.bf16x2.ue8m0x2 %r3, %h1;"
    made = converted(text, words, words, engine)[:4].tolist()
    assert made == [0x00403F80, 0x7FFF7FFF, 0x7FFF4000, 0x00400040]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("form", "c", "wanted"),
    [
        ("u8.s32.b32", "0xabcdef01", 0xEF0100FF),
        ("s8.s32.b32", "0xabcdef01", 0xEF01807F),
        ("u16.s32", "", 0x0000012C),
        ("s16.s32", "", 0xFF38012C),
        ("s4.s32.b32", "0xabcdef01", 0xCDEF0187),
    ],
)
def test_integers_are_clamped_and_packed(form: str, c: str, wanted: int, engine: str) -> None:
    a, b = np.full(32, -200, np.int32).view(np.uint32), np.full(32, 300, np.uint32)
    text = f"cvt.pack.sat.{form} %r3, %r1, %r2{', ' + c if c else ''};"
    assert converted(text, a, b, engine)[0] == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_between_the_half_types_no_mode_is_to_nearest(engine: str) -> None:
    """PTX asks for one; ptxas 13.0 takes both texts, and makes one instruction of them."""
    words = np.array([0x3C01, 0x7BFF, 0x7E00, 0x0001], np.uint32)
    made = [
        converted(
            f"cvt.u16.u32 %h1, %r1; cvt{mode}.bf16.f16 %h2, %h1; cvt.u32.u16 %r3, %h2;",
            words, words, engine,
        ).tolist()
        for mode in ("", ".rn")
    ]  # fmt: skip
    assert made[0] == made[1]
    assert made[0][:2] == [0x3F80, 0x4780]
