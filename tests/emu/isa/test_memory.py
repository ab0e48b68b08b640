"""ld and st: widths, vectors, spaces, and what only tells caches something."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import place, places, thread

ONE = {"a": np.zeros(1, np.uint32)}


@pytest.mark.parametrize(
    ("kind", "loaded"),
    [
        ("u8", 0x81),
        ("b8", 0x81),
        ("s8", 0xFFFFFF81),
        ("u16", 0x8281),
        ("s16", 0xFFFF8281),
        ("u32", 0x84838281),
        ("f32", 0x84838281),
    ],
)
def test_a_wider_register_is_filled_as_the_type_says(kind: str, loaded: int) -> None:
    register = "%f1" if kind == "f32" else "%r1"
    body = (
        places(a=0, c=0) + f"ld.global.{kind} {register}, [%rd1]; st.global.b32 [%rd2], {register};"
    )
    memory = np.array([0x84838281], np.uint32)
    result = run_ptx(body, {"a": memory, "c": np.zeros(1, np.uint32)})
    assert result.buffers["c"].tolist() == [loaded]


def test_a_signed_load_fills_64_bits() -> None:
    body = places(a=0, c=0) + "ld.global.s32 %rd5, [%rd1]; st.global.u64 [%rd2], %rd5;"
    result = run_ptx(body, {"a": np.array([-2], np.int32), "c": np.zeros(1, np.int64)})
    assert result.buffers["c"].tolist() == [-2]


def test_a_store_keeps_the_low_bits() -> None:
    body = places(a=0) + "mov.u32 %r1, 0x12345678; st.global.u8 [%rd1+1], %r1;"
    result = run_ptx(body, {"a": np.zeros(4, np.uint8)})
    assert result.buffers["a"].tolist() == [0, 0x78, 0, 0]


def test_a_constant_is_stored_with_the_bits_of_its_type() -> None:
    body = places(a=0) + "st.global.b32 [%rd1], -1; st.global.f32 [%rd1+4], 0f3F800000;"
    result = run_ptx(body, {"a": np.zeros(2, np.uint32)})
    assert result.buffers["a"].tolist() == [0xFFFFFFFF, 0x3F800000]


@pytest.mark.parametrize(
    ("vector", "registers"),
    [
        ("v2.b8", "{%h1, %h2}"),
        ("v4.b16", "{%h1, %h2, %h3, %h4}"),
        ("v2.u32", "{%r1, %r2}"),
        ("v4.f32", "{%f1, %f2, %f3, %f4}"),
        ("v2.b64", "{%rd5, %rd6}"),
        ("v8.b32", "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"),
        ("v4.b64", "{%rd5, %rd6, %rd7, %rd8}"),
    ],
)
def test_elements_of_a_vector_lie_side_by_side(vector: str, registers: str) -> None:
    size = int(vector[1]) * int(vector[4:]) // 8
    body = places(a=size, c=size) + (
        f"ld.global.{vector} {registers}, [%rd1]; st.global.{vector} [%rd2], {registers};"
    )
    memory = np.arange(32 * size, dtype=np.int64).astype(np.uint8)
    result = run_ptx(body, {"a": memory, "c": np.zeros(32 * size, np.uint8)})
    assert result.findings == ()
    assert result.buffers["c"].tolist() == memory.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_vector_register_is_its_elements(engine: str) -> None:
    """As the two largest of two pairs are found: its elements are results and operands."""
    body = (
        places(a=0, c=0)
        + "{ .reg .v4 .f32 in; .reg .v2 .f32 mx; .reg .pred p; ld.global.v4.f32 in, [%rd1];"
        "  max.f32 mx.x, in.y, in.z; max.f32 mx.y, in.x, in.w; setp.gtu.f32 p, in.x, in.z;"
        "  selp.f32 %f1, in.x, in.z, p; selp.f32 %f2, mx.x, mx.y, p;"
        "  st.global.v2.f32 [%rd2], {%f1, %f2}; st.global.v2.f32 [%rd2+8], mx; }"
    )
    inputs = {"a": np.array([5, 2, 4, 3], np.float32), "c": np.zeros(4, np.float32)}
    assert run_ptx(body, inputs, engine=engine).buffers["c"].tolist() == [5, 4, 4, 5]


def test_a_part_that_a_vector_register_has_not_is_refused() -> None:
    with pytest.raises(UnsupportedKernel, match=r"mx\S*\.z is no element of its register"):
        run_ptx("{ .reg .v2 .b32 mx; mov.b32 %r1, mx.z; }", ONE)


def test_an_element_without_a_destination_is_skipped() -> None:
    body = (
        places(a=0, c=0)
        + """
        ld.global.v4.b64 {%rd5, _, %rd6, _}, [%rd1];
        st.global.v2.b64 [%rd2], {%rd5, %rd6};
    """
    )
    result = run_ptx(body, {"a": np.arange(4), "c": np.zeros(2, np.int64)})
    assert result.buffers["c"].tolist() == [0, 2]


def test_the_last_lane_wins_where_all_store_to_one_place() -> None:
    result = run_ptx(places(a=0) + "st.global.u32 [%rd1], %r190;", ONE)
    assert result.buffers["a"].tolist() == [31]


def test_each_cta_has_its_own_shared_memory() -> None:
    body = (
        thread()
        + place("c", "%rd2")
        + """
        mov.u32 %r1, %ctaid.x;
        add.u32 %r2, %r1, 7;
        st.shared.u32 [tile], %r2;
        ld.shared.u32 %r3, [tile];
        mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd2, %rd2, %rd3;
        st.global.u32 [%rd2], %r3;
    """
    )
    shared = ".shared .align 4 .b8 tile[4];"
    result = run_ptx(body, {"c": np.zeros(3, np.uint32)}, shared=shared, grid=(3, 1, 1))
    assert result.buffers["c"].tolist() == [7, 8, 9]


def test_each_thread_has_its_own_local_memory() -> None:
    body = (
        ".local .align 4 .b8 mine[8];\n"
        + places(c=4)
        + """
        mov.u64 %rd3, mine;
        cvta.local.u64 %rd4, %rd3;
        st.local.u32 [%rd3+4], %r190;
        ld.u32 %r1, [%rd4+4];
        st.global.u32 [%rd1], %r1;
    """
    )
    result = run_ptx(body, {"c": np.zeros(64, np.uint32)}, block=(64, 1, 1))
    assert result.buffers["c"].tolist() == list(range(64))


def test_the_memory_of_a_cluster_is_reached_by_rank() -> None:
    body = (
        place("c", "%rd2")
        + """
        mov.u32 %r1, %cluster_ctarank;
        xor.b32 %r2, %r1, 1;
        mov.u32 %r3, tile;
        mapa.shared::cluster.u32 %r4, %r3, %r2;
        add.u32 %r5, %r1, 40;
        st.shared::cluster.u32 [%r4], %r5;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.shared.u32 %r6, [tile];
        mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd2, %rd2, %rd3;
        st.global.u32 [%rd2], %r6;
    """
    )
    result = run_ptx(
        body,
        {"c": np.zeros(2, np.uint32)},
        shared=".shared .align 4 .b8 tile[4];",
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
    )
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [41, 40]


def test_parameters_and_constants_are_read_at_their_offsets() -> None:
    text = ".const .align 4 .b8 table[8] = {1, 0, 0, 0, 2};"
    body = (
        places(c=0)
        + """
        ld.param.u32 %r1, [c+4];
        ld.const.u32 %r2, [table+4];
        st.global.v2.u32 [%rd1], {%r1, %r2};
    """
    )
    result = run_ptx(body, {"c": np.zeros(2, np.uint32)}, shared=text)
    assert result.buffers["c"].tolist() == [0x7F00, 2]


def test_st_bulk_writes_zeros() -> None:
    body = (
        thread()
        + place("c", "%rd1")
        + """
        st.shared.v2.b64 [tile], {-1, -1};
        setp.eq.u32 %p1, %r190, 0;
        mov.u32 %r1, tile;
        @%p1 st.bulk.weak.shared::cta [%r1], 8, 0;
        ld.shared.v2.b64 {%rd3, %rd4}, [tile];
        st.global.v2.b64 [%rd1], {%rd3, %rd4};
    """
    )
    shared = ".shared .align 16 .b8 tile[16];"
    result = run_ptx(body, {"c": np.zeros(2, np.int64)}, shared=shared)
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [0, -1]


def test_cache_hints_change_no_value() -> None:
    body = (
        places(a=0, c=0)
        + """
        createpolicy.fractional.L2::evict_first.b64 %rd5, 0f3F800000;
        prefetch.global.L2 [%rd1];
        applypriority.global.L2::evict_normal [%rd1], 128;
        ld.global.L1::no_allocate.L2::cache_hint.L2::128B.u32 %r1, [%rd1], %rd5;
        ld.global.nc.L1::evict_last.u32 %r2, [%rd1+4];
        st.global.wt.u32 [%rd2], %r1;
        st.global.L2::cache_hint.u32 [%rd2+4], %r2, %rd5;
    """
    )
    memory = np.arange(3, 35, dtype=np.uint32)
    result = run_ptx(body, {"a": memory, "c": np.zeros(2, np.uint32)})
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [3, 4]


@pytest.mark.parametrize(
    "qualifier",
    ["relaxed.gpu", "acquire.cta", "acquire.sys", "volatile", "weak", "relaxed.cluster"],
)
def test_loads_take_the_words_of_the_memory_model(qualifier: str) -> None:
    body = places(a=0, c=0) + f"ld.{qualifier}.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1;"
    result = run_ptx(body, {"a": np.array([6], np.uint32), "c": np.zeros(1, np.uint32)})
    assert result.buffers["c"].tolist() == [6]


_ASSERTION = """.extern .func __assertfail
(.param .b64 p0, .param .b64 p1, .param .b32 p2, .param .b64 p3, .param .b64 p4) .noreturn;
.global .align 1 .b8 text[2] = {120, 0};
"""


@pytest.mark.parametrize(("limit", "kinds"), [(40, []), (20, ["barrier-misuse"])])
def test_the_arguments_of_an_assertion_are_taken(limit: int, kinds: list[str]) -> None:
    body = f"""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, {limit}; @%p1 bra FINE;
    mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;
    {{
    .param .b64 param0; st.param.b64 [param0], %rd4;
    .param .b64 param1; st.param.b64 [param1], %rd4;
    .param .b32 param2; st.param.b32 [param2], 7;
    .param .b64 param3; st.param.b64 [param3], %rd4;
    .param .b64 param4; st.param.b64 [param4], 1;
    call.uni __assertfail, (param0, param1, param2, param3, param4);
    }}
    FINE:"""
    assert run_ptx(body, ONE, shared=_ASSERTION).kinds == kinds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ld.relaxed.global.u32 %r1, [%rd1];", ".relaxed needs a scope"),
        ("ld.shared.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [tile];", "32 bytes a lane"),
        ("ld.global.v2.u32 %r1, [%rd1];", "is not 2 elements"),
        ("ld.nc.u32 %r1, [%rd1];", ".nc is for .global"),
        ("ld.acq_rel.gpu.u32 %r1, [%rd1];", ".acq_rel is not supported"),
        ("st.const.u32 [%rd1], %r1;", ".const cannot be written"),
        ("ld.global [%rd1], %r1;", "the type is missing"),
    ],
)
def test_unsupported_forms_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedKernel) as unsupported:
        run_ptx(text, ONE, shared=".shared .align 32 .b8 tile[32];")
    assert reason in unsupported.value.instructions[0].text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ld.global.b128 %rd1, [%rd1];", "%rd1 is no register of 128 bits"),
        ("mov.b128 %q, %rd1;", "moves registers of 128 bits and pairs of 64"),
        ("add.u64 %rd1, %q, %rd1;", "cannot be an operand here"),
    ],
)
def test_registers_of_128_bits_are_moved_alone(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedKernel) as unsupported:
        run_ptx(f".reg .b128 %q; {text}", ONE)
    assert reason in unsupported.value.instructions[0].text


def test_what_nothing_wrote_of_a_register_of_128_bits_is_named() -> None:
    result = run_ptx(".reg .b128 %q; st.global.b128 [%rd1], %q;", ONE)
    assert any("%q" in f.message and f.kind == "uninitialised" for f in result.findings)
