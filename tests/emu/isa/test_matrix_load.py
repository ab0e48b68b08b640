"""ldmatrix and stmatrix."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.observe.initialisation import Init
from numpy.typing import NDArray

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import places

TILE = ".shared .align 16 .b8 tile[512];"
# Lane l names row l: of matrix l // 8, row l % 8; element e of it is 8 l + e.
FILLED = """
    shl.b32 %r1, %r190, 4;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd1];
    st.shared.v4.b32 [%r2], {%r3, %r4, %r5, %r6};
    bar.warp.sync -1;
"""
ELEMENTS = np.arange(256, dtype=np.uint16)


def _loaded(count: int, trans: str) -> list[list[int]]:
    """Return a row a lane: two elements of each matrix."""
    registers = ", ".join(f"%r{10 + n}" for n in range(count))
    body = places(a=16, c=16) + FILLED
    body += f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r2];\n"
    for n in range(count):
        body += f"st.global.b32 [%rd2+{4 * n}], %r{10 + n};\n"
    result = run_ptx(body, {"a": ELEMENTS, "c": np.zeros(256, np.uint16)}, shared=TILE)
    assert result.findings == ()
    rows: list[list[int]] = result.buffers["c"].reshape(32, 8)[:, : 2 * count].tolist()
    return rows


def test_a_lane_holds_two_neighbours_of_a_row() -> None:
    rows = _loaded(1, "")
    assert [rows[0], rows[1], rows[3], rows[4], rows[31]] == [
        [0, 1],
        [2, 3],
        [6, 7],
        [8, 9],
        [62, 63],
    ]


def test_transposed_it_holds_two_neighbours_of_a_column() -> None:
    rows = _loaded(1, ".trans")
    assert [rows[0], rows[1], rows[3], rows[4], rows[31]] == [
        [0, 8],
        [16, 24],
        [48, 56],
        [1, 9],
        [55, 63],
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_each_matrix_has_its_register(count: int) -> None:
    rows = _loaded(count, "")
    assert rows[5] == [value + 64 * m for m in range(count) for value in (10, 11)]


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_what_stmatrix_stores_ldmatrix_loads(trans: str) -> None:
    body = (
        places(a=16, c=16)
        + FILLED
        + f"""
        ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r2];
        st.shared.v4.b32 [%r2], {{0, 0, 0, 0}};
        stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r2], {{%r10, %r11, %r12, %r13}};
        ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];
        st.global.v4.b32 [%rd2], {{%r3, %r4, %r5, %r6}};
    """
    )
    result = run_ptx(body, {"a": ELEMENTS, "c": np.zeros(256, np.uint16)}, shared=TILE)
    assert result.findings == ()
    assert result.buffers["c"].tolist() == ELEMENTS.tolist()


def test_only_lanes_that_name_rows_are_checked() -> None:
    body = (
        places(c=16)
        + """
        shl.b32 %r1, %r190, 4;
        mov.u32 %r2, tile;
        add.u32 %r2, %r2, %r1;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2+384];
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11}, [%r2+384];
    """
    )
    result = run_ptx(body, {"c": np.zeros(256, np.uint16)}, shared=TILE)
    assert [(f.kind, f.lanes) for f in result.findings] == [("out-of-bounds", 0xFF00)]


def test_a_row_must_lie_at_a_multiple_of_16() -> None:
    body = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [tile+8];"
    result = run_ptx(body, {"c": np.zeros(1)}, shared=TILE)
    assert result.kinds == ["misaligned"]


@pytest.mark.parametrize(
    "text",
    [
        "ldmatrix.sync.aligned.m16n16.x1.shared.b8x16.b4x16_p64 {%r1, %r2}, [tile];",
        "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64 {%r1}, [tile];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16 {%r1}, [tile];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [tile];",
        "ldmatrix.sync.aligned.m8n8.shared.b16 {%r1}, [tile];",
    ],
)
def test_other_forms_are_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(text, {"c": np.zeros(1)}, shared=TILE)


def _tile_of_bytes(body: str, count: int, engine: str) -> Result:
    """Run with a tile of 32 rows of 16 bytes: byte e of row l is 16 l + e, modulo 256."""
    rows = np.arange(512, dtype=np.uint16).astype(np.uint8)
    held = {"a": rows, "c": np.zeros(32 * 4 * count, np.uint8)}
    return run_ptx(places(a=16, c=4 * count) + FILLED + body, held, shared=TILE, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 2])
def test_bytes_of_16x16_matrices_are_transposed(count: int, engine: str) -> None:
    """A lane holds four rows of a column, 8 columns a register."""
    registers = ", ".join(f"%r{10 + n}" for n in range(2 * count))
    body = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{registers}}}, [%r2];\n"
    body += "".join(f"st.global.b32 [%rd2+{4 * n}], %r{10 + n};\n" for n in range(2 * count))
    result = _tile_of_bytes(body, 2 * count, engine)
    assert result.findings == ()
    lanes = result.buffers["c"].reshape(32, 2 * count, 4)
    for lane, register in ((0, 0), (5, 0), (5, 1), (31, 2 * count - 1)):
        column = lane // 4 + 8 * (register % 2)
        first = 16 * (register // 2) + 4 * (lane % 4)
        wanted = [16 * row + column & 0xFF for row in range(first, first + 4)]
        assert lanes[lane, register].tolist() == wanted


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_bytes_of_a_result_of_16x8_are_stored_as_columns(count: int, engine: str) -> None:
    registers = ", ".join(["%r11", "%r12", "%r13", "%r14"][:count])
    body = "shl.b32 %r10, %r190, 2;\nmad.lo.u32 %r10, %r10, 0x01010101, 0x03020100;\n"
    body += "".join(f"xor.b32 %r{11 + n}, %r10, {n * 0x40404040};\n" for n in range(count))
    body += f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r2], {{{registers}}};\n"
    body += "bar.warp.sync -1;\nld.shared.v4.b32 {%r15, %r16, %r17, %r18}, [%r2];\n"
    body += "st.global.v4.b32 [%rd2], {%r15, %r16, %r17, %r18};\n"
    result = _tile_of_bytes(body, 4, engine)
    assert result.findings == ()
    stored = result.buffers["c"].reshape(4, 8, 16)
    for matrix in range(count):
        for row, column in ((0, 0), (3, 5), (7, 15)):  # in memory: n, m of the result
            lane, byte = 4 * (column % 8) + row // 2, 2 * (column // 8) + row % 2
            assert stored[matrix, row, column] == 4 * lane + byte ^ matrix * 0x40


SHAPES = [("m8n16", 1, 1), ("m8n16", 2, 2), ("m8n16", 4, 4), ("m16n16", 1, 2), ("m16n16", 2, 4)]
"""Shape, matrices, registers."""
PACKED = {"b4x16_p64": 4, "b6x16_p32": 6}


def _unpacked(tile: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The elements of rows of 16 bytes, taken out of one long number."""
    rows = [int.from_bytes(row.tobytes(), "little") for row in tile.reshape(-1, 16)]
    found = [[row >> bits * n & (1 << bits) - 1 for n in range(16)] for row in rows]
    return np.array(found, np.uint8)


def _loaded_packed(
    tile: NDArray[np.uint8], name: str, shape: str, count: int, registers: int, engine: str,
    written: int = 16,
) -> Result:  # fmt: skip
    """Store the first `written` bytes of each row of the tile, load it, write what lanes have."""
    named = ", ".join(f"%r{10 + n}" for n in range(registers))
    trans = ".trans" if shape == "m16n16" else ""
    store = ("v4.b32 [%r2], {%r3, %r4, %r5, %r6}" if written == 16 else
             "v2.b32 [%r2], {%r3, %r4}")  # fmt: skip
    body = f"""
        shl.b32 %r1, %r190, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;
        ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%rd1];
        st.shared.{store};
        {"st.shared.b32 [%r2+8], %r5;" if written == 12 else ""}
        bar.sync 0;
        ldmatrix.sync.aligned.{shape}.x{count}{trans}.shared.b8x16.{name} {{{named}}}, [%r2];
    """
    for n in range(registers):
        body += f"st.global.b32 [%rd2+{4 * n}], %r{10 + n};\n"
    held = {"a": tile, "c": np.zeros(32 * 4 * registers, np.uint8)}
    text = places(a=16, c=4 * registers) + body
    return run_ptx(text, held, shared=TILE, engine=engine, observers=(Init(),))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize(("shape", "count", "registers"), SHAPES)
def test_elements_under_a_byte_become_bytes(
    name: str, shape: str, count: int, registers: int, engine: str
) -> None:
    tile = np.random.default_rng(count).integers(0, 256, 512, np.uint8)
    found = _loaded_packed(tile, name, shape, count, registers, engine)
    assert found.findings == ()
    got = found.buffers["c"].reshape(32, registers, 4)
    rows = _unpacked(tile, PACKED[name])
    for lane in range(32):
        for n in range(registers):
            if shape == "m8n16":
                expected = rows[8 * n + lane // 4, 4 * (lane % 4) :][:4]
            else:
                column = 8 * (n % 2) + lane // 4
                expected = rows[16 * (n // 2) + 4 * (lane % 4) :][:4, column]
            assert got[lane, n].tolist() == expected.tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "written"), [("b4x16_p64", 8), ("b6x16_p32", 12)])
@pytest.mark.parametrize(("shape", "count", "registers"), SHAPES[2:])
def test_what_lies_between_them_need_not_be_written(
    name: str, written: int, shape: str, count: int, registers: int, engine: str
) -> None:
    tile = np.zeros(512, np.uint8)
    found = _loaded_packed(tile, name, shape, count, registers, engine, written)
    assert [f for f in found.findings if f.severity == "error"] == []
    found = _loaded_packed(tile, "b6x16_p32", shape, count, registers, engine, 8)
    assert {f.kind for f in found.findings if f.severity == "error"} == {"uninitialised"}
