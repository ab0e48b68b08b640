"""What was read is all there was: ptxas makes the same machine code of it, printed flat again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.findings import locate
from kernelrig.ptx import Module, parse_ptx

from tests.long_cases import mostly_long
from tests.ptx.flat import flat_ptx
from tests.ptx.text import HEAD
from tests.ptx_fixture import Assemble, CompilePtx, OwnPtx

LANGUAGE = "tests/ptx/probes/language.cu"
VARIANTS = ("production", "timing", "debug", "guard")

HAND_WRITTEN = (
    HEAD
    + """
.global .align 8 .b8 bytes[12] = {1, 2, 0xff};
.global .f32 reals[2] = {1.5, -0.25};
.func (.reg .b32 out) twice (.reg .b32 in) { add.u32 out, in, in; ret; }
.visible .entry k(.param .u64 p) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<4>; .reg .v4 .b32 v; .reg .f32 f;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x; mov.v4.u32 {%r2, %r3, %r4, _}, %ctaid;
  { .reg .pred %p1; .reg .b32 %r1; ld.global.u32 %r1, [%rd1+8]; setp.gt.s32 %p1, %r1, 5;
    L: @!%p1 bra OUT; call (%r1), twice, (%r2); st.global.u32 [%rd1+4+8*2], %r1;
    { L: setp.lt.u32 %p1, %r1, 0b101U; @%p1 bra L; } OUT: }
  setp.eq.and.u32 %p1|%p2, %r1, WARP_SZ, !%p3; selp.b32 %r5, 017, (7&3)<<4, %p2;
  mov.u64 %rd2, bytes+4; cvta.global.u64 %rd2, %rd2; st.global.u64 [%rd1], %rd2;
  ld.global.b32 v.x, reals[1]; mov.b32 f, v.x; add.f32 f, f, 0f3F800000; mul.f32 f, f, 2.5;
  shfl.sync.bfly.b32 %r6 | %p1, %r5, 1, 31, -1; @%p1 st .global .f32 [%rd1+-32], f;
  T: .branchtargets A, B; and.b32 %r7, %r6, 1; brx.idx %r7, T;
  A: st.global.u32 [%rd1+64], %r6; B: ret;
}
"""
)

CONSTANTS = (
    *("1+2*3", "(1+2)*3", "1<<4|3", "-7/2", "-7 % 3", "~5", "!5", "3==3 && 2>1", "0||0", "1?2:3"),
    *("(.u64)-1>>60", "-1>>60", "7&3^1", "1<<62", "0xffffffffffffffff+1", "WARP_SZ*2-WARP_SZ"),
    *("-1 < 1U", "-1 < 1", "0x7fffffffffffffff", "4294967295U", "017", "0b11"),
)


def upto_first_entry(text: str) -> str:
    """Cut a module behind its first function with a body: what ptxas has to do twice here.

    Without its lines, too: the names that they refer to stand behind the cut.
    """
    return re.sub(r"^\t\.loc\t.*\n", "", text[: text.index("\n\n}\n") + 4], flags=re.MULTILINE)


def check_round_trip(text: str, assemble: Assemble) -> Module:
    module = parse_ptx(text, "text.ptx")
    flat = flat_ptx(module)
    assert flat_ptx(parse_ptx(flat, "flat.ptx")) == flat
    assert assemble(flat, module.target[0]) == assemble(text, module.target[0])
    return module


@pytest.mark.parametrize("variant", mostly_long(VARIANTS, "production"))
def test_the_megakernel_comes_through(variant: str, own_ptx: OwnPtx, assemble: Assemble) -> None:
    text = own_ptx("patch_embed", "sm_100a", variant)
    check_round_trip(upto_first_entry(text), assemble)
    kernel = parse_ptx(text, "whole.ptx").function("patch_embed_gemm")
    assert kernel is not None
    assert kernel.directive("maxntid") == (192,)
    source = "sm100a_patch_embed_fp8.cu"
    files = {Path(locate(i.place.frames, source).file).name for i in kernel.instructions}
    assert files == {"sm100a_patch_embed_fp8.cu", ""}  # a few stand for no line


def test_the_selftest_comes_through(own_ptx: OwnPtx, assemble: Assemble) -> None:
    check_round_trip(own_ptx("sanitizer_selftest", "sm_90a", "production"), assemble)


def test_calls_frames_and_tables_of_functions_come_through(
    compile_ptx: CompilePtx, assemble: Assemble
) -> None:
    module = check_round_trip(compile_ptx(LANGUAGE, "sm_100a", "-lineinfo"), assemble)
    kernel = module.function("language")
    assert kernel is not None
    assert {"call", "shfl", "atom", "bar", "ex2", "mul"} <= {i.opcode for i in kernel.instructions}
    assert {v.space for v in kernel.variables} == {"local", "param", "shared"}
    assert "vprintf" in {f.name for f in module.functions}


def test_debug_builds_are_read_too(compile_ptx: CompilePtx) -> None:
    module = parse_ptx(compile_ptx(LANGUAGE, "sm_100a", "-G"), "debug.ptx")
    assert module.target == ("sm_100a", "debug")


def test_hand_written_text_comes_through(assemble: Assemble) -> None:
    check_round_trip(HAND_WRITTEN, assemble)


def test_constants_are_what_ptxas_makes_of_them(assemble: Assemble) -> None:
    stores = [f"mov.b64 %rd2, {text}; st.global.u64 [%rd1], %rd2;" for text in CONSTANTS]
    check_round_trip(
        f"{HEAD}.entry k(.param .u64 p) {{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [p];\n"
        + "\n".join(s.replace("[%rd1]", f"[%rd1+{8 * i}]") for i, s in enumerate(stores))
        + "\n}\n",
        assemble,
    )


def test_every_instruction_of_the_text_is_read(own_ptx: OwnPtx) -> None:
    """Counted by hand, as it were: nvcc ends every instruction, and all else it ends too."""
    text = own_ptx("patch_embed", "sm_100a", "production")
    body = upto_first_entry(text).split(".visible .entry patch_embed_gemm", 1)[1]
    ends = (
        body.count(";") - body.count(".reg") - body.count(".pragma") - body.count(".shared .align")
    )
    kernel = parse_ptx(text, "text.ptx").function("patch_embed_gemm")
    assert kernel is not None
    assert len(kernel.instructions) == ends
