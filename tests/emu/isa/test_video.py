"""Video instructions: parts of registers, saturation, what joins a third operand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import places

A, B, C = 0x01F280FF, 0x7F10EE03, 0x11223344


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("vadd.u32.u32.u32 %r4, %r1, %r2", (A + B) & 0xFFFFFFFF),
        ("vadd.u32.u32.u32 %r4, %r1.b1, %r2.h0", 0x80 + 0xEE03),
        ("vadd.s32.s32.s32.sat %r4, %r2, %r2", 0x7FFFFFFF),
        ("vsub.u32.u32.u32.sat %r4, %r1, %r2", 0),
        ("vsub.s32.u32.s32 %r4, %r1.b0, %r2.b2", 0xFF - 0x10),
        ("vabsdiff.u32.s32.s32 %r4, %r1.b0, %r2.b0", 4),
        ("vabsdiff.u32.u32.u32.add %r4, %r1.b0, %r2.b0, %r3", 0xFC + C),
        ("vadd.u32.u32.u32.b2 %r4, %r1.b0, %r2.b0, %r3", (C & 0xFF00FFFF) | 0x02 << 16),
        ("vadd.u32.u32.u32.sat.b2 %r4, %r1.b0, %r2.b0, %r3", C & 0xFF00FFFF | 0xFF << 16),
        ("vmin.s32.s32.s32 %r4, %r1.b1, %r2.b3", 0xFFFFFF80),
        ("vmax.u32.u32.u32.max %r4, %r1.b1, %r2.b3, %r3", C),
        ("vset.u32.u32.lt %r4, %r1.b3, %r2.b3", 1),
        ("vset.u32.u32.gt.add %r4, %r1.b0, %r2.b0, %r3", C + 1),
        ("vshl.u32.u32.u32.clamp %r4, %r1, 40", 0),
        ("vshl.u32.u32.u32.wrap %r4, %r1, 36", A << 4 & 0xFFFFFFFF),
        ("vshr.s32.s32.u32.clamp %r4, %r1.h0, 4", 0xFFFFF80F),
        ("vmad.u32.u32.u32 %r4, %r1.h0, %r2.b2, 7", 0x80FF * 0x10 + 7),
        ("vmad.s32.s32.s32.shr7 %r4, %r1.b0, %r2.b1, %r3", (0x12 + C) >> 7),
        ("vmad.s32.u32.u32 %r4, %r1.b0, %r2.b0, -%r3", (0xFF * 3 - C) & 0xFFFFFFFF),
        ("vmad.u32.u32.u32.po %r4, %r1.b0, %r2.b0, %r3", 0xFF * 3 + C + 1),
        ("vabsdiff4.u32.u32.u32.add %r4, %r1, %r2, 0", 0x2CA),
        ("vabsdiff4.u32.u32.u32 %r4, %r1, %r2, 0", 0x7EE26EFC),
        ("vadd2.s32.s32.s32.sat %r4, %r1, %r2, 0", 0x7FFF8000),
        ("vadd4.u32.u32.u32 %r4.b10, %r1, %r2, %r3", C & 0xFFFF0000 | 0x6E02),
        ("vadd2.u32.u32.u32 %r4, %r1.h23, %r2.h01, 0", 0x6F028102),
        ("vavrg4.u32.u32.u32 %r4, %r1, %r2, 0", 0x4081B781),
        ("vset4.u32.u32.gt %r4, %r1, %r2, 0", 0x00010001),
        ("vmin4.s32.s32.s32 %r4, %r1, %r2, 0", 0x01F280FF),
    ],
)  # fmt: skip
def test_a_video_instruction_gives(instruction: str, expected: int, engine: str) -> None:
    body = places(out=0) + f"mov.u32 %r1, {A}; mov.u32 %r2, {B}; mov.u32 %r3, {C};"
    body += f"{instruction}; st.global.u32 [%rd1], %r4;"
    result = run_ptx(body, {"out": np.zeros(1, np.uint32)}, engine=engine)
    assert [hex(n) for n in result.buffers["out"]] == [hex(expected)]
    assert result.findings == ()
