"""tcgen05.mma.ws against float64 NumPy: its D lies in all lanes, in layouts D, E and G."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from numpy.typing import NDArray

from tests.emu.tensor_harness import descriptor_100, operand, values
from tests.emu.test_tcgen05 import (
    A_START,
    B_START,
    CODES,
    KINDS,
    instruction,
    load_columns,
    run_pair,
    staged,
    text_of,
)

FORM = "tcgen05.mma.ws.cta_group::1.kind::{kind}{more} [%r50], {a}, %rd11, %r60, {last};"


def product(name: str, m: int, n: int, span: int, last: str, more: str = "", a: str = "") -> str:
    """Two products of which the second adds, the text of the second as `more` and `last` say."""
    kind, stride = KINDS[name], 8 * span
    first, second = (descriptor_100(at, 0, stride, CODES[span]) for at in (A_START, B_START))
    a = a or "%rd10"
    return f"""
    mov.b64 %rd10, {first:#x}; mov.b64 %rd11, {second:#x}; mov.b64 %rd12, 0;
    mov.b32 %r60, {instruction(name, m, n):#x};
    {FORM.format(kind=kind, more="", a=a, last="0")}
    {FORM.format(kind=kind, more=more, a=a, last=last)}
    """


def place_of(row: int, column: int, m: int, n: int) -> tuple[int, int]:
    """Return lane and column of D[row, column]: CUTLASS's tmem_frg_ws."""
    if m == 128:
        return row, column
    parts = 128 // m
    return row + m * (column // (n // parts)), column % (n // parts)


def spread(d: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return tensor memory as it holds D, (128, columns)."""
    m, n = d.shape
    found = np.full((128, n * m // 128), np.nan)
    for row in range(m):
        for column in range(n):
            found[place_of(row, column, m, n)] = d[row, column]
    return found


@pytest.mark.parametrize(
    ("name", "m", "n", "span", "more", "last"),
    [
        ("bf16", 32, 64, 128, "", "1"),
        ("e4m3", 64, 128, 64, ".collector::b0::fill", "1, 0"),
        ("f16", 64, 64, 32, ".collector::b3::lastuse", "1, %rd12"),
        ("tf32", 128, 64, 128, ".collector::b2::discard", "1"),
        ("e5m2", 32, 256, 128, ".collector::b1::use", "1, 0"),
    ],
)
def test_products_lie_in_all_lanes(
    name: str, m: int, n: int, span: int, more: str, last: str
) -> None:
    rng = np.random.default_rng(m + n)
    a, b = operand(rng, m, name), operand(rng, n, name)
    wide = m * n // 128
    text = text_of(1, product(name, m, n, span, last, more), load_columns(wide))
    found = run_pair(text, staged(a, b, 1, span, 8 * span), 1)
    assert found.findings == ()
    expected = spread(2 * values(a, name) @ values(b, name).T)
    np.testing.assert_allclose(found.buffers["out"][0, :, :wide], expected, rtol=1e-5, atol=1e-4)


def test_each_half_of_the_lanes_has_its_own_rows_of_a() -> None:
    """Of 64 rows in tensor memory, lanes 64 to 127 are those of the upper half of the columns."""
    rng = np.random.default_rng(3)
    a, b = operand(rng, 128, "e4m3"), operand(rng, 64, "e4m3")
    memory = staged(a[:64], b, 1, 128, 1024)
    memory[0, 0x4000:0x5000] = a.reshape(-1)  # 32 bytes: 8 words a lane
    text = text_of(1, product("e4m3", 64, 64, 128, "1", a="[%r50+64]"), load_columns(32))
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
    rows, columns = values(a, "e4m3"), values(b, "e4m3")
    expected = 2 * np.concatenate([rows[:64] @ columns[:32].T, rows[64:] @ columns[32:].T])
    np.testing.assert_allclose(found.buffers["out"][0, :, :32], expected, rtol=1e-5, atol=1e-4)


def run_small(body: str) -> list[str]:
    """Return what is found where `body` is the product."""
    zeros = np.zeros((64, 32), np.uint8)
    found = run_pair(text_of(1, body, load_columns(32)), staged(zeros, zeros, 1, 128, 1024), 1)
    return [f.message for f in found.findings if f.severity == "error"]


SMALL = product("bf16", 64, 64, 128, "1, %rd12")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("mov.b64 %rd12, 0;", "mov.b64 %rd12, 0x8000000001;"), "zero columns of B"),
        ((hex(instruction("bf16", 64, 64)), hex(instruction("bf16", 64, 32))), "an N of 64, 128"),
        ((hex(instruction("bf16", 64, 64)), hex(instruction("bf16", 64, 64) | 1 << 30)),
         "the maximum shift"),
        (("[%r50]", "[%r50+1048576]"), "starts at lane 16"),
        (("[%r50], %rd10", "[%r50], [%r50]"), "A of 32 rows in tensor memory"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_said(change: tuple[str, str], words: str) -> None:
    body = SMALL.replace(*change)
    if "32 rows" in words:
        body = body.replace(hex(instruction("bf16", 64, 64)), hex(instruction("bf16", 32, 64)))
    assert any(words in text for text in run_small(body))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("1, %rd12", "1, 1"), "a mask of zero columns"),
        ((".ws.cta_group::1", ".ws.sp.cta_group::1"), ".sp"),
        ((".ws.cta_group::1", ".ws.collector::b0::use.collector::b1::use.cta_group::1"),
         "one buffer of .collector"),
    ],
)  # fmt: skip
def test_what_is_not_taken_is_refused_by_name(change: tuple[str, str], words: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_small(SMALL.replace(*change))
    assert words in "; ".join(r.text for r in refused.value.instructions)
