"""tcgen05.mma.sp by the text of PTX: matrices with zeros, stored and coded by plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.races import Races
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, Result
from tests.emu.tensor_harness import descriptor_100
from tests.emu.test_sparse_mma import packed, sparse
from tests.emu.test_tcgen05 import (
    A_START,
    B_START,
    CODES,
    lanes_of,
    load_columns,
    run_pair,
    staged,
    text_of,
)
from tests.emu.test_tcgen05_scaled import copy, descriptor, put_scales, scales

META, COLUMN = 0xF000, 192  # in shared memory, and in tensor memory
N = 32
_E4M3 = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}
KINDS = {
    "f16": ("f16", 16, 1 << 4),
    "bf16": ("f16", 16, 1 << 4 | 1 << 7 | 1 << 10),
    "f16 to f16": ("f16", 16, 0),
    "tf32": ("tf32", 32, 1 << 4 | 2 << 7 | 2 << 10),
    "e4m3": ("f8f6f4", 8, 1 << 4),
    "s8": ("i8", 8, 2 << 4 | 1 << 7 | 1 << 10),
}
"""The kind, the bits of an element, and the types in the instruction descriptor."""


def rows_of(elements: NDArray[np.int64], name: str) -> NDArray[np.uint8]:
    """Return the bytes of small integers as numbers of a type."""
    if name == "e4m3":
        sizes = np.vectorize(_E4M3.get)(np.abs(elements))
        return np.asarray(sizes | np.where(elements < 0, 0x80, 0), np.uint8)
    if name == "bf16":
        bits = elements.astype(np.float32).view(np.uint32) >> 16
        return np.ascontiguousarray(bits.astype(np.uint16)).view(np.uint8)
    return packed(elements, KINDS[name][1]).view(np.uint8)


def put_metadata(
    memory: NDArray[np.uint8], codes: NDArray[np.int64], bits: int, selector: int
) -> None:
    """Write the codes of 128 rows, 16 bytes of them a lane, as tcgen05.cp.128x128b takes them."""
    words = np.zeros((128, 4), np.uint32)
    for row in range(128):
        all_bits = sum(int(code) << 4 * n for n, code in enumerate(codes[row]))
        for part in range(2):
            if bits >= 16:
                lane = row // 16 * 16 + 8 * part + row % 8
                half = all_bits >> 16 * part & 0xFFFF
                words[lane, selector] |= np.uint32(half << 16 * (row // 8 % 2))
            else:
                words[row, part] = all_bits >> 32 * part & 0xFFFFFFFF
    memory[META - 0x400 :][:2048] = words.view(np.uint8).reshape(-1)


def body_of(kind: str, group: int, bits: int, *, first: str = "", again: str = "") -> str:
    a, b = (descriptor_100(start, 0, 1024, CODES[128]) for start in (A_START, B_START))
    source = descriptor_100(META, 128, 128, 0)
    product = f"""
    tcgen05.mma.sp.cta_group::{group}.kind::{kind} [%r50], %rd10, %rd11, [%r61], %r60,"""
    first = first or f"tcgen05.cp.cta_group::{group}.128x128b [%r61], %rd12;"
    return f"""
    mov.b64 %rd10, {a:#x}; mov.b64 %rd11, {b:#x}; mov.b32 %r60, {bits:#x};
    add.u32 %r61, %r50, {COLUMN}; mov.b64 %rd12, {source:#x};
    {first} {product} 0; {product if again else ""} {again}
    """


def run_case(
    name: str,
    group: int,
    selector: int,
    *,
    code: int | None = None,
    bits: int | None = None,
    **rest: Any,  # noqa: ANN401 - of `body_of` and as run_text takes it
) -> tuple[Result, NDArray[np.int64]]:
    """Run a product of M 128 a CTA; `code` is that of row 3, chunk 2 of the first CTA."""
    kind, size, types = KINDS[name]
    rng = np.random.default_rng(size + group)
    m, k = 128 * group, 512 // size
    parts = [sparse(rng, k, size) for _ in range(m // 16)]
    a, stored, codes = (np.concatenate([part[n] for part in parts]) for n in range(3))
    if code is not None:
        codes[3, 2] = code
    b = rng.integers(-4, 5, (N, k))
    memory = staged(rows_of(stored, name.split()[0]), rows_of(b, name.split()[0]), group, 128, 1024)
    for cta in range(group):
        put_metadata(memory[cta], codes[128 * cta :][:128], size, selector)
    said = types | N // 8 << 17 | m // 16 << 24 | 4 | selector
    options = {word: rest.pop(word) for word in ("first", "again") if word in rest}
    body = body_of(kind, group, said if bits is None else bits, **options)
    return run_pair(text_of(group, body, load_columns(N)), memory, group, **rest), a @ b.T


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "group", "selector"),
    [
        ("f16", 1, 0),
        ("f16", 2, 1),
        ("bf16", 1, 1),
        ("f16 to f16", 1, 0),
        ("tf32", 1, 1),
        ("tf32", 2, 0),
        ("e4m3", 1, 0),
        ("e4m3", 2, 0),
        ("s8", 1, 0),
        ("s8", 2, 0),
    ],
)
def test_a_sparse_product_is_that_of_the_matrix_with_its_zeros(
    name: str, group: int, selector: int, engine: str
) -> None:
    found, wanted = run_case(name, group, selector, again="1;", engine=engine)
    assert found.findings == ()
    out, sums = found.buffers["out"], np.asarray(2 * wanted, np.float64)
    if name == "s8":
        out = out.view(np.int32)
    elif name == "f16 to f16":
        out = out.view(np.uint32).astype(np.uint16).view(np.float16)
    for (cta, lane, column), value in lanes_of(sums, 128 * group, N, group).items():
        assert out[cta, lane, column] == value


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_that_no_matrix_has_are_reported(engine: str) -> None:
    found, _ = run_case("e4m3", 1, 0, code=0b1111, engine=engine)
    assert [(f.rule, f.severity) for f in found.findings] == [("sparse-metadata", "error")]
    assert "the metadata of row 3, chunk 2 is 0b1111: index 3 twice" in found.findings[0].message
    found, _ = run_case("tf32", 1, 0, code=0b0101, engine=engine)
    assert [(f.rule, f.severity) for f in found.findings] == [("sparse-metadata", "error")]


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_that_nothing_wrote_are_found(engine: str) -> None:
    found, _ = run_case("f16", 1, 0, first=" ", engine=engine, observers=[Init()])
    assert "uninitialised" in found.kinds


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_in_columns_that_are_not_allocated_are_found(engine: str) -> None:
    move = "add.u32 %r61, %r50, 256;"
    found, _ = run_case("f16", 1, 0, first=move, engine=engine)
    assert found.kinds == ["tmem"]
    assert "A's metadata has" in found.findings[0].message


F16 = KINDS["f16"][2] | N // 8 << 17


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        (F16 | 8 << 24, "bit 2 (sparse) is 0, and must be 1 for tcgen05.mma.sp"),
        (F16 | 8 << 24 | 6, "the sparsity selector in bits 0-1 is 2; allowed: 0 to 1"),
        (F16 | 4 << 24 | 4, "M in bits 24-28 is 64: the metadata of 64 rows a CTA"),
    ],
)
def test_other_descriptors_are_named(bits: int, why: str) -> None:
    found, _ = run_case("f16", 1, 0, bits=bits)
    assert found.kinds == ["descriptor"]
    assert why in found.findings[0].message


SCALES = (0xF800, 0x10000)  # of A and B in shared memory,
SCALE_COLUMNS = (208, 216)  # and in tensor memory
_E2M1 = {0: 0, 1: 2, 2: 4, 3: 5, 4: 6}


def narrow_rows(elements: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes of small integers as dense e2m1, two a byte."""
    codes = np.vectorize(_E2M1.get)(np.abs(elements)) | np.where(elements < 0, 8, 0)
    return np.asarray(codes[:, ::2] | codes[:, 1::2] << 4, np.uint8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kind", "size", "count", "group"),
    [
        ("mxf8f6f4", "", 1, 1),
        ("mxf8f6f4", "", 1, 2),
        ("mxf4", ".block32", 2, 1),
        ("mxf4nvf4", ".scale_vec::4X", 4, 1),
    ],
)
def test_a_scale_is_of_twice_as_many_elements_of_k(
    kind: str, size: str, count: int, group: int, engine: str
) -> None:
    wide = kind == "mxf8f6f4"
    bits, m = 8 if wide else 4, 128 * group
    k, rng = 512 // bits, np.random.default_rng(count + group)
    parts = [sparse(rng, k, bits) for _ in range(m // 16)]
    a, stored, codes = (np.concatenate([part[n] for part in parts]) for n in range(3))
    b = rng.integers(-4, 5, (N, k))
    pack = (lambda elements: rows_of(elements, "e4m3")) if wide else narrow_rows
    memory = staged(pack(stored), pack(b), group, 128, 1024)
    scale = "ue4m3" if count == 4 else "ue8m0"
    (a_codes, a_scales), (b_codes, b_scales) = (scales(rng, rows, count, scale) for rows in (m, N))
    for cta in range(group):
        put_metadata(memory[cta], codes[128 * cta :][:128], bits, 0)
        put_scales(memory[cta], SCALES[0], a_codes[128 * cta :][:128], 0)
        put_scales(memory[cta], SCALES[1], b_codes, 0)
    types = (0, 0) if wide else (1, 1)
    said = descriptor(m, N, types, scale == "ue8m0", 0, 0) | 4
    of_a, of_b = (descriptor_100(start, 0, 1024, CODES[128]) for start in (A_START, B_START))
    body = "".join(copy(group, *places) for places in zip(SCALES, SCALE_COLUMNS, strict=True))
    body += f"""
    mov.b64 %rd10, {of_a:#x}; mov.b64 %rd11, {of_b:#x}; mov.b32 %r60, {said:#x};
    add.u32 %r64, %r50, {COLUMN}; mov.b64 %rd12, {descriptor_100(META, 128, 128, 0):#x};
    tcgen05.cp.cta_group::{group}.128x128b [%r64], %rd12;
    add.u32 %r62, %r50, {SCALE_COLUMNS[0]}; add.u32 %r63, %r50, {SCALE_COLUMNS[1]};
    tcgen05.mma.sp.cta_group::{group}.kind::{kind}.block_scale{size}
        [%r50], %rd10, %rd11, [%r64], %r60, [%r62], [%r63], 0;
    """
    found = run_pair(text_of(group, body, load_columns(N)), memory, group, engine=engine)
    assert found.findings == ()
    left, right = (
        elements * np.repeat(worth, k // count, 1)
        for elements, worth in ((a, a_scales), (b, b_scales))
    )
    out, wanted = found.buffers["out"], np.asarray(left @ right.T, np.float64)
    for (cta, lane, column), value in lanes_of(wanted, m, N, group).items():
        assert out[cta, lane, column] == pytest.approx(value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_good_kernel_has_no_finding_in_any_schedule(engine: str) -> None:
    left = []
    for number in range(4):
        found, _ = run_case(
            "f16", 2, 1, again="1;", engine=engine, number=number, observers=[Races(), Init()]
        )
        assert found.findings == ()
        left.append(found.buffers["out"])
    assert all(np.array_equal(left[0][..., :N], other[..., :N]) for other in left)
