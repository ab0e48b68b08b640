"""ldmatrix and stmatrix."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import run_ptx
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
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [tile];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [tile];",
        "ldmatrix.sync.aligned.m8n8.shared.b16 {%r1}, [tile];",
    ],
)
def test_other_forms_are_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(text, {"c": np.zeros(1)}, shared=TILE)
