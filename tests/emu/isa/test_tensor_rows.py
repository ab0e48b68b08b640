"""Four rows of a tensor as one box: .tile::gather4 and .tile::scatter4."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.races import Races

from tests.emu.boxes import SHARED, START, WAIT, image, map_of, store_tile
from tests.emu.harness import ENGINES, Result, run_ptx

A = (np.arange(64 * 256) * 7919 >> 3).astype(np.uint8).reshape(64, 256)
GATHER = (
    "ld.param.u64 %rd1, [map];\n"
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {nbytes};\n"
    "@%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
    ".mbarrier::complete_tx::bytes [%r2], [%rd1, {{{at}}}], [%r1];\n"
)
SCATTER = (
    "ld.param.u64 %rd1, [map];\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
    "@%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
    " [%rd1, {{{at}}}], [%r2];\n"
    "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;\n"
)


def run(body: str, buffers: dict[str, np.ndarray], engine: str, number: int = 1) -> Result:
    return run_ptx(
        body, buffers, shared=SHARED, block=(64, 1, 1), number=number, engine=engine,
        observers=[Init(), Races()],
    )  # fmt: skip


def gathered(at: str, nbytes: int, map_: np.ndarray, engine: str) -> Result:
    body = START + GATHER.format(at=at, nbytes=nbytes) + WAIT + store_tile(nbytes)
    return run(body, {"a": A, "map": map_, "out": np.zeros(nbytes, np.uint8)}, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_four_rows_are_one_box(engine: str) -> None:
    result = gathered("32, 7, 60, 0, 7", 512, image(map_of(A, "u8", (128, 1))), engine)
    assert result.kinds == []
    wanted = A[[7, 60, 0, 7], 32:160]
    assert np.array_equal(result.buffers["out"].reshape(4, 128), wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_outside_the_tensor_are_zeros_and_count_bytes(engine: str) -> None:
    result = gathered("192, 5, -1, 64, 6", 512, image(map_of(A, "u8", (128, 1))), engine)
    assert result.kinds == []
    out = result.buffers["out"].reshape(4, 128)
    assert np.array_equal(out[[0, 3], :64], A[[5, 6], 192:])
    assert not out[[1, 2]].any()
    assert not out[:, 64:].any()


def test_the_swizzle_is_that_of_a_box_of_four_rows() -> None:
    map_ = image(map_of(A, "u8", (128, 1), swizzle="128B"))
    result = gathered("0, 9, 1, 3, 2", 512, map_, ENGINES[0])
    chunks = result.buffers["out"].reshape(4, 8, 16)
    for line, row in enumerate((9, 1, 3, 2)):
        for chunk in range(8):
            assert chunks[line, chunk ^ line].tolist() == A[row, 16 * chunk :][:16].tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_stored_where_their_coordinates_say(engine: str) -> None:
    body = START + GATHER.format(at="0, 0, 1, 2, 3", nbytes=512) + WAIT
    body += SCATTER.format(at="128, 40, 3, 64, 8")
    result = run(body, {"a": A.copy(), "map": image(map_of(A, "u8", (128, 1)))}, engine)
    assert result.kinds == []
    wanted = A.copy()
    wanted[[40, 3, 8], 128:] = A[[0, 1, 3], :128]
    assert np.array_equal(result.buffers["a"].reshape(64, 256), wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_with_higher_boxes_is_a_finding(engine: str) -> None:
    result = gathered("0, 0, 1, 2, 3", 512, image(map_of(A, "u8", (128, 4))), engine)
    assert "descriptor" in result.kinds
    found = next(f for f in result.findings if f.kind == "descriptor")
    assert "boxes of 4 rows in a copy of four rows" in found.message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_without_a_wait_is_a_race(engine: str) -> None:
    body = START + GATHER.format(at="0, 0, 1, 2, 3", nbytes=512) + store_tile(512)
    buffers = {"a": A, "map": image(map_of(A, "u8", (128, 1))), "out": np.zeros(512, np.uint8)}
    assert "race" in run(body, buffers, engine).kinds
