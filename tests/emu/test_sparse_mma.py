"""mma.sp by the text of PTX: matrices with zeros, stored and coded by plain loops; wrong codes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import places

FORMS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (16, 4),
    "m16n8k32.row.col.f32.f16.f16.f32": (16, 2),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (32, 4),
    "m16n8k16.row.col.f32.tf32.tf32.f32": (32, 2),
    "m16n8k32.row.col.s32.s8.s8.s32": (8, 2),
    "m16n8k64.row.col.s32.s8.s8.s32": (8, 1),
    "m16n8k64.row.col.s32.s4.s4.s32": (4, 2),
    "m16n8k128.row.col.s32.s4.s4.s32": (4, 1),
}
"""Bits of an element, and how many selectors there are."""


def packed(elements: NDArray[np.int64], bits: int) -> NDArray[np.uint32]:
    """Return words of small integers along the last axis, as numbers of a type."""
    if bits == 16:
        return np.ascontiguousarray(elements.astype(np.float16)).view(np.uint32)
    if bits == 32:
        return np.ascontiguousarray(elements.astype(np.float32)).view(np.uint32)
    each = 32 // bits
    parts = (elements & (1 << bits) - 1).reshape(*elements.shape[:-1], -1, each)
    return np.asarray((parts << np.arange(0, 32, bits)).sum(axis=-1), np.uint32)


def registers(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return (32, registers) of a matrix's words: lanes t % 4 along K, rows g and then g + 8."""
    rows, count = words.shape
    found = []
    for block in range(count // 4):
        for half in range(rows // 8):
            part = words[8 * half : 8 * half + 8, 4 * block : 4 * block + 4]
            found.append(part.reshape(-1))
    return np.stack(found, axis=1)


def sparse(
    rng: np.random.Generator, k: int, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return A with its zeros, what is stored of it, and its codes (16, chunks)."""
    chunk, unit = {4: (8, 2), 32: (2, 1)}.get(bits, (4, 1))
    a = np.zeros((16, k), np.int64)
    stored, codes = [], []
    for row in range(16):
        for first in range(0, k, chunk):
            values = rng.integers(1, 5, chunk // 2)
            if chunk == 2:
                at = int(rng.integers(2))
                places = [at]
                codes.append(0b1110 if at else 0b0100)
            else:
                low, high = sorted(rng.permutation(4)[:2].tolist())
                codes.append(low | high << 2)
                places = [unit * n + part for n in (low, high) for part in range(unit)]
            for place_, value in zip(places, values, strict=True):
                a[row, first + place_] = value
            stored += values.tolist()
    return a, np.array(stored).reshape(16, -1), np.array(codes).reshape(16, -1)


def metadata(codes: NDArray[np.int64], bits: int, selector: int, other: int) -> NDArray[np.uint32]:
    """Return the register of 32 lanes; lanes that the selector does not name hold `other`."""
    words = [other] * 32
    for row in range(16):
        bits_of_row = sum(int(code) << 4 * n for n, code in enumerate(codes[row]))
        group, upper = row % 8, row // 8
        size = 4 * codes.shape[1]
        first = 4 * group + size // 16 * selector
        if bits >= 16:
            for part in range(size // 16):
                lane = first + part
                kept = words[lane] if upper else 0
                words[lane] = kept | (bits_of_row >> 16 * part & 0xFFFF) << 16 * upper
        else:
            for part in range(size // 32):
                words[first + 2 * part + upper] = bits_of_row >> 32 * part & 0xFFFFFFFF
    return np.array(words, np.uint32)


def run_form(
    form: str, a: NDArray[np.uint32], b: NDArray[np.uint32], e: NDArray[np.uint32],
    selector: int, engine: str, variant: str = "sp::ordered_metadata",
) -> Result:  # fmt: skip
    of_a, of_b = a.shape[1], b.shape[1]
    body = places(a=4 * of_a, b=4 * of_b, e=4, d=16)
    for n in range(of_a):
        body += f"ld.global.b32 %r{n}, [%rd1+{4 * n}];"
    for n in range(of_b):
        body += f"ld.global.b32 %r{10 + n}, [%rd2+{4 * n}];"
    named = (", ".join(f"%r{first + n}" for n in range(count))
             for first, count in ((0, of_a), (10, of_b)))  # fmt: skip
    listed = ", ".join(f"{{{names}}}" for names in named)
    body += f"""
        ld.global.b32 %r20, [%rd3];
        mov.b32 %r30, 0;
        mma.{variant}.sync.aligned.{form} {{%r31, %r32, %r33, %r34}}, {listed},
            {{%r30, %r30, %r30, %r30}}, %r20, {selector};
        st.global.v4.b32 [%rd4], {{%r31, %r32, %r33, %r34}};
    """
    buffers = {"a": a, "b": b, "e": e, "d": np.zeros((32, 4), np.uint32)}
    return run_ptx(body, buffers, target="sm_90a", engine=engine)


def matrix(d: NDArray[np.uint32], form: str) -> NDArray[np.float64]:
    """Return D: two columns of row g a lane, then those of row g + 8."""
    held = d.view(np.int32 if ".s32." in form else np.float32).astype(np.float64)
    return held.reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(16, 8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS)
def test_a_sparse_product_is_that_of_the_matrix_with_its_zeros(form: str, engine: str) -> None:
    bits, selectors = FORMS[form]
    k = int(form.split("k")[1].split(".")[0])
    rng = np.random.default_rng(k + bits)
    for selector in range(selectors):
        a, stored, codes = sparse(rng, k, bits)
        b = rng.integers(-4, 4, (8, k))
        e = metadata(codes, bits, selector, 0xFFFFFFFF)
        left, right = registers(packed(stored, bits)), registers(packed(b, bits))
        found = run_form(form, left, right, e, selector, engine)
        assert found.findings == ()
        assert matrix(found.buffers["d"], form).tolist() == (a @ b.T).tolist()


def of_code(
    form: str, code: int, engine: str, variant: str, values: tuple[int, ...] = (2, 3)
) -> tuple[list[tuple[str, str]], str, float]:
    """Run a form whose first code in row 3 is `code`: findings, the first text, D[3, 0]."""
    bits, _ = FORMS[form]
    k = int(form.split("k")[1].split(".")[0])
    chunk = {32: 2}.get(bits, 4)
    codes = np.full((16, k // chunk), 0b0100)
    codes[3, 0] = code
    stored = np.zeros((16, k // 2), np.int64)
    stored[3, : len(values)] = values
    b = np.zeros((8, k), np.int64)
    b[:, :4] = 1, 10, 100, 1000
    if bits == 8:
        b[:, :4] = 1, 5, 25, 125
    left, right = registers(packed(stored, bits)), registers(packed(b, bits))
    found = run_form(form, left, right, metadata(codes, bits, 0, 0), 0, engine, variant)
    said = [(f.rule, f.severity) for f in found.findings]
    text = found.findings[0].message if found.findings else ""
    return said, text, float(matrix(found.buffers["d"], form)[3, 0])


F16, TF32, S8 = (next(f for f in FORMS if kind in f) for kind in ("f16.f16", "tf32", "s8"))
ERROR, WARNING = ("sparse-metadata", "error"), ("sparse-metadata-of-zeros", "warning")


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_that_no_matrix_has_are_reported_and_bounded(engine: str) -> None:
    ordered, other = "sp::ordered_metadata", "sp"
    assert of_code(F16, 0b1001, engine, ordered) == ([], "", 2 * 10 + 3 * 100)
    said, text, made = of_code(F16, 0b0110, engine, ordered)
    assert (said, made) == ([ERROR], 2 * 100 + 3 * 10)
    assert "metadata of row 3, chunk 0 is 0b0110: index 2, then 1" in text
    assert of_code(F16, 0b0110, engine, other) == ([], "", 2 * 100 + 3 * 10)
    said, text, made = of_code(S8, 0b1111, engine, other)
    assert (said, made) == ([ERROR], (2 + 3) * 125)
    assert "index 3 twice" in text
    said, text, made = of_code(TF32, 0b0000, engine, ordered, (2,))
    assert (said, made) == ([ERROR], 2.0)
    assert "of tf32 it is 0b0100" in text
    assert of_code(TF32, 0b1110, engine, other, (2,)) == ([], "", 20.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_of_stored_zeros_are_a_warning_where_they_are_wrong(engine: str) -> None:
    ordered, other = "sp::ordered_metadata", "sp"
    assert of_code(F16, 0, engine, ordered, (0, 0))[0] == [WARNING]
    assert of_code(TF32, 0, engine, other, (0,))[0] == [WARNING]
    assert of_code(F16, 0, engine, other, (2, 0)) == ([], "", 2.0)
    assert of_code(F16, 0, engine, ordered, (2, 0))[0] == [ERROR]
