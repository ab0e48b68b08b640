"""wgmma against float64 NumPy; operands are placed by the formulas, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import Result, run_text
from tests.emu.tensor_harness import (
    SHARED,
    descriptor_90,
    k_major,
    load_shared,
    mn_major,
    operand,
    place,
    values,
)

A_START, B_START, SIZE = 0x1000 + 0x400, 0x4000 + 0x400, 0x10000
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
CODES = {16: 0, 32: 3, 64: 2, 128: 1}


def product_text(
    n: int,
    shape: str,
    operands: str,
    *,
    registers: int,
    before: str = "",
    steps: str = "",
    fence: str = "wgmma.fence.sync.aligned;",
    wait: str = "wgmma.wait_group.sync.aligned 0;",
    read_early: str = "",
    sparse: str = "",
) -> str:
    d = ", ".join(f"%d{i}" for i in range(registers))
    stores = "\n".join(f"st.global.b32 [%rd1+{4 * i}], %d{i};" for i in range(registers))
    clear = "\n".join(f"mov.b32 %d{i}, 0;" for i in range(registers))
    mma = f"wgmma.mma_async{sparse}.sync.aligned.{shape} {{{d}}}, {operands};"
    return f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 in, .param .u64 out) .maxntid 128 {{
    .reg .pred %p<200>; .reg .b32 %r<200>; .reg .b64 %rd<200>; .reg .b32 %d<{registers}>;
    {load_shared("in", SIZE)}
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, {4 * registers};
    add.u64 %rd1, %rd1, %rd2;
    {clear}
    {before}
    {fence}
    {mma}
    {steps.replace("MMA", mma)}
    wgmma.commit_group.sync.aligned;
    {read_early}
    {wait}
    {stores}
    ret;
}}
"""


def run_product(
    text: str,
    memory: NDArray[np.uint8],
    registers: int,
    **rest: Any,  # noqa: ANN401 - as run_text takes it
) -> Result:
    out = np.zeros((128, registers), np.uint32)
    return run_text(
        text,
        {"in": memory, "out": out},
        block=(128, 1, 1),
        dynamic_shared_bytes=SIZE,
        **rest,
    )


def matrix(registers: NDArray[np.uint32], n: int) -> NDArray[np.float64]:
    """Return D of what each of the 128 threads holds, register by register."""
    d = np.zeros((64, n))
    floats = registers.view(np.float32)
    for t in range(128):
        for v in range(n // 2):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (v >> 1 & 1)
            d[row, 8 * (v >> 2) + 2 * (t % 4) + (v & 1)] = floats[t, v]
    return d


def shared_with(
    a: NDArray[np.uint8], b: NDArray[np.uint8], span: int, stride: int, leading: int = 0
) -> NDArray[np.uint8]:
    memory = np.zeros(SIZE, np.uint8)
    place(memory, A_START, a, k_major(span, stride, leading), span)
    place(memory, B_START, b, k_major(span, stride, leading), span)
    return memory


def descriptors(span: int, stride: int, leading: int = 0) -> str:
    a = descriptor_90(A_START, leading, stride, CODES[span])
    b = descriptor_90(B_START, leading, stride, CODES[span])
    return f"mov.b64 %rd10, {a:#x}; mov.b64 %rd11, {b:#x};"


@pytest.mark.parametrize(
    ("name", "k", "tail"),
    [
        ("e4m3", 32, "1, 1, 1"),
        ("e5m2", 32, "1, 1, 1"),
        ("f16", 16, "1, 1, 1, 0, 0"),
        ("bf16", 16, "1, 1, 1, 0, 0"),
        ("tf32", 8, "1, 1, 1"),
    ],
)
@pytest.mark.parametrize("span", [16, 32, 64, 128])
def test_a_k_major_product_of_every_type_and_swizzle(
    name: str, k: int, tail: str, span: int
) -> None:
    rng = np.random.default_rng(span)
    a, b = operand(rng, 64, name), operand(rng, 40, name)
    stride = 8 * span + (128 if span == 16 else 0)
    leading = 2048 if span == 16 else 0
    text = product_text(
        40, f"m64n40k{k}.f32.{name}.{name}", f"%rd10, %rd11, {tail}", registers=20,
        before=descriptors(span, stride, leading),
    )  # fmt: skip
    found = run_product(text, shared_with(a, b, span, stride, leading), 20)
    assert found.findings == ()
    expected = values(a, name) @ values(b, name).T
    np.testing.assert_allclose(matrix(found.buffers["out"], 40), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("span", [16, 32, 64, 128])
def test_mn_major_operands_of_16_bits(span: int) -> None:
    rng = np.random.default_rng(span)
    a, b = operand(rng, 64, "bf16"), operand(rng, 64, "bf16")
    stride, leading = (256, 0x1000) if span == 16 else (8 * span, 0x800)
    if span == 16:
        stride, leading = 256, 128
    memory = np.zeros(SIZE, np.uint8)
    place(memory, A_START, a, mn_major(span, stride, leading, 2), span)
    place(memory, B_START, b, mn_major(span, stride, leading, 2), span)
    text = product_text(
        64, "m64n64k16.f32.bf16.bf16", "%rd10, %rd11, 1, 1, 1, 1, 1", registers=32,
        before=descriptors(span, stride, leading),
    )  # fmt: skip
    found = run_product(text, memory, 32)
    assert found.findings == ()
    expected = values(a, "bf16") @ values(b, "bf16").T
    np.testing.assert_allclose(matrix(found.buffers["out"], 64), expected, rtol=1e-6, atol=1e-5)


def test_products_onto_the_same_registers_add_up_and_imm_scales_negate() -> None:
    rng = np.random.default_rng(1)
    a, b = operand(rng, 64, "e4m3"), operand(rng, 8, "e4m3")
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, %p1, -1, 1", registers=4,
        before=descriptors(128, 1024) + "setp.eq.u32 %p1, 0, 1;",
        steps="setp.eq.u32 %p1, 0, 0; MMA MMA",
    )  # fmt: skip
    found = run_product(text, shared_with(a, b, 128, 1024), 4)
    assert found.findings == ()
    expected = -3 * values(a, "e4m3") @ values(b, "e4m3").T
    np.testing.assert_allclose(matrix(found.buffers["out"], 8), expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "k", "tail"), [
    ("e4m3", 32, "1, 1, 1"), ("bf16", 16, "1, 1, 1, 0"), ("tf32", 8, "1, 1, 1"),
])  # fmt: skip
def test_a_out_of_registers(name: str, k: int, tail: str) -> None:
    rng = np.random.default_rng(2)
    a, b = operand(rng, 64, name), operand(rng, 16, name)
    memory = shared_with(a, b, 128, 1024)
    for t in range(128):  # A's fragments behind B: 4 words a thread
        row = 16 * (t // 32) + t % 32 // 4
        for register in range(4):
            kb = 16 * (register >> 1) + 4 * (t % 4)
            piece = a[row + 8 * (register & 1), kb : kb + 4]
            memory[0x8000 + 16 * t + 4 * register :][:4] = piece
    load = """
        mul.lo.u32 %r2, %r1, 16; add.u32 %r2, %r2, smem; add.u32 %r2, %r2, 32768;
        ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];
    """.replace("add.u32 %r2, %r2, smem;", "mov.u32 %r3, smem; add.u32 %r2, %r2, %r3;")
    text = product_text(
        16, f"m64n16k{k}.f32.{name}.{name}", f"{{%r10, %r11, %r12, %r13}}, %rd11, {tail}",
        registers=8, before=descriptors(128, 1024) + load,
    )  # fmt: skip
    found = run_product(text, memory, 8)
    assert found.findings == ()
    expected = values(a, name) @ values(b, name).T
    np.testing.assert_allclose(matrix(found.buffers["out"], 16), expected, rtol=1e-6, atol=1e-5)


def test_f16_accumulators_share_registers_in_pairs() -> None:
    rng = np.random.default_rng(3)
    a, b = operand(rng, 64, "f16"), operand(rng, 8, "f16")
    text = product_text(
        8, "m64n8k16.f16.f16.f16", "%rd10, %rd11, 1, 1, 1, 0, 0", registers=2,
        before=descriptors(64, 512),
    )  # fmt: skip
    found = run_product(text, shared_with(a, b, 64, 512), 2)
    assert found.findings == ()
    halves = found.buffers["out"].view(np.float16)
    d = np.zeros((64, 8))
    for t in range(128):
        for v in range(4):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (v >> 1)
            d[row, 2 * (t % 4) + (v & 1)] = halves[t, v]
    expected = values(a, "f16") @ values(b, "f16").T
    np.testing.assert_allclose(d, expected, rtol=2e-3, atol=2e-3)


def test_registers_read_before_the_wait_are_found() -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024), read_early="st.global.b32 [%rd1], %d0;",
    )  # fmt: skip
    found = run_product(text, np.zeros(SIZE, np.uint8), 4)
    assert found.kinds == ["uninitialised"]
    assert "before the wgmma.wait_group of its group" in found.findings[0].message


def test_a_wait_that_leaves_the_group_is_no_wait() -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024), wait="wgmma.wait_group.sync.aligned 1;",
    )  # fmt: skip
    assert set(run_product(text, np.zeros(SIZE, np.uint8), 4).kinds) == {"uninitialised"}


def test_a_missing_fence_is_found() -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024), fence="",
    )  # fmt: skip
    found = run_product(text, np.zeros(SIZE, np.uint8), 4)
    assert found.kinds == ["barrier-misuse"]
    assert "without a wgmma.fence" in found.findings[0].message


@pytest.mark.parametrize(("bits", "kind", "words"), [
    (1 << 46, "descriptor", "bits 46-48"),
    (1 << 49, "descriptor", "base offset"),
    (0x3000, "out-of-bounds", "is read from shared"),
])  # fmt: skip
def test_wrong_descriptors_are_named(bits: int, kind: str, words: str) -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024) + f"or.b64 %rd10, %rd10, {bits:#x};",
    )  # fmt: skip
    found = run_product(text, np.zeros(SIZE, np.uint8), 4)
    assert found.kinds == [kind]
    assert words in found.findings[0].message


def test_warps_that_differ_are_found() -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024)
        + "setp.ge.u32 %p1, %r1, 96; @%p1 add.u64 %rd10, %rd10, 2;",
    )  # fmt: skip
    found = run_product(text, np.zeros(SIZE, np.uint8), 4)
    assert found.kinds == ["barrier-misuse"]
    assert "differ in A's descriptor" in found.findings[0].message


TWO = """
    wgmma.commit_group.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3
        {%r120, %r121, %r122, %r123}, %rd10, %rd11, 0, 1, 1;
"""


@pytest.mark.parametrize("schedule", range(6))
def test_a_wait_settles_the_groups_it_waits_for_and_no_other(schedule: int) -> None:
    rng = np.random.default_rng(4)
    a, b = operand(rng, 64, "e4m3"), operand(rng, 8, "e4m3")
    rest = "st.global.b32 [%rd1], %r120; wgmma.wait_group.sync.aligned 0;"
    for late, kinds in (("", []), (rest, ["uninitialised"])):
        text = product_text(
            8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
            before=descriptors(128, 1024), steps=TWO,
            wait=f"wgmma.wait_group.sync.aligned 1; {late}",
        )  # fmt: skip
        text = text.replace("ret;", "wgmma.wait_group.sync.aligned 0; ret;")
        found = run_product(text, shared_with(a, b, 128, 1024), 4, number=schedule)
        assert found.kinds == kinds
        expected = values(a, "e4m3") @ values(b, "e4m3").T
        np.testing.assert_allclose(matrix(found.buffers["out"], 8), expected, rtol=1e-6)


def test_registers_written_behind_the_wait_need_a_fence_again() -> None:
    again = """
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        mov.b32 %d0, 0x3f800000; FENCE
        MMA
    """
    for fence, kinds in (("", ["barrier-misuse"]), ("wgmma.fence.sync.aligned;", [])):
        text = product_text(
            8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 1, 1, 1", registers=4,
            before=descriptors(128, 1024), steps=again.replace("FENCE", fence),
        )  # fmt: skip
        zeros = np.zeros((64, 32), np.uint8)
        found = run_product(text, shared_with(zeros, zeros, 128, 1024), 4)
        assert found.kinds == kinds
        assert matrix(found.buffers["out"], 8)[0, 0] == 1


def test_half_a_warpgroup_is_found() -> None:
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", "%rd10, %rd11, 0, 1, 1", registers=4,
        before=descriptors(128, 1024) + "setp.ge.u32 %p1, %r1, 64; @%p1 bra OUT;",
    ).replace("ret;", "OUT: ret;")  # fmt: skip
    found = run_product(text, np.zeros(SIZE, np.uint8), 4)
    waits, misuse = found.findings
    assert (waits.kind, misuse.kind) == ("deadlock", "barrier-misuse")
    assert "a wgmma.mma_async that 2 of the 4 warps of a warpgroup have issued" in waits.message
    assert "by 2 of the 4 warps of a warpgroup" in misuse.message
