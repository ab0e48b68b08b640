"""Copies of im2col in clusters, and what is wrong with some of them."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.observe.races import Races
from kernelrig.emu.tensor.im2col_map import Im2colMap

from tests.emu.boxes import SHARED, START, WAIT, first_address, image, map_of, store_tile
from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.isa.test_tensor_copy import KEEP, MEET, RANK

A = (np.arange(5 * 6 * 7 * 32) * 7919 >> 3).astype(np.uint8).reshape(5, 6, 7, 32)
MAP = Im2colMap(
    "u8", first_address(A.nbytes), (32, 7, 6, 5), (32, 224, 1344), (-1, -1), (-1, -1), 32, 32,
    (1, 1, 1, 1),
)  # fmt: skip
"""Of the windows of a filter of 3 by 3."""
LOAD = "cp.async.bulk.tensor.4d.{form}global.im2col.mbarrier::complete_tx::bytes"


def load(corner: str, offsets: str = "0, 0", tx: int = 1024) -> str:
    return f"""
    ld.param.u64 %rd1, [map];
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {tx};
    @%p0 {LOAD.format(form="shared::cluster.")} [%r2], [%rd1, {{{corner}}}], [%r1], {{{offsets}}};
    """


def run(
    body: str, engine: str, map_: np.ndarray | None = None, ctas: int = 1, number: int = 0
) -> Result:
    buffers = {"a": A, "map": image(MAP) if map_ is None else map_}
    buffers["out"] = np.zeros((ctas, 1024), np.uint8)
    return run_ptx(
        body, buffers, shared=SHARED, block=(64, 1, 1), grid=(ctas, 1, 1), cluster=(ctas, 1, 1),
        engine=engine, number=number, observers=[Races()],
    )  # fmt: skip


def column(first: int) -> np.ndarray:
    """Return 32 pixels of a filter's middle, which is at each pixel of the images."""
    return A.reshape(-1, 32)[first : first + 32].reshape(-1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", range(3))
def test_a_multicast_brings_a_column_to_each_cta(number: int, engine: str) -> None:
    name = LOAD.format(form="shared::cluster.") + ".multicast::cluster.L2::cache_hint"
    body = (
        START + RANK + MEET + "mov.u16 %h1, 5; mov.u64 %rd7, 0; ld.param.u64 %rd1, [map];\n"
        "mov.u16 %h2, 1; setp.ne.u32 %p4, %r9, 1;\n@!%p4 bra SKIP;\n"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n"
        f"@%p3 {name} [%r2], [%rd1, {{0, -1, 0, 1}}], [%r1], {{%h2, %h2}}, %h1, %rd7;\n"
        + WAIT + KEEP + "SKIP:\n" + MEET
    )  # fmt: skip
    result = run(body, engine, ctas=3, number=number)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"][0], column(42 + 7))
    assert np.array_equal(result.buffers["out"][2], column(42 + 7))
    assert not result.buffers["out"][1].any()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pair_signals_the_mbarrier_of_its_leader(engine: str) -> None:
    name = LOAD.format(form="cta_group::2.shared::cluster.")
    body = (
        START + RANK + MEET + "ld.param.u64 %rd1, [map]; and.b32 %r5, %r1, 0xFEFFFFFF;\n"
        "mov.u16 %h2, 1; sub.s32 %r6, %r9, 1;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 2048;\n"
        f"@%p0 {name} [%r2], [%rd1, {{0, -1, %r6, 2}}], [%r5], {{%h2, %h2}};\n"
        "@!%p2 bra LATER;\n" + WAIT + "LATER:\n" + MEET + KEEP
    )  # fmt: skip
    result = run(body, engine, ctas=2)
    assert result.kinds == []
    assert np.array_equal(result.buffers["out"][0], column(84))
    assert np.array_equal(result.buffers["out"][1], column(84 + 7))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("copy", "kind", "sentence"),
    [
        (load("8, 0, 0, 0"), "misaligned", "start at a multiple of 16 bytes, 16 of u8"),
        (load("0, 6, 0, 0"), "out-of-bounds",
         "the box at (0, 6, 0, 0): W 6 is outside of the bounding box, from -1 to 5"),
        (load("0, 0, -2, 0"), "out-of-bounds", "H -2 is outside of the bounding box"),
        (load("0, 0, 0, 0", "0, 256"), "descriptor",
         "offset 256 of H: 0 to 255 is allowed with 4 dims"),
        ("ld.param.u64 %rd1, [map];\n@%p0 cp.async.bulk.prefetch.tensor.4d.L2.global.im2col"
         " [%rd1, {0, -2, 0, 0}], {0, 0};", "out-of-bounds", "W -2 is outside"),
        ("ld.param.u64 %rd1, [map];\n@%p0 cp.async.bulk.tensor.4d.global.shared::cta"
         ".im2col_no_offs.bulk_group [%rd1, {0, 0, 0, 0}], [%r2];", "out-of-bounds",
         "its bounding box reaches beyond the tensor, as none of a store may"),
        ("ld.param.u64 %rd1, [map];\n@%p0 cp.async.bulk.prefetch.tensor.4d.L2.global.tile"
         " [%rd1, {0, 0, 0, 0}];", "descriptor", "a tensor map of im2col in a copy by tiles"),
        (load("0, 0, 0, 0").replace("4d", "3d").replace("0, 0, 0, 0", "0, 0, 0").replace(
            "{0, 0}", "{0}"), "descriptor", "a tensor map of 4 dimensions with 3 coordinates"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_hardware_rejects_is_said(copy: str, kind: str, sentence: str, engine: str) -> None:
    result = run(START + copy, engine)
    assert kind in result.kinds
    assert sentence in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_of_tiles_is_none_of_im2col(engine: str) -> None:
    result = run(START + load("0, 0, 0, 0"), engine, image(map_of(A, "u8", (32, 4, 4, 2))))
    assert "a tensor map of tiles in a copy by im2col" in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_beyond_its_buffer_is_out_of_bounds(engine: str) -> None:
    larger = Im2colMap(
        "u8", MAP.address, (32, 7, 6, 6), MAP.strides_bytes, (0, 0), (0, 0), 32, 32, (1, 1, 1, 1)
    )
    result = run(START + load("0, 3, 4, 4") + WAIT, engine, image(larger))
    assert result.kinds == ["out-of-bounds"]
    assert "the box at (0, 3, 4, 4) ends 672 bytes past a" in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_pixels_outside_count_in_full(engine: str) -> None:
    """A wait for fewer bytes ends before, one for more does not end."""
    result = run(START + load("0, -1, -1, 4", tx=1024) + WAIT + store_tile(1024), engine)
    assert result.kinds == []
    assert result.buffers["out"].reshape(32, 32)[:8].any() == np.False_
    result = run(START + load("0, -1, -1, 4", tx=1040) + WAIT, engine)
    assert result.kinds == ["deadlock"]
    assert "1024 of 1040 bytes" in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_that_nobody_waits_for_races_with_its_reader(engine: str) -> None:
    body = START + load("0, 0, 0, 0") + "ld.shared.u32 %r7, [%r2];\n" + WAIT
    kinds = {kind for number in range(4) for kind in run(body, engine, number=number).kinds}
    assert "race" in kinds


def test_offsets_are_as_many_as_the_bounding_box_has_dimensions() -> None:
    with pytest.raises(UnsupportedKernel) as caught:
        run(START + load("0, 0, 0, 0", "0"), ENGINES[0])
    assert "1 offsets of im2col, not 2" in caught.value.instructions[0].text
