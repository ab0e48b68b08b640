"""Values that ptxas 13.0 folded constant expressions to: literal ones, from the compiler itself."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import run_ptx

WORDS = {
    # cvt of integers
    "cvt.s8.s32 %r1, 300": 0x2C,
    "cvt.s8.s32 %r1, 200": 0xFFFFFFC8,
    "cvt.u8.s32 %r1, -5": 0xFB,
    "cvt.s32.u16 %r1, 0xffff": 65535,
    "cvt.u32.s16 %r1, -1": 0xFFFFFFFF,
    "cvt.sat.s8.s32 %r1, 300": 127,
    "cvt.sat.u16.s32 %r1, -5": 0,
    "cvt.sat.s32.u32 %r1, -1": 0x7FFFFFFF,
    # integers
    "abs.s32 %r1, 0x80000000": 0x80000000,
    "mul.hi.s32 %r1, -1, 2": 0xFFFFFFFF,
    "mul.hi.u32 %r1, -1, 2": 1,
    "div.s32 %r1, 7, 0": 0xFFFFFFFF,
    "rem.u32 %r1, 7, 0": 0xFFFFFFFF,
    "div.s32 %r1, 0x80000000, -1": 0x80000000,
    "rem.s32 %r1, 0x80000000, -1": 0,
    "shl.b32 %r1, 1, 32": 0,
    "shr.s32 %r1, -8, 40": 0xFFFFFFFF,
    "shr.u32 %r1, -8, 40": 0,
    "shf.l.clamp.b32 %r1, 17, 34, 40": 17,
    "shf.r.clamp.b32 %r1, 17, 34, 32": 34,
    "bfe.s32 %r1, 0x80000000, 40, 3": 0xFFFFFFFF,
    "bfi.b32 %r1, 1, 0, 260, 3": 0x10,
    "clz.b32 %r1, 0": 32,
    "bfind.s32 %r1, -1": 0xFFFFFFFF,
    # floats
    "max.NaN.f32 %r1, 0f7FC00000, 0f3F800000": 0x7FFFFFFF,
    "min.f32 %r1, 0f7FC00000, 0f3F800000": 0x3F800000,
    "max.f32 %r1, 0f80000000, 0f00000000": 0,
    "add.sat.f32 %r1, 0f7FC00000, 0f3F800000": 0,
    "copysign.f32 %r1, 0fBF800000, 0f40000000": 0xC0000000,
    "cvt.rzi.s32.f32 %r1, 0f501502F9": 0x7FFFFFFF,
    "cvt.rzi.s32.f32 %r1, 0fD01502F9": 0x80000000,
    "cvt.rzi.u32.f32 %r1, 0fBFC00000": 0,
    "cvt.rzi.u32.f32 %r1, 0f7F800000": 0xFFFFFFFF,
    "cvt.rzi.s32.f32 %r1, 0f7FC00000": 0,
    "cvt.rn.f32.s32 %r1, 16777217": 0x4B800000,
    "cvt.rna.tf32.f32 %r1, 0f3F801000": 0x3F802000,
    "cvt.rn.bf16x2.f32 %r1, 0f7F7FFFFF, 0f3F800000": 0x7F803F80,
    "cvt.rn.f16x2.f32 %r1, 0f4788B800, 0f7FC00000": 0x7C007FFF,
    "cvt.rn.relu.bf16x2.f32 %r1, 0fBF800000, 0f3F800000": 0x00003F80,
    "ex2.approx.f32 %r1, 0f3FC00000": 0x403504F3,
    "rcp.approx.ftz.f32 %r1, 0f00000001": 0x7F800000,
    # selection
    "slct.b32.f32 %r1, 1, 2, 0f80000000": 1,
    "slct.b32.f32 %r1, 1, 2, 0f7FC00000": 2,
    "set.neu.u32.f32 %r1, 0f7FC00000, 0f7FC00000": 0xFFFFFFFF,
    "set.ne.u32.f32 %r1, 0f7FC00000, 0f7FC00000": 0,
    "prmt.b32 %r1, 0x33221100, 0x77665544, 0xf6c2": 0x00660022,
}
"""Instruction -> %r1. Values of approximations are those nearest to the true ones."""


def test_constant_expressions_have_the_values_ptxas_gives_them() -> None:
    lines = [f"{text}; st.global.b32 [%rd1+{4 * k}], %r1;" for k, text in enumerate(WORDS)]
    left = run_ptx(
        "ld.param.u64 %rd1, [out];\n" + "\n".join(lines),
        {"out": np.zeros(len(WORDS), np.uint32)},
    )
    assert dict(zip(WORDS, left.buffers["out"].tolist(), strict=True)) == WORDS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cvt.u64.s32 %rd2, -1", 0xFFFFFFFFFFFFFFFF),
        ("cvt.rzi.s64.f32 %rd2, 0f7FC00000", 0x8000000000000000),
        ("mov.b64 %rd2, {17, 34}", 0x2200000011),
        ("clz.b64 %r1, 0; cvt.u64.u32 %rd2, %r1", 64),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 5, 0; cvt.u64.u32 %rd2, %r2", 4),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, 0f7F800000, 0fC47A0000; cvt.u64.u16 %rd2, %h1", 0x7EFE),
        ("cvt.rn.satfinite.e5m2x2.f32 %h1, 0f7F800000, 0f7FC00000; cvt.u64.u16 %rd2, %h1", 0x7B7F),
        ("cvt.rn.f16.f32 %h1, 0f4788B800; cvt.u64.u16 %rd2, %h1", 0x7C00),
        ("shl.b16 %h1, 1, 17; cvt.u64.u16 %rd2, %h1", 0),
    ],
)
def test_wide_and_narrow_values(text: str, wanted: int) -> None:
    left = run_ptx(
        f"ld.param.u64 %rd1, [out]; {text}; st.global.b64 [%rd1], %rd2;",
        {"out": np.zeros(1, np.uint64)},
    )
    assert int(left.buffers["out"][0]) == wanted
