"""tcgen05 against float64 NumPy; operands are placed by the formulas, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.kit import Result, run_text
from tests.emu.tensor_kit import (
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


def run_pair(text: str, memory: NDArray[np.uint8], group: int, **rest: Any) -> Result:
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
