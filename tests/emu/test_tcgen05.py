"""tcgen05 against float64 NumPy; operands are placed by the formulas, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import Result, run_text
from tests.emu.tensor_harness import (
    SHARED,
    descriptor_100,
    k_major,
    load_shared,
    mn_major,
    operand,
    place,
    values,
)

A_START, B_START, SIZE = 0x1400, 0x9400, 0x12000
BARRIER, ADDRESS = SIZE, SIZE + 16
HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
CODES = {16: 0, 32: 6, 64: 4, 128: 2}
TYPES = {"e4m3": 0, "e5m2": 1, "f16": 0, "bf16": 1, "tf32": 2}
KINDS = {"e4m3": "f8f6f4", "e5m2": "f8f6f4", "f16": "f16", "bf16": "f16", "tf32": "tf32"}


def instruction(name: str, m: int, n: int, *, transposed: bool = False, d: int = 1) -> int:
    kind = TYPES[name]
    bits = d << 4 | kind << 7 | kind << 10 | n // 8 << 17 | m // 16 << 24
    return bits | (3 << 15 if transposed else 0)


def text_of(
    group: int, body: str, after: str, *, columns: int = 256, dealloc: str = "", cluster: str = ""
) -> str:
    """Allocate, let thread 0 (of the even CTA) do `body` and commit, then all do `after`.

    %r50 is the address of tensor memory, %rd1 the thread's place in `out` (512 words a thread).
    """
    pair = group == 2
    meet = (
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if pair else "bar.sync 0;"
    )
    multicast = ".multicast::cluster" if pair else ""
    mask = ", %h1" if pair else ""
    free = (
        dealloc
        or f"""
    setp.lt.u32 %p9, %r1, 32;
    @!%p9 bra LEAVE;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r50, {columns};
LEAVE:
    {meet if pair else ""}
"""
    )
    return f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 in, .param .u64 out) {cluster} {{
    .reg .pred %p<200>; .reg .b16 %h<9>; .reg .b32 %r<200>; .reg .b64 %rd<200>;
    .reg .b32 %d<260>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, smem;
    add.u32 %r4, %r3, {BARRIER};
    add.u32 %r5, %r3, {ADDRESS};
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    fence.mbarrier_init.release.cluster;
READY:
    {load_shared("in", SIZE, meet)}
    setp.ge.u32 %p2, %r1, 32;
    @%p2 bra ALLOCATED;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r5], {columns};
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
ALLOCATED:
    tcgen05.fence::before_thread_sync;
    {meet}
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r50, [%r5];
    ld.param.u64 %rd1, [out];
    mad.lo.u32 %r6, %r2, 128, %r1;
    mul.wide.u32 %rd2, %r6, 2048;
    add.u64 %rd1, %rd1, %rd2;
    shr.u32 %r7, %r1, 5;
    and.b32 %r7, %r7, 3;
    shl.b32 %r8, %r7, 21;
    add.u32 %r51, %r50, %r8;
    or.b32 %r9, %r1, %r2;
    setp.ne.u32 %p3, %r9, 0;
    @%p3 bra WAIT;
    mov.b16 %h1, 3;
    {body}
    tcgen05.commit.cta_group::{group}{multicast}.mbarrier::arrive::one.shared::cluster.b64
        [%r4]{mask};
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0;
    @!%p4 bra WAIT;
    tcgen05.fence::after_thread_sync;
    {after}
    tcgen05.fence::before_thread_sync;
    {meet}
    {free}
    ret;
}}
"""


def load_columns(columns: int, base: str = "%r51") -> str:
    """Every thread writes its lane's columns to `out`."""
    registers = ", ".join(f"%d{i}" for i in range(columns))
    stores = "\n".join(f"st.global.b32 [%rd1+{4 * i}], %d{i};" for i in range(columns))
    return f"""
    tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{registers}}}, [{base}];
    tcgen05.wait::ld.sync.aligned;
    {stores}
    """


def run_pair(
    text: str,
    memory: NDArray[np.uint8],
    group: int,
    **rest: Any,  # noqa: ANN401 - as run_text takes it
) -> Result:
    return run_text(
        text,
        {"in": memory, "out": np.zeros((group, 128, 512), np.float32)},
        grid=(group, 1, 1),
        block=(128, 1, 1),
        cluster=(group, 1, 1),
        dynamic_shared_bytes=SIZE + 32,
        **rest,
    )


def lanes_of(
    d: NDArray[np.float64], m: int, n: int, group: int
) -> dict[tuple[int, int, int], float]:
    """Return (CTA, lane, column) -> the value of D there: layouts A, B, D and F."""
    found = {}
    for row in range(m):
        for column in range(n):
            if group == 2 and m == 256:
                at = (row // 128, row % 128, column)
            elif group == 2:
                at = (row // 64, row % 64 + 64 * (column >= n // 2), column % (n // 2))
            elif m == 128:
                at = (0, row, column)
            else:
                at = (0, 32 * (row // 16) + row % 16, column)
            found[at] = d[row, column]
    return found


def staged(
    a: NDArray[np.uint8], b: NDArray[np.uint8], group: int, span: int, stride: int, leading: int = 0
) -> NDArray[np.uint8]:
    """Shared memory of each CTA: its half of A by rows, its half of B by rows."""
    memory = np.zeros((group, SIZE), np.uint8)
    for cta in range(group):
        rows, columns = len(a) // group, len(b) // group
        of_a, of_b = a[cta * rows :][:rows], b[cta * columns :][:columns]
        place(memory[cta], A_START, of_a, k_major(span, stride, leading), span)
        place(memory[cta], B_START, of_b, k_major(span, stride, leading), span)
    return memory


def mma(kind: str, group: int, bits: int, span: int, stride: int, leading: int = 0) -> str:
    a = descriptor_100(A_START, leading, stride, CODES[span])
    b = descriptor_100(B_START, leading, stride, CODES[span])
    return f"""
    mov.b64 %rd10, {a:#x}; mov.b64 %rd11, {b:#x}; mov.b32 %r60, {bits:#x};
    tcgen05.mma.cta_group::{group}.kind::{kind} [%r50], %rd10, %rd11, %r60, 0;
    """


AGAIN = "tcgen05.mma.cta_group::{group}.kind::{kind} [%r50], %rd10, %rd11, %r60, 1;"


@pytest.mark.parametrize(
    ("name", "group", "m", "n", "span"),
    [
        ("e4m3", 2, 256, 64, 128),
        ("e4m3", 2, 128, 64, 128),
        ("e5m2", 1, 128, 32, 64),
        ("bf16", 1, 128, 24, 32),
        ("f16", 1, 64, 16, 128),
        ("tf32", 2, 256, 32, 16),
        ("bf16", 2, 128, 32, 16),
    ],
)
def test_products_lie_where_the_layouts_say(
    name: str, group: int, m: int, n: int, span: int
) -> None:
    rng = np.random.default_rng(m + n)
    a, b = operand(rng, m, name), operand(rng, n, name)
    stride, leading = 8 * span + (128 if span == 16 else 0), 0x1000 if span == 16 else 0
    if span == 16:
        stride, leading = 256, 128
    body = mma(KINDS[name], group, instruction(name, m, n), span, stride, leading)
    body += AGAIN.format(group=group, kind=KINDS[name])
    columns = 1 << (n - 1).bit_length()
    text = text_of(group, body, load_columns(columns))
    found = run_pair(text, staged(a, b, group, span, stride, leading), group)
    assert [f for f in found.findings if f.severity == "error"] == []
    expected = 2 * values(a, name) @ values(b, name).T
    out = found.buffers["out"]
    for (cta, lane, column), value in lanes_of(expected, m, n, group).items():
        assert out[cta, lane, column] == pytest.approx(value, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("span", [16, 32, 64, 128])
def test_mn_major_operands(span: int) -> None:
    rng = np.random.default_rng(span)
    a, b = operand(rng, 128, "e4m3"), operand(rng, 64, "e4m3")
    stride, leading = (512, 256) if span == 16 else (8 * span, 0x1000)
    if span == 16:
        stride, leading = 0x400, 128
    memory = np.zeros((1, SIZE), np.uint8)
    place(memory[0], A_START, a, mn_major(span, stride, leading, 1), span)
    place(memory[0], B_START, b, mn_major(span, stride, leading, 1), span)
    body = mma("f8f6f4", 1, instruction("e4m3", 128, 64, transposed=True), span, stride, leading)
    found = run_pair(text_of(1, body, load_columns(64)), memory, 1)
    assert found.findings == ()
    expected = values(a, "e4m3") @ values(b, "e4m3").T
    np.testing.assert_allclose(found.buffers["out"][0, :, :64], expected, rtol=1e-5, atol=1e-4)


def small(body: str, *, group: int = 1, n: int = 32, name: str = "bf16", **rest: Any) -> Result:  # noqa: ANN401
    """D[128, 32] of ones, K times 1: A and B of zeros but for what `body` does before."""
    memory = np.zeros((group, SIZE), np.uint8)
    ones = np.full((128, 32), 0x38 if name == "e4m3" else 0, np.uint8)
    if name == "bf16":
        ones[:, 1::2], ones[:, 0::2] = 0x3F, 0x80
    for cta in range(group):
        place(memory[cta], A_START, ones, k_major(128, 1024), 128)
        place(memory[cta], B_START, ones[:n], k_major(128, 1024), 128)
    return run_pair(text_of(group, body, load_columns(32)), memory, group, **rest)


BF16 = instruction("bf16", 128, 32)


def test_masked_lanes_keep_what_they_held() -> None:
    body = (
        mma("f16", 1, BF16, 128, 1024)
        + """
        mov.b32 %r61, 0x80000001; mov.b32 %r62, 0;
        tcgen05.mma.cta_group::1.kind::f16
            [%r50], %rd10, %rd11, %r60, {%r61, %r62, %r62, %r61}, 1;
    """
    )
    out = small(body).buffers["out"][0, :, :32]
    kept = [0, 31, 96, 127]
    assert (out[kept] == 16).all()
    assert (np.delete(out, kept, axis=0) == 32).all()


def test_scale_input_d_halves_what_is_there() -> None:
    body = (
        mma("f16", 1, BF16, 128, 1024)
        + """
        setp.eq.u32 %p8, 0, 0;
        tcgen05.mma.cta_group::1.kind::f16 [%r50], %rd10, %rd11, %r60, %p8, 2;
    """
    )
    assert (small(body).buffers["out"][0, :, :32] == 16 + 4).all()


def test_f16_sums_lie_in_the_low_half_of_a_column() -> None:
    f16 = instruction("f16", 128, 32, d=0)
    found = small(mma("f16", 1, f16, 128, 1024))  # bf16 ones read as f16: 1.875
    words = found.buffers["out"][0, :, :32].view(np.uint32)
    assert (words >> 16 == 0).all()
    assert (words.astype(np.uint16).view(np.float16) == np.float16(16 * 1.875**2)).all()


def test_a_out_of_tensor_memory() -> None:
    rng = np.random.default_rng(5)
    a, b = operand(rng, 128, "e4m3"), operand(rng, 32, "e4m3")
    memory = staged(a, b, 1, 128, 1024)
    memory[0, 0x4000:0x5000] = a.reshape(-1)  # rows of 32 bytes: 8 words a lane
    bits = instruction("e4m3", 128, 32)
    text = text_of(
        1,
        mma("f8f6f4", 1, bits, 128, 1024).replace("%rd10, %rd11", "[%r50+64], %rd11"),
        load_columns(32),
    )
    store = """
    mul.lo.u32 %r70, %r1, 32; add.u32 %r70, %r70, %r3; add.u32 %r70, %r70, 0x4000;
    ld.shared.v4.u32 {%d0, %d1, %d2, %d3}, [%r70];
    ld.shared.v4.u32 {%d4, %d5, %d6, %d7}, [%r70+16];
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51+64], {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    or.b32 %r9, %r1, %r2;
    """
    found = run_pair(text.replace("or.b32 %r9, %r1, %r2;", store), memory, 1)
    assert found.findings == ()
    expected = values(a, "e4m3") @ values(b, "e4m3").T
    np.testing.assert_allclose(found.buffers["out"][0, :, :32], expected, rtol=1e-5, atol=1e-4)


def test_signed_bytes_add_up_in_integers() -> None:
    rng = np.random.default_rng(6)
    a = rng.integers(0, 256, (128, 32), dtype=np.uint8)
    b = rng.integers(0, 256, (32, 32), dtype=np.uint8)
    bits = 2 << 4 | 1 << 7 | 1 << 10 | 4 << 17 | 8 << 24
    text = text_of(1, mma("i8", 1, bits, 128, 1024) + AGAIN.format(group=1, kind="i8"),
                   load_columns(32))  # fmt: skip
    found = run_pair(text, staged(a, b, 1, 128, 1024), 1)
    expected = 2 * a.view(np.int8).astype(np.int64) @ b.view(np.int8).T.astype(np.int64)
    assert (found.buffers["out"][0, :, :32].view(np.int32) == expected).all()


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("%r60, 0;", "%r61, 0;"), "descriptor", "instruction descriptor 0x00000000"),
        (("[%r50]", "[%r50+65536]"), "tmem", "starts at lane 1"),
        (("[%r50]", "[%r50+500]"), "tmem", "there are 512"),
        (("[%r50]", "[%r50+240]"), "tmem", "not all allocated"),
        (("%rd10, %rd11", "%rd12, %rd11"), "descriptor", "bits 46-48"),
        (("%rd10, %rd11", "%rd13, %rd11"), "out-of-bounds", "A is read from shared 0x"),
    ],
)
def test_what_an_mma_may_not_say(change: tuple[str, str], kind: str, words: str) -> None:
    body = "mov.b32 %r61, 0; mov.b64 %rd12, 0; mov.b64 %rd13, 0x4000404000003f00;"
    body += mma("f16", 1, BF16, 128, 1024).replace(*change)
    found = small(body)
    assert found.kinds == [kind]
    assert words in found.findings[0].message


def test_no_published_model_is_said_so() -> None:
    found = small(mma("f16", 1, BF16, 128, 1024), hardware_accumulation=True)
    assert [(f.kind, f.severity) for f in found.findings] == [("mismatch", "warning")]
    assert (found.buffers["out"][0, :, :32] == 16).all()


def test_the_published_model_adds_fp8() -> None:
    bits = instruction("e4m3", 128, 32)
    found = small(mma("f8f6f4", 1, bits, 128, 1024), name="e4m3", hardware_accumulation=True)
    assert found.findings == ()
    assert (found.buffers["out"][0, :, :32] == 32).all()


@pytest.mark.parametrize("schedule", range(8))
def test_every_schedule_gives_the_same_product(schedule: int) -> None:
    bits = instruction("e4m3", 256, 32)
    body = mma("f8f6f4", 2, bits, 128, 1024) + 3 * AGAIN.format(group=2, kind="f8f6f4")
    found = small(body, group=2, n=16, name="e4m3", number=schedule)
    assert found.findings == ()
    assert (found.buffers["out"][:, :, :32] == 128).all()


def test_a_commit_to_a_cta_that_is_not_there_is_found() -> None:
    bits = instruction("e4m3", 256, 32)
    body = mma("f8f6f4", 2, bits, 128, 1024) + "mov.b16 %h1, 7;"
    found = small(body, group=2, n=16, name="e4m3")
    assert found.kinds == ["barrier-misuse"]
    assert "multicast mask 0x0007" in found.findings[0].message


def test_a_commit_to_one_cta_leaves_the_other_waiting() -> None:
    bits = instruction("e4m3", 256, 32)
    body = mma("f8f6f4", 2, bits, 128, 1024) + "mov.b16 %h1, 1;"
    assert small(body, group=2, n=16, name="e4m3").kinds == ["deadlock"]


def test_an_arrival_may_come_after_that_of_a_later_commit() -> None:
    """Nobody waits for the first one's barrier: it may arrive when the CTA is no more.

    PTX lists commit among what is ordered (9.7.16.6.1) and calls it asynchronous (9.7.16.12.1).
    """
    first = """
        add.u32 %r53, %r4, 8;
        mbarrier.init.shared::cta.b64 [%r53], 1;
        tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r53];
    """
    found = [small(mma("f16", 1, BF16, 128, 1024) + first, number=n) for n in range(2)]
    assert found[0].findings == ()
    (late,) = found[1].findings
    assert (late.kind, late.severity) == ("leak", "warning")
    assert "of a CTA that has exited" in late.message
