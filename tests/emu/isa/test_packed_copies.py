"""Tensor copies of types under a byte, against a model of PTX ISA 5.5.1 element by element."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.tensor.map_image import decode
from kernelrig.emu.tensor.packed_elements import PADDING
from kernelrig.emu.tensor.tensor_map import TensorMap

from tests.emu.boxes import SHARED, START, WAIT, first_address, image, store_tile, swizzled
from tests.emu.harness import ENGINES, Result, run_ptx

A = (np.arange(64 * 256) * 7919 >> 3).astype(np.uint8).reshape(64, 256)
BITS = {"b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6}
DIMS = {"b4x16": 512, "b4x16_p64": 512, "b6x16_p32": 256}
"""Elements of a row; those of 6 bits leave a fourth of it to padding."""
DATA = {"b4x16": 16, "b4x16_p64": 8, "b6x16_p32": 12}
"""Bytes of each 16 in shared memory that hold elements."""
ROWS = 8
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
FILL = """
mul.lo.u32 %r5, %r0, 0x01930507; mad.lo.u32 %r6, %r0, 16, %r2;
add.u32 %r7, %r5, 0x7b3d5f91; xor.b32 %r8, %r5, 0xf00dfeed; add.u32 %r9, %r7, %r8;
st.shared.v4.b32 [%r6], {%r5, %r7, %r8, %r9};
fence.proxy.async.shared::cta;
bar.sync 0;
"""
"""Of a tile of 1024 bytes: 16 by each of 64 threads."""


def packed_map(dtype: str, swizzle: str = "none", box: int = 128) -> TensorMap:
    address = first_address(A.nbytes)
    return TensorMap(
        dtype, address, (DIMS[dtype], 64), (256,), (box, ROWS), (1, 1), swizzle=swizzle
    )


def run(body: str, map_: TensorMap, engine: str) -> Result:
    buffers = {"a": A, "map": image(map_), "out": np.zeros(1024, np.uint8)}
    return run_ptx(body, buffers, shared=SHARED, block=(64, 1, 1), engine=engine)


def load(map_: TensorMap, corner: tuple[int, int], tx: int, engine: str) -> Result:
    body = (
        "ld.param.u64 %rd1, [map];\n"
        f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {tx};\n"
        f"@%p0 {LOAD} [%r2], [%rd1, {{{corner[0]}, {corner[1]}}}], [%r1];\n"
    )
    return run(START + body + WAIT + store_tile(1024), map_, engine)


def store(map_: TensorMap, corner: tuple[int, int], engine: str) -> Result:
    body = f"""
    ld.param.u64 %rd1, [map];
    @%p0 {STORE} [%rd1, {{{corner[0]}, {corner[1]}}}], [%r2];
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;
    """
    return run(START + FILL + body + store_tile(1024), map_, engine)


def element(row: bytes, number: int, bits: int) -> int:
    return int.from_bytes(row, "little") >> number * bits & (1 << bits) - 1


def expected(dtype: str, swizzle: str, corner: tuple[int, int], box: int) -> dict[int, int]:
    """Return the bytes of the tile that a load writes, padding left out."""
    bits, pitch = BITS[dtype], box * BITS[dtype] // 8 * 16 // DATA[dtype]
    found = {}
    for row in range(ROWS):
        y, codes = corner[1] + row, 0
        for n in range(box):
            x = corner[0] + n
            inside = 0 <= x < DIMS[dtype] and 0 <= y < 64
            codes |= (element(A[y].tobytes(), x, bits) if inside else 0) << bits * n
        held = codes.to_bytes(box * bits // 8, "little")
        for n, byte in enumerate(held):
            to = row * pitch + n // DATA[dtype] * 16 + n % DATA[dtype]
            found[swizzled(swizzle, to)] = byte
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("dtype", "swizzle", "corner", "box"),
    [
        ("b4x16", "none", (64, 3), 128),
        ("b4x16", "none", (-32, 60), 96),
        ("b4x16", "128B", (32, 5), 256),
        ("b4x16", "64B", (480, -3), 128),
        ("b4x16_p64", "none", (128, 3), 128),
        ("b4x16_p64", "128B", (384, 60), 128),
        ("b4x16_p64", "128B_ATOM_32B", (512, 0), 128),
        ("b6x16_p32", "none", (128, -2), 128),
        ("b6x16_p32", "128B", (0, 9), 128),
        ("b6x16_p32", "128B_ATOM_32B", (128, 9), 128),
    ],
)
def test_a_load_puts_sixteen_elements_where_their_type_says(
    dtype: str, swizzle: str, corner: tuple[int, int], box: int, engine: str
) -> None:
    width = box * BITS[dtype] // 8
    result = load(packed_map(dtype, swizzle, box), corner, width * ROWS, engine)
    assert result.kinds == []
    wanted = expected(dtype, swizzle, corner, box)
    out = result.buffers["out"]
    assert {at: int(out[at]) for at in wanted} == wanted
    if DATA[dtype] < 16:
        assert {int(out[at]) for at in range(1024) if at not in wanted} == {PADDING}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("dtype", "swizzle", "corner"),
    [
        ("b4x16", "none", (64, 3)),
        ("b4x16", "64B", (448, 60)),
        ("b6x16_p32", "none", (128, 3)),
        ("b6x16_p32", "128B_ATOM_64B", (0, 60)),
    ],
)
def test_a_store_takes_the_elements_alone(
    dtype: str, swizzle: str, corner: tuple[int, int], engine: str
) -> None:
    result = store(packed_map(dtype, swizzle), corner, engine)
    assert result.kinds == []
    tile, bits = result.buffers["out"].tobytes(), BITS[dtype]
    wanted = A.copy()
    for row in range(min(ROWS, 64 - corner[1])):
        y = corner[1] + row
        codes = int.from_bytes(A[y].tobytes(), "little")
        for n in range(min(128, DIMS[dtype] - corner[0])):
            if bits == 6:  # one element of each byte
                code = tile[swizzled(swizzle, row * 128 + n)] & 63
            else:
                code = tile[swizzled(swizzle, row * 64 + n // 2)] >> 4 * (n % 2) & 15
            at = (corner[0] + n) * bits
            codes = codes & ~((1 << bits) - 1 << at) | code << at
        wanted[y] = np.frombuffer(codes.to_bytes(256, "little"), np.uint8)
    assert np.array_equal(result.buffers["a"], wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("dtype", "swizzle", "corner", "stores", "sentence"),
    [
        (
            "b4x16",
            "none",
            (16, 0),
            False,
            "is byte 8 of a row: start at a multiple of 16 bytes, 32",
        ),
        ("b4x16_p64", "none", (64, 0), False, "start at a multiple of 128 of b4x16_p64"),
        ("b4x16_p64", "128B", (0, 0), True, "is for loads alone: store by a map of b4x16"),
        ("b6x16_p32", "128B_ATOM_64B", (0, 0), False, "128B_ATOM_64B is for stores alone"),
    ],
)
def test_what_a_packed_type_cannot_is_said(
    dtype: str, swizzle: str, corner: tuple[int, int], stores: bool, sentence: str, engine: str
) -> None:
    map_ = packed_map(dtype, swizzle)
    result = store(map_, corner, engine) if stores else load(map_, corner, map_.box_bytes, engine)
    assert sentence in result.findings[0].message


def test_a_packed_map_travels() -> None:
    for dtype in BITS:
        assert decode(packed_map(dtype).image()) == packed_map(dtype)
