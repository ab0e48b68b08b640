"""What has no meaning is rejected with a sentence, before anything runs."""

from __future__ import annotations

import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import run_ptx

SENTENCES = {
    "add.u32 %r1, %r2;": "add.u32 takes 3 operands, not 2",
    "add.u32 %r1, %rd1, 1;": "%rd1 has 64 bits, and the instruction works on 32 bits",
    "add.u32.s32 %r1, %r2, 1;": "add.u32.s32 needs one type, and has 2",
    "mul.u32 %r1, %r2, %r3;": "mul.u32 needs one of .lo, .hi, .wide",
    "mul.wide.u64 %rd1, %rd1, %rd1;": ".wide multiplies 16 and 32 bits only",
    "mad.lo.sat.s32 %r1, %r1, %r1, %r1;": "mad.sat exists as mad.hi.sat.s32 only",
    "div.approx.f64 %fd1, %fd1, %fd1;": "div.approx.f64: .approx is not supported",
    "cvt.rn.f64.f32 %fd1, %f1;": None,
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %p1}, [%r2];": "of .b32, not %p1 of type .pred",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%rd1};": "of .b32, not %rd1 of type .b64",
    "cvt.rz.f64.f32 %fd1, %f1;": "cvt.rz.f64.f32 takes no rounding mode: the result is exact",
    "cvt.f16.f32 %h1, %f1;": "cvt.f16.f32 needs a mode of rounding",
    "cvt.s32.f32 %r1, %f1;": "cvt.s32.f32 needs .rni, .rzi, .rmi or .rpi",
    "setp.lo.s32 %p1, %r1, %r2;": "setp.lo.s32: .lo compares unsigned integers",
    "setp.lt.and.s32 %p1, %r1, %r2;": "setp.lt.and.s32 needs a predicate as its last operand",
    "cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;": "%h1 has 16 bits",
    "sqrt.approx.f64 %fd1, %fd1;": "sqrt.approx.f64: .approx is not supported",
    "istypep.texref %p1, %rd1;": "unknown opcode 'istypep'",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f5, %f6}];": "no sampler",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_an_unsupported_form_is_rejected(text: str) -> None:
    sentence = SENTENCES[text]
    if sentence is None:  # a mode that changes nothing
        run_ptx(text, {})
        return
    with pytest.raises(UnsupportedKernel) as unsupported:
        run_ptx(text, {})
    assert sentence in "; ".join(r.text for r in unsupported.value.instructions)
