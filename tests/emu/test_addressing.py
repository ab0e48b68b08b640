"""Addresses: bounds, alignment, windows, and memory of CTAs that are gone."""

from __future__ import annotations

import numpy as np

from tests.emu.harness import run_ptx
from tests.emu.places import places

TILE = ".shared .align 16 .b8 tile[256];"


def test_an_access_past_a_buffer_names_it_and_how_far_it_went() -> None:
    result = run_ptx(
        places(a=4, c=4) + "ld.global.u32 %r1, [%rd1+8]; st.global.u32 [%rd2], %r1;",
        {"a": np.arange(32, dtype=np.uint32), "c": np.full(32, 9, np.uint32)},
    )
    (found,) = result.findings
    assert (found.kind, found.severity, found.lanes, found.count) == (
        "out-of-bounds",
        "error",
        0xC0000000,
        2,
    )
    assert found.message == (
        "load of 4 bytes at 0x7f0000010080: right behind the end of a (128 bytes at 0x7f0000010000)"
    )
    assert result.buffers["c"].tolist() == [*range(2, 32), 0, 0]


def test_an_access_before_a_buffer_says_so() -> None:
    result = run_ptx(places(a=0) + "ld.global.u32 %r1, [%rd1+-8];", {"a": np.zeros(32, np.uint32)})
    assert "8 bytes before a (128 bytes" in result.findings[0].message


def test_an_access_that_starts_inside_and_ends_outside_is_out_of_bounds() -> None:
    result = run_ptx(places(a=0) + "ld.global.u64 %rd5, [%rd1+8];", {"a": np.zeros(3, np.uint32)})
    assert "starts in a and ends 4 bytes past its end" in result.findings[0].message


def test_buffers_are_apart() -> None:
    result = run_ptx(
        places(a=0, c=0) + "st.global.u32 [%rd1+128], %r190;",
        {"a": np.zeros(32, np.uint32), "c": np.zeros(32, np.uint32)},
    )
    assert result.kinds == ["out-of-bounds"]
    assert not result.buffers["c"].any()


def test_a_vector_must_lie_at_a_multiple_of_its_whole_size() -> None:
    result = run_ptx(
        places(a=8) + "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];",
        {"a": np.zeros(128, np.uint32)},
    )
    (found,) = result.findings
    assert (found.kind, found.lanes) == ("misaligned", 0xAAAAAAAA)
    assert found.message == (
        "load of 16 bytes at a + 0x8: the address must be a multiple of 16, and is 8 over one"
    )


def test_a_null_pointer_is_distinguished_from_a_wrong_one() -> None:
    result = run_ptx(
        "mov.u64 %rd1, 8; ld.u32 %r1, [%rd1]; mov.u64 %rd2, 0x123400000000; ld.u32 %r2, [%rd2];",
        {"a": np.zeros(1, np.uint32)},
    )
    assert [f.message for f in result.findings] == [
        "load of 4 bytes at 0x8: a null pointer, or an offset without its base",
        "load of 4 bytes at 0x123400000000: no window holds that address: it is no pointer, or one"
        " of another space",
    ]


def test_the_first_kb_of_shared_memory_is_the_systems() -> None:
    result = run_ptx("mov.u32 %r1, 64; ld.shared.u32 %r2, [%r1];", {"a": np.zeros(1)}, shared=TILE)
    assert result.findings[0].message == (
        "load of 4 bytes at shared 0x40: the first 0x400 bytes are the system's"
    )


def test_shared_memory_ends_behind_its_last_variable() -> None:
    result = run_ptx("st.shared.u32 [tile+256], 1;", {"a": np.zeros(1)}, shared=TILE)
    assert result.findings[0].message == (
        "store of 4 bytes at shared 0x500: it ends 4 bytes past the CTA's shared memory"
        " (256 bytes from 0x400, static and dynamic), whose last variable is tile"
    )


def test_shared_cta_does_not_reach_another_cta() -> None:
    body = "mov.u32 %r1, tile; xor.b32 %r2, %r1, 0x1000000; ld.shared.u32 %r3, [%r2];"
    result = run_ptx(body, {"a": np.zeros(1)}, shared=TILE, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert "that is CTA rank 1, and the thread is of rank 0" in result.findings[0].message


def test_a_rank_beyond_the_cluster_is_no_shared_address() -> None:
    body = """
        mov.u32 %r1, tile;
        mapa.shared::cluster.u32 %r2, %r1, 5;
        st.shared::cluster.u32 [%r2], %r1;
    """
    result = run_ptx(body, {"a": np.zeros(1)}, shared=TILE, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert "that is rank 5 of a cluster of 2" in result.findings[0].message


def test_memory_of_an_exited_cta_is_gone() -> None:
    body = """
        mov.u32 %r1, %cluster_ctarank;
        setp.eq.u32 %p1, %r1, 1;
        @%p1 ret;
        mov.u32 %r2, tile;
        mapa.shared::cluster.u32 %r3, %r2, 1;
        st.shared::cluster.u32 [%r3], %r1;
    """
    result = run_ptx(body, {"a": np.zeros(1)}, shared=TILE, grid=(2, 1, 1), cluster=(2, 1, 1))
    (found,) = result.findings
    assert (found.kind, found.cta, found.count) == ("out-of-bounds", 0, 32)
    assert "CTA rank 1 of the cluster has exited" in found.message


def test_one_instruction_may_have_generic_addresses_of_several_spaces() -> None:
    body = (
        places(a=4, c=4)
        + """
        mov.u32 %r2, tile;
        cvt.u64.u32 %rd3, %r2;
        cvta.shared.u64 %rd4, %rd3;
        mul.wide.u32 %rd5, %r190, 4;
        add.s64 %rd4, %rd4, %rd5;
        add.u32 %r3, %r190, 100;
        st.u32 [%rd4], %r3;
        setp.lt.u32 %p1, %r190, 16;
        selp.b64 %rd6, %rd4, %rd1, %p1;
        ld.u32 %r4, [%rd6];
        st.global.u32 [%rd2], %r4;
    """
    )
    result = run_ptx(
        body,
        {"a": np.arange(32, dtype=np.uint32), "c": np.zeros(32, np.uint32)},
        shared=TILE,
    )
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [*range(100, 116), *range(16, 32)]


def test_constants_and_parameters_are_never_written() -> None:
    body = "mov.u64 %rd1, table; st.u32 [%rd1+4], 7;"
    result = run_ptx(body, {"a": np.zeros(1)}, shared=".const .b32 table[2] = {1, 2};")
    assert result.findings[0].message == (
        "store of 4 bytes at table + 0x4: table is read-only: constants and parameters are never"
        " written"
    )


def test_lanes_outside_the_mask_are_never_looked_at() -> None:
    body = (
        places(a=4, c=4)
        + """
        setp.lt.u32 %p1, %r190, 16;
        mov.u64 %rd3, 0;
        selp.b64 %rd4, %rd1, %rd3, %p1;
        mov.u32 %r1, 5;
        @%p1 ld.global.u32 %r1, [%rd4];
        st.global.u32 [%rd2], %r1;
    """
    )
    result = run_ptx(body, {"a": np.arange(32, dtype=np.uint32), "c": np.zeros(32, np.uint32)})
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [*range(16), *[5] * 16]
