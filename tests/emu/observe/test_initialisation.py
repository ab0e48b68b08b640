"""Reads of bytes that were never written."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.region_names import Shape
from kernelrig.emu.observe.initialisation import Init

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import place, places

TILE = ".shared .align 16 .b8 tile[64];"
C = {"c": np.zeros(32, np.uint32)}
SHAPES = {"c": Shape(4, (4, 8))}


def _found(
    body: str,
    observer: Init | None = None,
    undefined: tuple[str, ...] = (),
    shapes: dict[str, Shape] | None = None,
) -> list[Finding]:
    result = run_ptx(
        body, C, shared=TILE, observers=[observer or Init()], undefined=undefined, shapes=shapes
    )
    return list(result.findings)


def test_a_read_of_shared_memory_never_written_is_reported() -> None:
    body = place("c", "%rd1") + "ld.shared.u32 %r1, [tile+8]; st.global.u32 [%rd1], %r1;"
    (found,) = _found(body)
    assert (found.kind, found.severity, found.count) == ("uninitialised", "error", 32)
    assert found.message == (
        "read of 4 bytes of shared memory: nothing wrote tile + 0x8 (shared 0x408)"
        f"; its value is used by st.global.u32 (PTX line {found.ptx_line})"
    )
    assert found.fix == "write it, or wait for the copy that brings it, before the read"


def test_one_byte_that_is_missing_is_enough() -> None:
    body = "st.shared.u16 [tile], 1; st.shared.u8 [tile+2], 1; ld.shared.u32 %r1, [tile];"
    (found,) = _found(body)
    assert "tile + 0x3" in found.message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("read", "rule"),
    [
        ("ld.shared.u64 %rd1, [tile]", "padding"),
        ("ld.shared.b32 %r1, [tile]", "padding"),
        ("ld.shared.f32 %f1, [tile]", "not-used"),
        ("ld.shared.v2.u32 {%r1, %r2}, [tile]", "not-used"),
        ("ld.shared.u64 %rd1, [tile+8]", "not-used"),
    ],
)
def test_an_integer_whose_first_byte_was_written_may_be_padded(
    read: str, rule: str, engine: str
) -> None:
    """So compilers copy a structure of a bool and a long."""
    body = f"st.shared.u8 [tile], 1; {read};"
    (found,) = run_ptx(body, C, shared=TILE, observers=[Init()], engine=engine).findings
    assert found.kind == "uninitialised"
    assert found.rule == f"uninitialised-{rule}"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("written", "read", "rule"),
    [
        ("st.shared.u32 [tile], 1", "ld.shared.v2.u32 {%r1, %r2}, [tile]", "padding"),
        ("st.shared.u32 [tile], 1", "ld.shared.v2.f32 {%f1, %f2}, [tile]", "not-used"),
        ("st.shared.u32 [tile+4], 1", "ld.shared.v2.u32 {%r1, %r2}, [tile]", "not-used"),
        ("st.shared.u16 [tile], 1", "ld.shared.v2.u16 {%h1, %h2}, [tile]", "not-used"),
        (
            "st.shared.v2.u32 [tile], {1, 2}; st.shared.u32 [tile+8], 3",
            "ld.shared.v2.u64 {%rd1, %rd2}, [tile]",
            "padding",
        ),
        (
            "st.shared.v2.u32 [tile], {1, 2}",
            "ld.shared.v2.u64 {%rd1, %rd2}, [tile]",
            "not-used",
        ),
        (
            "st.shared.u32 [tile], 1; st.shared.u32 [tile+8], 2",
            "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [tile]",
            "padding",
        ),
    ],
)
def test_a_vector_may_bring_padding_behind_the_first_half_of_each_8_bytes(
    written: str, read: str, rule: str, engine: str
) -> None:
    """So compilers copy a structure of an int and a double, or of two longs and an int."""
    body = f"{written}; {read};"
    (found,) = run_ptx(body, C, shared=TILE, observers=[Init()], engine=engine).findings
    assert found.kind == "uninitialised"
    assert found.rule == f"uninitialised-{rule}"


def test_what_was_written_is_read_without_a_word() -> None:
    body = """
        st.shared.u32 [tile], 1; st.shared.v2.u16 [tile+4], {1, 2};
        ld.shared.v2.u32 {%r1, %r2}, [tile];
    """
    assert _found(body) == []


def test_lanes_that_do_not_read_are_left_alone() -> None:
    body = (
        places(c=4)
        + """
        setp.lt.u32 %p1, %r190, 4;
        @%p1 st.shared.u32 [tile], 1;
        @%p1 ld.shared.u32 %r1, [tile];
        @!%p1 ld.shared.u32 %r1, [tile+4];
    """
    )
    (found,) = _found(body)
    assert (found.lanes, found.count) == (0xFFFFFFF0, 28)


def test_an_undefined_buffer_is_named_with_coordinates() -> None:
    observer = Init()
    body = places(c=4) + "setp.eq.u32 %p1, %r190, 13; @%p1 ld.global.u32 %r1, [%rd1];"
    (found,) = _found(body, observer, undefined=("c",), shapes=SHAPES)
    assert "nothing wrote c[1, 5] (c + 0x34)" in found.message


def test_an_atomic_reads_too() -> None:
    (found,) = _found(place("c", "%rd1") + "red.global.add.u32 [%rd1], 1;", None, ("c",))
    assert found.kind == "uninitialised"


def test_local_memory_is_a_warning_as_compilers_copy_padding() -> None:
    body = (
        ".local .align 4 .b8 mine[8];\n st.local.u32 [mine], 1; ld.local.v2.u32 {%r1, %r2}, [mine];"
    )
    (found,) = _found(body)
    assert (found.severity, found.kind) == ("warning", "uninitialised")


def test_a_copy_reads_where_it_comes_from() -> None:
    body = (
        place("c", "%rd1")
        + """
        cp.async.cg.shared.global [tile], [%rd1], 16;
        cp.async.wait_all;
    """
    )
    (found,) = _found(body, None, ("c",))
    assert found.message == (
        "cp.async reads global memory that was never written: 32 of 32 rows of 16 bytes, c +"
        " 0x0 first"
    )
    assert found.count == 32


def test_what_a_copy_brought_is_written() -> None:
    body = (
        place("c", "%rd1")
        + """
        mov.u32 %r1, 3;
        cp.async.ca.shared.global [tile], [%rd1], 8, %r1;
        cp.async.wait_all;
        ld.shared.u64 %rd2, [tile];
    """
    )
    assert _found(body) == []


def test_a_discarded_line_holds_nothing_any_more() -> None:
    body = place("c", "%rd1") + "discard.global.L2 [%rd1], 128; ld.global.u32 %r1, [%rd1];"
    (found,) = _found(body)
    assert "c + 0x0" in found.message


def test_the_next_wave_finds_nothing_of_the_last_one() -> None:
    body = """
        mov.u32 %r1, %ctaid.x;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 st.shared.u32 [tile], 1;
        ld.shared.u32 %r2, [tile];
    """
    result = run_ptx(body, C, shared=TILE, grid=(2, 1, 1), resident_ctas=1, observers=[Init()])
    assert [(f.kind, f.cta) for f in result.findings] == [("uninitialised", 1)]


def _left(body: str, outputs: tuple[str, ...]) -> tuple[Result, list[str]]:
    observer = Init()
    result = run_ptx(body, C, undefined=("c",), observers=[observer], shapes=SHAPES)
    observer.left_unwritten(result.ran.machine, outputs)
    return result, [f.message for f in result.ran.machine.findings.all]


def test_an_output_with_holes_is_reported_at_the_end() -> None:
    body = places(c=4) + "setp.ne.u32 %p1, %r190, 9; @%p1 st.global.u32 [%rd1], 1;"
    _, messages = _left(body, ("c",))
    assert messages == [
        "4 of the 128 bytes of c were never written, c[1, 1] (c + 0x24) first: the grid does not"
        " cover its output"
    ]


@pytest.mark.parametrize(("outputs", "body"), [((), ""), (("c",), "st.global.u32 [%rd1], 1;")])
def test_a_whole_output_or_none_is_fine(outputs: tuple[str, ...], body: str) -> None:
    assert _left(places(c=4) + body, outputs)[1] == []
