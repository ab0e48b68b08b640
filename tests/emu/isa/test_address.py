"""cvta, isspacep, mapa, getctarank."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import run_ptx
from tests.emu.places import place

TILE = ".shared .align 16 .b8 tile[16];"
C = {"c": np.zeros(4, np.uint64)}


def test_an_address_in_a_window_is_the_window_and_the_address() -> None:
    body = (
        ".local .align 8 .b8 mine[8];\n"
        + place("c", "%rd1")
        + """
        mov.u64 %rd2, tile;
        cvta.shared.u64 %rd3, %rd2;
        mov.u64 %rd4, mine;
        cvta.local.u64 %rd5, %rd4;
        cvta.global.u64 %rd6, %rd1;
        cvta.param.u64 %rd7, c;
        st.global.v4.b64 [%rd1], {%rd3, %rd5, %rd6, %rd7};
    """
    )
    result = run_ptx(body, C, shared=TILE)
    assert [hex(n) for n in result.buffers["c"].tolist()] == [
        "0x7e0000000400",
        "0x7d0000000000",
        "0x7f0000010000",
        "0x7f0000020400",
    ]


def test_cvta_to_is_the_way_back() -> None:
    body = (
        place("c", "%rd1")
        + """
        mov.u64 %rd2, 0x7e0000000408;
        cvta.to.shared.u64 %rd3, %rd2;
        mov.u64 %rd4, 0x7d0000000010;
        cvta.to.local.u64 %rd5, %rd4;
        cvta.to.global.u64 %rd6, %rd1;
        st.global.v2.b64 [%rd1], {%rd3, %rd5};
        st.global.b64 [%rd1+16], %rd6;
    """
    )
    result = run_ptx(body, C)
    assert result.buffers["c"].tolist() == [0x408, 0x10, 0x7F0000010000, 0]


@pytest.mark.parametrize(
    ("address", "true_of"),
    [
        ("tile", {"shared", "shared::cta", "shared::cluster"}),
        ("peer", {"shared::cluster"}),
        ("mine", {"local"}),
        ("c", {"global"}),
        ("param", {"global", "param"}),
        ("nothing", set()),
    ],
)
def test_isspacep_knows_the_windows(address: str, true_of: set[str]) -> None:
    spaces = ("global", "shared", "shared::cta", "shared::cluster", "local", "param")
    made = {
        "tile": "mov.u64 %rd2, tile; cvta.shared.u64 %rd3, %rd2;",
        "peer": "mov.u64 %rd2, tile; cvta.shared.u64 %rd2, %rd2; xor.b64 %rd3, %rd2, 0x1000000;",
        "mine": "mov.u64 %rd2, mine; cvta.local.u64 %rd3, %rd2;",
        "c": "mov.u64 %rd3, %rd1;",
        "param": "cvta.param.u64 %rd3, c;",
        "nothing": "mov.u64 %rd3, 64;",
    }
    body = ".local .align 8 .b8 mine[8];\n" + place("c", "%rd1") + made[address]
    for bit, space in enumerate(spaces):
        body += f"isspacep.{space} %p1, %rd3; selp.b32 %r{bit + 1}, 1, 0, %p1;"
        body += f"st.global.u32 [%rd1+{4 * bit}], %r{bit + 1};\n"
    result = run_ptx(
        body, {"c": np.zeros(6, np.uint32)}, shared=TILE, grid=(2, 1, 1), cluster=(2, 1, 1)
    )
    said = {s for s, yes in zip(spaces, result.buffers["c"].tolist(), strict=True) if yes}
    assert said == true_of


def test_mapa_puts_the_rank_into_an_address_and_getctarank_reads_it() -> None:
    body = (
        place("c", "%rd1")
        + """
        mov.u32 %r1, tile;
        mapa.shared::cluster.u32 %r2, %r1, 1;
        getctarank.shared::cluster.u32 %r3, %r2;
        cvt.u64.u32 %rd2, %r1;
        cvta.shared.u64 %rd2, %rd2;
        mapa.u64 %rd3, %rd2, 1;
        getctarank.u64 %r4, %rd3;
        st.global.v4.b32 [%rd1], {%r2, %r3, %r4, %r4};
        st.global.b64 [%rd1+16], %rd3;
    """
    )
    result = run_ptx(body, C, shared=TILE, grid=(2, 1, 1), cluster=(2, 1, 1))
    words = result.buffers["c"].view(np.uint32).tolist()
    assert words[:3] == [0x1000400, 1, 1]
    assert int(result.buffers["c"][2]) == 0x7E0001000400


@pytest.mark.parametrize("text", ["cvta.u64 %rd1, %rd2;", "isspacep.const %p1, %rd2;"])
def test_missing_and_ambiguous_spaces_are_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(text, C)
