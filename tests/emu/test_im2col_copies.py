"""Copies of im2col as an H100 does them: against a record of one, and a GPU with `--device gpu`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
from kernelrig.emu.tensor.box_layout import NAN_FILL
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES
from numpy.typing import NDArray

from tests.emu.boxes import swizzled
from tests.emu.gpu import Argument, Gpu, GpuError, Pointer
from tests.emu.harness import ENGINES, Result
from tests.emu.im2col_probes import PROBES
from tests.emu.im2col_trials import LOADS, STORES, Trial
from tests.emu.tile_copies import SOURCE, TILE, digest, run_tile
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/im2col-h100-580.159.04.json"
"""By trial: the checksum of what it left. And the trials that were rejected."""
TRIALS = LOADS | STORES | PROBES
Pixel = tuple[int, ...]


def attempted(trial: Trial, engine: str) -> Result:
    return run_tile(trial.text, trial.map, engine)


def emulated(trial: Trial, engine: str) -> dict[str, NDArray[np.uint8]]:
    """Return what the emulator leaves in the tensor and in the tile."""
    result = attempted(trial, engine)
    assert result.kinds == []
    return result.buffers


def box_of(trial: Trial, d: int, start: Pixel, *, at_start: bool) -> Iterator[Pixel]:
    """Yield the pixels of a bounding box's first dimensions up to `d`, from `start` on if
    `at_start`.
    """
    if d < 0:
        yield ()
        return
    first = start[d] if at_start else trial.lower[d]
    steps = trial.element_strides[1 + d]
    for number, at in enumerate(range(first, trial.dims[1 + d] + trial.upper[d], steps)):
        for inner in box_of(trial, d - 1, start, at_start=at_start and not number):
            yield (*inner, at)


def pixels(trial: Trial) -> Iterator[Pixel]:
    """Yield the coordinates W to N where a column's pixels are read (PTX ISA 5.5.4)."""
    offsets = trial.offsets or (0,) * len(trial.lower)

    def all_images() -> Iterator[Pixel]:
        start = trial.corner[1:-1]
        for number, image in enumerate(count(trial.corner[-1], trial.element_strides[-1])):
            for pixel in box_of(trial, len(start) - 1, start, at_start=not number):
                yield (*(at + off for at, off in zip(pixel, offsets, strict=True)), image)

    return islice(all_images(), trial.pixels)


def places(trial: Trial) -> dict[int, int | None]:
    """Return by byte of the tile which byte of the tensor an element is; None for one outside."""
    size = ELEMENT_BYTES[trial.dtype]
    pitch = SWIZZLES[trial.swizzle].width or trial.channels * size
    found: dict[int, int | None] = {}
    for number, pixel in enumerate(pixels(trial)):
        for channel in range(trial.channels):
            where = (trial.corner[0] + channel, *pixel)
            inside = all(0 <= at < dim for at, dim in zip(where, trial.dims, strict=True))
            start = sum(at * p for at, p in zip(where, (size, *trial.strides), strict=True))
            to = trial.at + number * pitch + channel * size
            found[swizzled(trial.swizzle, to)] = start if inside else None
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LOADS)
def test_a_load_puts_each_channel_of_each_pixel_in_its_place(name: str, engine: str) -> None:
    trial, left = LOADS[name], emulated(LOADS[name], engine)
    assert np.array_equal(left["a"], SOURCE)
    size, tile = ELEMENT_BYTES[trial.dtype], left["out"].tobytes()
    outside = NAN_FILL * (size // 2) if trial.fill == "nan" else bytes(size)
    wanted = {
        to: outside if start is None else SOURCE[start : start + size].tobytes()
        for to, start in places(trial).items()
    }
    assert len(wanted) * size == trial.map(0).box_bytes
    assert {to: tile[to : to + size] for to in wanted} == wanted


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", STORES)
def test_a_store_changes_the_pixels_of_its_column_alone(name: str, engine: str) -> None:
    trial, left = STORES[name], emulated(STORES[name], engine)
    size, tensor, tile = ELEMENT_BYTES[trial.dtype], left["a"].tobytes(), left["out"].tobytes()
    there = {start: to for to, start in places(trial).items() if start is not None}
    inside = np.zeros(TILE // size, np.bool_)
    inside[np.array(list(there), np.int64) // size] = True
    kept = ~np.repeat(inside, size)
    assert np.array_equal(left["a"][kept], SOURCE[kept])
    if trial.operation:
        return
    for start, to in there.items():
        assert tensor[start : start + size] == tile[to : to + size]


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
def test_every_byte_is_as_an_h100_left_it(engine: str) -> None:
    known = json.loads(RECORDED.read_text())["left"]
    assert {name: digest(emulated(TRIALS[name], engine)) for name in known} == known


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
def test_what_an_h100_rejected_is_reported(engine: str) -> None:
    rejected = json.loads(RECORDED.read_text())["refused"]
    assert [name for name in rejected if not attempted(TRIALS[name], engine).kinds] == []


@pytest.mark.parametrize("name", TRIALS)
def test_emulator_and_gpu_agree_on_every_byte(name: str, gpu: Gpu) -> None:
    trial, here = TRIALS[name], {engine: attempted(TRIALS[name], engine) for engine in ENGINES}
    buffers = {"a": SOURCE, "out": np.zeros(TILE, np.uint8)}
    arguments: list[Argument] = [trial.entry, Pointer("a"), Pointer("out")]
    if any(result.kinds for result in here.values()):
        assert all(result.kinds for result in here.values())
        with pytest.raises(GpuError, match="ILLEGAL_INSTRUCTION"):
            gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
        return
    there = gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
    for buffer, array in there.items():
        for engine, result in here.items():
            different = np.flatnonzero(array != result.buffers[buffer])
            assert different.tolist()[:20] == [], (buffer, engine)
