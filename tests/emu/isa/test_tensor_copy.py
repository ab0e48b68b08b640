"""Tensor copies: boxes in and out, swizzles, bounds, multicast, pairs of CTAs, reductions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.observe.publication import Publication
from kernelrig.emu.observe.races import Races

from tests.emu.boxes import SHARED, START, WAIT, image, map_of, store_tile
from tests.emu.harness import ENGINES, Result, run_ptx

LOAD = "cp.async.bulk.tensor.{rank}d.{form}global.tile.mbarrier::complete_tx::bytes"
A = (np.arange(64 * 256) * 7919 >> 3).astype(np.uint8).reshape(64, 256)


def load(at: tuple[int, ...], form: str = "shared::cluster.", nbytes: int = 4096) -> str:
    corner = ", ".join(map(str, at))
    name = LOAD.format(rank=len(at), form=form)
    return (
        f"ld.param.u64 %rd1, [map];\n"
        f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {nbytes};\n"
        f"@%p0 {name} [%r2], [%rd1, {{{corner}}}], [%r1];\n"
    )


def run(
    body: str, source: np.ndarray, map_: np.ndarray, out: np.ndarray, number: int = 0, ctas: int = 1
) -> Result:  # fmt: skip
    return run_ptx(
        body,
        {"a": source, "map": map_, "out": out},
        shared=SHARED,
        block=(64, 1, 1),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        number=number,
    )


@pytest.mark.parametrize("number", range(4))
def test_a_box_is_loaded_in_its_order(number: int) -> None:
    body = START + load((128, 32)) + WAIT + store_tile(4096)
    out = np.zeros((32, 128), np.uint8)
    result = run(body, A, image(map_of(A, "u8", (128, 32))), out, number)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"], A[32:, 128:])


@pytest.mark.parametrize(("swizzle", "span"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_a_swizzle_moves_chunks_of_16_bytes(swizzle: str, span: int) -> None:
    map_ = map_of(A, "u8", (span, 32), swizzle=swizzle)
    out = np.zeros(32 * span, np.uint8)
    body = START + load((16, 8), nbytes=32 * span) + WAIT + store_tile(32 * span)
    result = run(body, A, image(map_), out)
    assert result.kinds == []
    for row in range(32):
        for chunk in range(span // 16):
            line = (row * span + chunk * 16) // 128
            where = row * span + chunk * 16
            where ^= (line % 8 << 4) & (span - 16)
            got = result.buffers["out"][where : where + 16]
            assert got.tolist() == A[8 + row, 16 + chunk * 16 : 32 + chunk * 16].tolist()


def test_a_swizzle_is_of_absolute_addresses() -> None:
    """A tile 128 bytes past the pattern's start: its row 0 is permuted as row 1 would be."""
    map_ = map_of(A, "u8", (128, 8), swizzle="128B")
    body = START + "add.u32 %r2, %r2, 128;\n" + load((0, 0), nbytes=1024) + WAIT + store_tile(1024)
    result = run(body, A, image(map_), np.zeros(1024, np.uint8))
    assert (result.kinds, result.warnings) == ([], ["swizzle-not-aligned"])
    assert "128 bytes behind a multiple of 1024" in result.findings[0].message
    assert "line n is permuted as line n + 1 of" in result.findings[0].message
    assert result.buffers["out"][16:32].tolist() == A[0, :16].tolist()
    assert result.buffers["out"][128 + 32 : 128 + 48].tolist() == A[1, :16].tolist()


@pytest.mark.parametrize(
    ("swizzle", "span", "rows", "off", "rules"),
    [
        ("128B", 128, 8, 0, []),
        ("128B", 128, 8, 512, ["swizzle-not-aligned"]),
        ("128B", 128, 4, 512, []),  # half a pattern, as parts of a larger tile are
        ("64B", 64, 8, 512, []),
        ("64B", 64, 8, 256, ["swizzle-not-aligned"]),
        ("32B", 32, 8, 256, []),
        ("32B", 32, 8, 128, ["swizzle-not-aligned"]),
        ("none", 128, 8, 128, []),
        ("128B_ATOM_32B", 128, 4, 512, []),
        ("128B_ATOM_32B", 128, 4, 256, ["swizzle-not-aligned"]),
        ("128B_ATOM_32B_FLIP_8B", 128, 8, 256, ["swizzle-not-aligned"]),
        ("128B_ATOM_64B", 128, 8, 256, []),
        ("128B_ATOM_64B", 128, 8, 128, ["swizzle-not-aligned"]),
    ],
)
def test_a_box_off_its_pattern_is_a_warning_once(
    swizzle: str, span: int, rows: int, off: int, rules: list[str]
) -> None:
    map_ = map_of(A, "u8", (span, rows), swizzle=swizzle)
    body = START + f"add.u32 %r2, %r2, {off};\n" + load((0, 0), nbytes=rows * span) + WAIT
    buffers: dict[str, np.ndarray] = {"a": A, "map": image(map_), "out": np.zeros(1)}
    for number, engine in enumerate(ENGINES):
        result = run_ptx(
            body, buffers, shared=SHARED, block=(64, 1, 1), number=number, engine=engine
        )
        assert (result.kinds, result.warnings) == ([], rules)
    for finding in result.findings:
        assert finding.count == 1


@pytest.mark.parametrize("rank", [4, 5])
def test_boxes_of_four_and_five_dimensions(rank: int) -> None:
    """In order, what is out of bounds zero (PTX ISA 5.5): the last dimension by one element."""
    array = A.reshape((2, 4, 4, 8, 64) if rank == 5 else (8, 4, 8, 64))
    box = (32, 4, 2, 2, 2)[:rank]
    at = (16, 2, 1, 3 if rank == 5 else 7, 0)[:rank]
    count = math.prod(box)
    out = np.ones(count, np.uint8)
    body = START + load(at, nbytes=count) + WAIT + store_tile(count)
    result = run(body, array, image(map_of(array, "u8", box)), out)
    assert result.kinds == []
    padded = np.zeros(tuple(n + b for n, b in zip(array.shape, box[::-1], strict=True)), np.uint8)
    padded[tuple(slice(n) for n in array.shape)] = array
    places = zip(at[::-1], box[::-1], strict=True)
    want = padded[tuple(slice(first, first + size) for first, size in places)]
    assert np.array_equal(result.buffers["out"], want.reshape(-1))


@pytest.mark.parametrize(("rank", "form"), [(4, ""), (5, ""), (5, ".add")])
def test_boxes_of_four_and_five_dimensions_are_stored(rank: int, form: str) -> None:
    """FILL writes thread t to words 4 t to 4 t + 3; what lies out of bounds is dropped."""
    shape = (2, 3, 2, 2, 8)[5 - rank :]
    target = np.ones(shape, np.uint32)
    box = (8, 2, 2, 2, 2)[:rank]
    at = (0, 0, 0, 1, 1)[:rank]
    corner = ", ".join(map(str, at))
    name = f"cp.{'reduce.' if form else ''}async.bulk.tensor.{rank}d.global.shared::cta{form}"
    store = f"{name}.bulk_group [%rd1, {{{corner}}}], [%r2];\n"
    map_ = image(map_of(target, "u32", box))
    result = run(START + FILL + store + DRAIN, target, map_, np.zeros(1))
    assert result.kinds == []
    tile = (np.arange(math.prod(box), dtype=np.uint32) // 4).reshape(box[::-1])
    want = target.copy()
    places = zip(at[::-1], box[::-1], shape, strict=True)
    inside = tuple(slice(first, min(first + size, dim)) for first, size, dim in places)
    part = tile[tuple(slice(s.stop - s.start) for s in inside)]
    want[inside] = part + 1 if form else part
    assert np.array_equal(result.buffers["a"], want)


def test_what_is_out_of_bounds_is_zero_and_counts_in_full() -> None:
    body = START + load((-16, 60)) + WAIT + store_tile(4096)
    result = run(body, A, image(map_of(A, "u8", (128, 32))), np.ones((32, 128), np.uint8))
    assert result.kinds == []
    want = np.zeros((32, 128), np.uint8)
    want[:4, 16:] = A[60:, :112]
    assert np.array_equal(result.buffers["out"], want)


def test_a_box_far_outside_is_zero() -> None:
    body = START + load((0, 640)) + WAIT + store_tile(4096)
    result = run(body, A, image(map_of(A, "u8", (128, 32))), np.ones(4096, np.uint8))
    assert result.kinds == []
    assert not result.buffers["out"].any()


def test_one_dimension() -> None:
    source = np.arange(256, dtype=np.uint32)
    body = START + load((100,), nbytes=128) + WAIT + store_tile(128)
    result = run(body, source, image(map_of(source, "u32", (32,))), np.zeros(32, np.uint32))
    assert result.kinds == []
    assert result.buffers["out"].tolist() == list(range(100, 132))


def test_three_dimensions_with_element_strides() -> None:
    source = np.arange(4 * 10 * 16, dtype=np.uint16).reshape(4, 10, 16)
    map_ = map_of(source, "u16", (8, 6, 2), (1, 2, 1))
    body = START + load((8, 1, 2), nbytes=96) + WAIT + store_tile(96)
    result = run(body, source, image(map_), np.zeros((2, 3, 8), np.uint16))
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"], source[2:, 1:7:2, 8:])


def test_the_own_cta_may_be_named_as_such() -> None:
    body = START + load((0, 0), "shared::cta.") + WAIT + store_tile(4096)
    out = np.zeros((32, 128), np.uint8)
    result = run(body, A, image(map_of(A, "u8", (128, 32))), out)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"], A[:32, :128])


FILL = """
mul.wide.u32 %rd5, %r0, 16; cvt.u32.u64 %r5, %rd5; add.u32 %r5, %r5, %r2;
st.shared.v4.u32 [%r5], {%r0, %r0, %r0, %r0};
fence.proxy.async.shared::cta;
bar.sync 0;
ld.param.u64 %rd1, [map];
@!%p0 bra DONE;
"""
DRAIN = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nDONE:\n"


@pytest.mark.parametrize("number", range(4))
def test_a_box_is_stored_where_it_is_in_bounds(number: int) -> None:
    """64 threads fill 8 rows of 32 words; the tensor has room for 5 rows of 28."""
    target = np.zeros((10, 60), np.uint32)
    map_ = map_of(target, "u32", (32, 8))
    store = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {32, 5}], [%r2];\n"
    result = run(START + FILL + store + DRAIN, target, image(map_), np.zeros(1), number)
    assert result.kinds == []
    want = np.zeros((10, 60), np.uint32)
    want[5:, 32:] = (np.arange(256) // 4).reshape(8, 32)[:5, :28]
    assert np.array_equal(result.buffers["a"], want)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("column", "kept", "severity"),
    [("0", 32, "warning"), ("%r9", 32 + 31 * 4, "error")],
    ids=("the same", "others, which overlap"),
)
def test_lanes_that_issue_the_same_store_are_one(
    column: str, kept: int, severity: str, engine: str
) -> None:
    """A whole warp issues it, as epilogues of CUTLASS do; it commits and waits as one lane does."""
    target = np.zeros((8, 160), np.uint32)
    store = (
        f"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {{{column}, 0}}], [%r2];\n"
    )
    leave = "shl.b32 %r9, %r0, 2;\nsetp.gt.u32 %p1, %r0, 31;\n@%p1 bra DONE;"
    warp = FILL.replace("@!%p0 bra DONE;", leave)
    buffers: dict[str, np.ndarray] = {"a": target, "map": image(map_of(target, "u32", (32, 8)))}
    body = START + warp + store + DRAIN
    result = run_ptx(
        body, buffers, shared=SHARED, block=(64, 1, 1), engine=engine, observers=[Races()]
    )
    assert {(f.kind, f.severity) for f in result.findings} == {("race", severity)}
    assert int(np.count_nonzero(result.buffers["a"].any(axis=0))) == kept
    if kept == 32:
        (finding,) = result.findings
        assert "32 lanes of a warp issue the same store" in finding.message
        want = (np.arange(256) // 4).reshape(8, 32)
        assert np.array_equal(result.buffers["a"][:, :32], want)


def test_a_swizzled_store_undoes_what_a_load_does() -> None:
    source = np.zeros((8, 32), np.uint32)
    map_ = map_of(source, "u32", (32, 8), swizzle="128B")
    store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {0, 0}], [%r2];\n"
    result = run(START + FILL + store + DRAIN, source, image(map_), np.zeros(1))
    rows = result.buffers["a"].reshape(8, 8, 4)[:, :, 0]
    assert rows[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert rows[3].tolist() == [27, 26, 25, 24, 31, 30, 29, 28]


@pytest.mark.parametrize(
    ("operation", "dtype", "expected"),
    [("add", "u32", [10, 11]), ("max", "i32", [10, 10]), ("and", "u32", [0, 0]),
     ("xor", "u32", [10, 11]), ("min", "u32", [0, 1])],
)  # fmt: skip
def test_a_reduction_works_on_elements(operation: str, dtype: str, expected: list[int]) -> None:
    target = np.full((8, 32), 10, np.uint32)
    map_ = map_of(target, dtype, (32, 8))
    name = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group"
    body = START + FILL + f"{name} [%rd1, {{0, 0}}], [%r2];\n" + DRAIN
    result = run(body, target, image(map_), np.zeros(1))
    assert result.kinds == []
    assert result.buffers["a"][0, [0, 4]].tolist() == expected


def test_a_reduction_that_a_type_does_not_have_is_a_descriptor_fault() -> None:
    target = np.zeros((8, 32), np.float32)
    name = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group"
    body = START + FILL + f"{name} [%rd1, {{0, 0}}], [%r2];\n" + DRAIN
    result = run(body, target, image(map_of(target, "f32", (32, 8))), np.zeros(1))
    assert result.kinds == ["descriptor"]


# Clusters.

MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
RANK = "mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p2, %r9, 0; and.pred %p3, %p0, %p2;\n"
KEEP = """
ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r9, 1024; add.s64 %rd2, %rd2, %rd3;
@!%p0 bra KEPT;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 1024;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
KEPT:
"""


@pytest.mark.parametrize("number", range(6))
def test_a_multicast_writes_to_each_cta_and_signals_each_mbarrier(number: int) -> None:
    name = LOAD.format(rank=2, form="shared::cluster.") + ".multicast::cluster"
    body = (
        START + RANK + MEET + "mov.u16 %h1, 5; ld.param.u64 %rd1, [map];\n"
        "setp.ne.u32 %p4, %r9, 1;\n@!%p4 bra SKIP;\n"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n"
        f"@%p3 {name} [%r2], [%rd1, {{0, 8}}], [%r1], %h1;\n" + WAIT + KEEP + "SKIP:\n" + MEET
    )  # fmt: skip
    out = np.zeros((3, 8, 128), np.uint8)
    result = run(body, A, image(map_of(A, "u8", (128, 8))), out, number, 3)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"][0], A[8:16, :128])
    assert np.array_equal(result.buffers["out"][2], A[8:16, :128])
    assert not result.buffers["out"][1].any()


@pytest.mark.parametrize("number", range(4))
def test_a_pair_signals_the_mbarrier_of_its_leader(number: int) -> None:
    """Both CTAs load their own half; CTA 0 expects the bytes of both."""
    name = LOAD.format(rank=2, form="cta_group::2.shared::cluster.")
    body = (
        START + RANK + MEET + "ld.param.u64 %rd1, [map]; and.b32 %r5, %r1, 0xFEFFFFFF;\n"
        "shl.b32 %r6, %r9, 3;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 2048;\n"
        f"@%p0 {name} [%r2], [%rd1, {{0, %r6}}], [%r5];\n"
        "@!%p2 bra LATER;\n" + WAIT + "LATER:\n" + MEET + KEEP
    )  # fmt: skip
    out = np.zeros((2, 8, 128), np.uint8)
    result = run(body, A, image(map_of(A, "u8", (128, 8))), out, number, 2)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"].reshape(16, 128), A[:16, :128])


def test_without_a_pair_the_mbarrier_is_in_the_destination() -> None:
    body = (
        START + RANK + MEET + "ld.param.u64 %rd1, [map]; mapa.shared::cluster.u32 %r5, %r1, 0;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 2048;\n"
        f"@%p0 {LOAD.format(rank=2, form='shared::cluster.')} [%r2], [%rd1, {{0, 0}}], [%r5];\n"
        "@!%p2 bra LATER;\n" + WAIT + "LATER:\n" + MEET
    )  # fmt: skip
    result = run(body, A, image(map_of(A, "u8", (128, 8))), np.zeros(1), 0, 2)
    assert result.kinds == ["barrier-misuse"]
    assert result.findings[0].message == (
        "cp.async.bulk.tensor: it writes to CTA rank 1 and signals an mbarrier in rank 0: the"
        " mbarrier must be in that CTA, unless .cta_group::2 allows its peer"
    )


# Faults.


def test_bytes_that_are_no_map_are_a_descriptor_fault() -> None:
    body = START + load((0, 0))
    result = run(body, A, np.zeros(128, np.uint8), np.zeros(1))
    assert result.kinds == ["descriptor"]
    assert "these 128 bytes are no tensor map" in result.findings[0].message


def test_a_map_of_other_rank_is_a_descriptor_fault() -> None:
    result = run(START + load((0, 0, 0)), A, image(map_of(A, "u8", (128, 32))), np.zeros(1))
    assert result.kinds == ["descriptor"]
    assert result.findings[0].message == (
        "cp.async.bulk.tensor: a tensor map of 2 dimensions with 3 coordinates"
    )


def test_a_destination_must_be_a_multiple_of_128() -> None:
    body = START + "add.u32 %r2, %r2, 64;\n" + load((0, 0)) + WAIT
    result = run(body, A, image(map_of(A, "u8", (128, 32))), np.zeros(1))
    assert result.kinds == ["misaligned"]


def test_a_box_beyond_shared_memory_is_out_of_bounds() -> None:
    body = START + "add.u32 %r2, %r2, 6144;\n" + load((0, 0)) + WAIT
    result = run(body, A, image(map_of(A, "u8", (128, 32))), np.zeros(1))
    assert result.kinds == ["out-of-bounds"]


def test_a_map_beyond_its_buffer_is_out_of_bounds() -> None:
    larger = np.zeros((128, 256), np.uint8)
    body = START + load((0, 60)) + WAIT
    result = run(body, A, image(map_of(larger, "u8", (128, 32))), np.zeros(1))
    assert result.kinds == ["out-of-bounds"]
    assert result.findings[0].message == (
        "cp.async.bulk.tensor: the box at (0, 60) ends 7040 bytes past a: the map's dims and"
        " strides must lie in its buffer"
    )


@pytest.mark.parametrize(
    ("fence", "rules"),
    [
        ("", ["init-not-in-async-proxy"]),
        ("@%p0 fence.mbarrier_init.release.cluster;", []),
        ("@%p0 fence.proxy.async.shared::cta;", []),
        ("@%p0 fence.proxy.async.global;", ["init-not-in-async-proxy"]),
    ],
)
def test_an_init_must_be_published_to_the_async_proxy(fence: str, rules: list[str]) -> None:
    body = START.replace("bar.sync", f"{fence}\nbar.sync") + load((0, 0)) + WAIT
    buffers = {"a": A, "map": image(map_of(A, "u8", (128, 32)))}
    result = run_ptx(body, buffers, shared=SHARED, observers=[Publication()])
    assert (result.kinds, result.warnings) == ([], rules)


def test_too_few_bytes_expected_open_the_barrier_too_early_or_never() -> None:
    result = run(
        START + load((0, 0), nbytes=8192) + WAIT, A, image(map_of(A, "u8", (128, 32))), np.zeros(1)
    )
    assert result.kinds == ["deadlock"]
    assert "4096 of 8192 bytes" in result.findings[0].message


@pytest.mark.parametrize("number", [1, 2])
def test_a_load_into_its_own_cta_that_has_exited_is_a_warning(number: int) -> None:
    result = run(START + load((0, 0)), A, image(map_of(A, "u8", (128, 32))), np.zeros(1), number)
    assert (result.kinds, result.warnings) == ([], ["bytes-for-an-exited-cta"])


def test_a_store_whose_source_is_read_after_the_exit_is_a_leak() -> None:
    target = np.zeros((8, 32), np.uint32)
    store = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [%r2];\n"
    body = START + FILL + store + "cp.async.bulk.commit_group;\nDONE:\n"
    result = run(body, target, image(map_of(target, "u32", (32, 8))), np.zeros(1), 1)
    assert result.kinds == ["leak"]
    assert result.findings[0].rule == "source-of-an-exited-cta"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes"
         " [%r2], [%rd1, {0, 0, 0}], [%r1], {%h1, %h2};", ".im2col::w is not supported"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes"
         " [%r2], [%rd1, {0, 0}], [%r1];", "2 coordinates, not 5"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
         " [%r2], [%rd1, {0}], [%r1];", "1 coordinates, not 2"),
    ],
)  # fmt: skip
def test_unsupported_copies_are_rejected_before_the_run(text: str, why: str) -> None:
    with pytest.raises(UnsupportedKernel) as caught:
        run(START + text, A, np.zeros(128, np.uint8), np.zeros(1))
    assert why in caught.value.instructions[0].text
