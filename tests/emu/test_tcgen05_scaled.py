"""Block-scaled products and tcgen05.cp, against float64 sums of elements times their scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, Result
from tests.emu.tensor_harness import descriptor_100, k_major, place
from tests.emu.test_tcgen05 import (
    A_START,
    B_START,
    CODES,
    SIZE,
    lanes_of,
    load_columns,
    run_pair,
    staged,
    text_of,
)

A_SCALES, B_SCALES = 0xF000, 0xF800  # in shared memory
A_COLUMN, B_COLUMN = 192, 200  # in tensor memory, of 256
CODE = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}


def narrow(code: int, name: str) -> float:
    """The value of one code: a sign, an exponent with a bias of half its range, a fraction."""
    exponent_bits, fraction_bits = {"e2m1": (2, 1), "e2m3": (2, 3), "e3m2": (3, 2)}[name]
    sign = -1.0 if code >> exponent_bits + fraction_bits else 1.0
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    bias = (1 << exponent_bits - 1) - 1
    if not exponent:
        return float(sign * fraction * 2.0 ** (1 - bias))
    return float(sign * (1 + fraction) * 2.0 ** (exponent - bias))


def operand(rng: np.random.Generator, rows: int, name: str, *, dense: bool = False) -> tuple[
    NDArray[np.uint8], NDArray[np.float64]
]:  # fmt: skip
    """Return rows of 32 bytes, and what their elements are worth."""
    if name == "e4m3":
        raw = rng.choice(np.array([0x28, 0x30, 0x38, 0x40, 0xB0, 0xB8], np.uint8), (rows, 32))
        worth = {0x28: 0.25, 0x30: 0.5, 0x38: 1.0, 0x40: 2.0, 0xB0: -0.5, 0xB8: -1.0}
        return raw, np.vectorize(worth.get)(raw).astype(np.float64)
    raw = rng.integers(0, 256, (rows, 32)).astype(np.uint8)
    bits = 4 if name == "e2m1" else 6
    values = np.zeros((rows, 64 if dense else 32))
    for row in range(rows):
        for part in range(1 if dense else 2):
            chunk = raw[row] if dense else raw[row, 16 * part : 16 * part + 16]
            number = int.from_bytes(chunk.tobytes(), "little")
            for n in range(64 if dense else 16):
                code = number >> bits * n & (1 << bits) - 1
                values[row, 16 * part + n] = narrow(code, name)
    return raw, values


def scales(rng: np.random.Generator, rows: int, count: int, kind: str) -> tuple[
    NDArray[np.uint8], NDArray[np.float64]
]:  # fmt: skip
    if kind == "ue8m0":
        codes = rng.integers(124, 131, (rows, count)).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(np.float64) - 127)
    codes = rng.choice(np.array([0x30, 0x38, 0x3C, 0x44], np.uint8), (rows, count))
    worth = {0x30: 0.5, 0x38: 1.0, 0x3C: 1.5, 0x44: 3.0}
    return codes, np.vectorize(worth.get)(codes).astype(np.float64)


def put_scales(memory: NDArray[np.uint8], start: int, codes: NDArray[np.uint8], byte: int) -> None:
    """512 bytes each 128 rows: row r at 16 (r % 32) + 4 (r / 32 % 4)."""
    for row, some in enumerate(codes):
        at = start - 0x400 + row // 128 * 512 + row % 32 * 16 + row // 32 % 4 * 4 + byte
        memory[at : at + len(some)] = some


def copy(group: int, start: int, column: int) -> str:
    source = descriptor_100(start, 128, 128, 0)
    return f"""
    add.u32 %r61, %r50, {column}; mov.b64 %rd12, {source:#x};
    tcgen05.cp.cta_group::{group}.32x128b.warpx4 [%r61], %rd12;
    """


def descriptor(
    m: int, n: int, types: tuple[int, int], ue8m0: bool, a_byte: int, b_byte: int
) -> int:
    bits = b_byte << 4 | types[0] << 7 | types[1] << 10 | n // 8 << 17 | int(ue8m0) << 23
    return bits | m // 128 << 27 | a_byte << 29


def scaled(kind: str, group: int, bits: int, size: str, enable: int = 0) -> str:
    a, b = (descriptor_100(start, 0, 1024, CODES[128]) for start in (A_START, B_START))
    return f"""
    mov.b64 %rd10, {a:#x}; mov.b64 %rd11, {b:#x}; mov.b32 %r60, {bits:#x};
    add.u32 %r62, %r50, {A_COLUMN}; add.u32 %r63, %r50, {B_COLUMN};
    tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{size}
        [%r50], %rd10, %rd11, %r60, [%r62], [%r63], {enable};
    """


CASES = [
    ("mxf8f6f4", "", "e4m3", "e4m3", "ue8m0", 1, 1, 128, 64),
    ("mxf8f6f4", ".block32", "e3m2", "e2m3", "ue8m0", 1, 1, 128, 160),
    ("mxf8f6f4", ".scale_vec::1X", "e2m1", "e4m3", "ue8m0", 1, 2, 256, 128),
    ("mxf8f6f4", "", "e4m3", "e2m1", "ue8m0", 1, 2, 128, 96),
    ("mxf4", "", "e2m1", "e2m1", "ue8m0", 2, 1, 128, 32),
    ("mxf4nvf4", ".block32", "e2m1", "e2m1", "ue8m0", 2, 2, 256, 64),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue4m3", 4, 1, 128, 64),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kind", "size", "a_type", "b_type", "scale", "count", "group", "m", "n"), CASES
)
def test_products_are_those_of_scaled_elements(
    kind: str, size: str, a_type: str, b_type: str, scale: str, count: int, group: int, m: int,
    n: int, engine: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(m + n + count)
    dense = kind != "mxf8f6f4"
    a, of_a = operand(rng, m, a_type, dense=dense)
    b, of_b = operand(rng, n, b_type, dense=dense)
    a_codes, a_scales = scales(rng, m, count, scale)
    b_codes, b_scales = scales(rng, n, count, scale)
    a_byte, b_byte = {1: (2, 3), 2: (2, 0), 4: (0, 0)}[count]
    types = (1, 1) if dense else (CODE[a_type], CODE[b_type])
    memory = staged(a, b, group, 128, 1024)
    for cta in range(group):
        own = a_codes[cta * m // group :][: m // group]
        put_scales(memory[cta], A_SCALES, own, a_byte)
        if (group, m) != (2, 128):
            put_scales(memory[cta], B_SCALES, b_codes, b_byte)
    body = copy(group, A_SCALES, A_COLUMN)
    if (group, m) == (2, 128):  # each half of the columns has its lanes: 0 to 63, 64 to 127
        for cta in range(group):
            for half in range(2):
                some = b_codes[half * n // 2 :][: n // 2]
                for row, codes in enumerate(some):
                    for lane in (row % 32 + 64 * half, row % 32 + 64 * half + 32):
                        at = B_SCALES - 0x400 + lane * 16 + row // 32 * 4 + b_byte
                        memory[cta, at : at + len(codes)] = codes
        source = descriptor_100(B_SCALES, 128, 128, 0)
        body += f"""
        add.u32 %r61, %r50, {B_COLUMN}; mov.b64 %rd12, {source:#x};
        tcgen05.cp.cta_group::{group}.128x128b [%r61], %rd12;
        """
    else:
        for part in range(-(-n // 128)):
            body += copy(group, B_SCALES + 512 * part, B_COLUMN + 4 * part)
    bits = descriptor(m, n, types, scale == "ue8m0", a_byte, b_byte)
    body += scaled(kind, group, bits, size) + scaled(kind, group, bits, size, 1)
    columns = 1 << (n - 1).bit_length()
    text = text_of(group, body, load_columns(min(columns, 128)))
    found = run_pair(text, memory, group, engine=engine)
    assert found.findings == ()
    wide = of_a.shape[1] // count
    expected = 2 * (of_a * np.repeat(a_scales, wide, 1)) @ (of_b * np.repeat(b_scales, wide, 1)).T
    out = found.buffers["out"]
    for (cta, lane, column), value in lanes_of(expected, m, n, group).items():
        if column < 128:
            assert out[cta, lane, column] == pytest.approx(value, rel=1e-6, abs=1e-6)


ROWS = np.arange(128 * 32, dtype=np.uint32).astype(np.uint8).reshape(128, 32)
PLACES: dict[str, Callable[[int], int | None]] = {
    "128x256b": lambda lane: lane,
    "128x128b": lambda lane: lane,
    "64x128b.warpx2::02_13": lambda lane: lane % 64,
    "64x128b.warpx2::01_23": lambda lane: lane % 32 + lane // 64 * 32,
    "32x128b.warpx4": lambda lane: lane % 32,
    "4x256b": lambda lane: lane // 32 if lane % 32 == 0 else None,
}


def copied(shape: str, *, span: int = 128, group: int = 1, **rest: Any) -> Result:  # noqa: ANN401
    memory = np.zeros((group, SIZE), np.uint8)
    stride, leading = (8 * span, 0) if span > 16 else (256, 128)
    for cta in range(group):
        place(memory[cta], A_START, ROWS + np.uint8(cta), k_major(span, stride, leading), span)
    source = descriptor_100(A_START, leading, stride, CODES[span])
    body = f"""
    mov.b64 %rd12, {source:#x};
    tcgen05.cp.cta_group::{group}.{shape} [%r50], %rd12;
    """
    return run_pair(text_of(group, body, load_columns(8)), memory, group, **rest)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("span", [16, 128])
@pytest.mark.parametrize("shape", PLACES)
def test_rows_go_to_the_lanes_of_the_shape(shape: str, span: int, engine: str) -> None:
    found = copied(shape, span=span, engine=engine)
    assert [f for f in found.findings if f.kind != "uninitialised"] == []
    out = found.buffers["out"].view(np.uint32)[0, :, :8]
    columns = 8 if "256b" in shape else 4
    for lane in range(128):
        row = PLACES[shape](lane)
        words = ROWS[row].view(np.uint32) if row is not None else np.zeros(8, np.uint32)
        assert out[lane, :columns].tolist() == words[:columns].tolist(), lane


def test_each_cta_of_a_pair_copies_its_own_rows() -> None:
    found = copied("128x256b", group=2)
    assert found.findings == ()
    out = found.buffers["out"].view(np.uint32)[:, :, :8]
    for cta in range(2):
        assert np.array_equal(out[cta], (ROWS + np.uint8(cta)).view(np.uint32))


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("[%r50], %rd12", "[%r50+65536], %rd12", "tmem", "starts at lane 1"),
        ("[%r50], %rd12", "[%r50+509], %rd12", "tmem", "starts at column 509"),
        ("[%r50], %rd12", "[%r50+256], %rd12", "tmem", "not all allocated"),
        (f"{1 << 46:#x}", "0", "descriptor", "must be 1"),
    ],
)
def test_what_a_copy_may_not_say(old: str, new: str, kind: str, words: str) -> None:
    memory = np.zeros((1, SIZE), np.uint8)
    source = descriptor_100(A_START, 0, 1024, CODES[128]) & ~(1 << 46)
    body = f"""
    mov.b64 %rd12, {source:#x}; or.b64 %rd12, %rd12, {1 << 46:#x};
    tcgen05.cp.cta_group::1.128x128b [%r50], %rd12;
    """
    text = text_of(1, body, "")
    assert old in text
    found = run_pair(text.replace(old, new), memory, 1)
    assert any(f.kind == kind and words in f.message for f in found.findings)


def test_scales_must_lie_in_columns_that_are_allocated() -> None:
    memory = np.zeros((1, SIZE), np.uint8)
    bits = descriptor(128, 64, (0, 0), True, 0, 0)
    text = text_of(1, scaled("mxf8f6f4", 1, bits, ""), load_columns(64))
    found = run_pair(text.replace(f"%r50, {A_COLUMN}", "%r50, 300"), memory, 1)
    assert any("A's scales has columns 300" in f.message for f in found.findings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b & ~(1 << 23), "bit 23 is 0"),
        (lambda b: b | 1 << 31, "bit 31"),
        (lambda b: b & ~(3 << 27), "M in bits 27-28 is 0"),
        (lambda b: b & ~(7 << 7) | 2 << 7, "the type of A in bits 7-9 is 2"),
        (lambda b: b & ~(7 << 7) | 5 << 7 | 1 << 15, "A is e2m1, which is K-major"),
    ],
)
def test_what_a_descriptor_may_not_say(change: Any, words: str) -> None:  # noqa: ANN401
    bits = change(descriptor(128, 64, (0, 0), True, 0, 0))
    text = text_of(1, scaled("mxf8f6f4", 1, bits, ""), "")
    found = run_pair(text, np.zeros((1, SIZE), np.uint8), 1)
    assert any(f.kind == "descriptor" and words in f.message for f in found.findings)
