"""Tensor copies as hardware does them: against a record of an H200, and a GPU with `--device gpu`.

A kernel fills its tile, loads a box into it or stores one from it, and writes the raw tile out:
order, swizzle, bounds and what is filled in show as bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pytest
from kernelrig.emu.launch.file import Dtype, MapEntry, SwizzleName
from kernelrig.emu.tensor.box_layout import NAN_FILL
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES
from numpy.typing import NDArray

from tests.emu.boxes import swizzled
from tests.emu.gpu import Argument, Gpu, GpuError, Pointer
from tests.emu.harness import ENGINES, Result
from tests.emu.tile_copies import SOURCE, TILE, TILE_WAIT, digest, run_tile, tile_text
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/copies-h200-580.159.04.json"
"""By trial or reduction: the checksum of what it left. And the trials that were rejected."""


@dataclass(frozen=True)
class Trial:
    """A copy of the box at `corner`, to or from byte `at` of the tile; `operation` reduces."""

    dtype: Dtype
    dims: tuple[int, ...]
    box: tuple[int, ...]
    corner: tuple[int, ...]
    swizzle: SwizzleName = "none"
    at: int = 0
    steps: tuple[int, ...] = ()
    fill: Literal["zeros", "nan"] = "zeros"
    stores: bool = False
    operation: str = ""

    @property
    def strides(self) -> tuple[int, ...]:
        size, found = ELEMENT_BYTES[self.dtype], []
        for dim in self.dims[:-1]:
            size *= dim
            found.append(size)
        return tuple(found)

    def map(self, address: int) -> TensorMap:
        return TensorMap(
            self.dtype, address, self.dims, self.strides, self.box,
            self.steps or (1,) * len(self.dims), "none", self.swizzle, "none", self.fill,
        )  # fmt: skip

    @property
    def entry(self) -> MapEntry:
        return MapEntry(
            buffer="a",
            dtype=self.dtype,
            dims=self.dims,
            strides_bytes=self.strides,
            box=self.box,
            element_strides=self.steps or (1,) * len(self.dims),
            swizzle=self.swizzle,
            oob_fill=self.fill,
        )

    @property
    def text(self) -> str:
        rank, corner = len(self.dims), ", ".join(map(str, self.corner))
        if self.stores:
            name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
            if self.operation:
                name = (
                    f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{self.operation}"
                    ".tile.bulk_group"
                )
            copy = f"{name} [%rd1, {{{corner}}}], [%r3];"
            copy += " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
            wait = ""
        else:
            name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            copy = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {self.map(0).box_bytes};"
            copy += f" {name}.mbarrier::complete_tx::bytes [%r3], [%rd1, {{{corner}}}], [%r1];"
            wait = TILE_WAIT
        return tile_text(copy, wait, self.at)


LOADS = {
    "plain": Trial("u8", (128, 64), (128, 64), (0, 0)),
    "inside": Trial("u8", (128, 64), (64, 16), (32, 8)),
    "one dimension": Trial("u32", (2048,), (256,), (100,)),
    "beyond one dimension": Trial("u32", (2048,), (256,), (2000,)),
    "before the start": Trial("u8", (128, 64), (64, 16), (-16, -3)),
    "beyond the end": Trial("u16", (64, 64), (64, 16), (32, 57)),
    "all outside": Trial("u8", (128, 64), (64, 16), (128, 0)),
    "far outside": Trial("u8", (128, 64), (64, 16), (-70000, 1 << 30)),
    "swizzle 32": Trial("u8", (128, 64), (32, 64), (0, 0), "32B"),
    "swizzle 64": Trial("u8", (128, 64), (64, 64), (0, 0), "64B"),
    "swizzle 128": Trial("u8", (128, 64), (128, 64), (0, 0), "128B"),
    "swizzle 128 of bf16": Trial("bf16", (64, 64), (64, 24), (0, 8), "128B"),
    "swizzle 128 behind its pattern": Trial("u8", (128, 64), (128, 16), (0, 0), "128B", 128),
    "swizzle 64 behind its pattern": Trial("u8", (128, 64), (64, 16), (0, 0), "64B", 384),
    "swizzle 32 behind its pattern": Trial("u8", (128, 64), (32, 16), (0, 0), "32B", 128),
    "row narrower than swizzle 128": Trial("u8", (128, 64), (64, 16), (0, 0), "128B"),
    "row of 16 under swizzle 128": Trial("u8", (128, 64), (16, 24), (0, 0), "128B"),
    "row of 48 under swizzle 64": Trial("u8", (128, 64), (48, 8), (0, 0), "64B"),
    "row of 16 under swizzle 32": Trial("u8", (128, 64), (16, 8), (0, 0), "32B"),
    "swizzle clipped": Trial("u8", (128, 64), (128, 16), (-48, 60), "128B"),
    "swizzle 128 of 32-byte atoms": Trial("u8", (128, 64), (128, 16), (0, 3), "128B_ATOM_32B"),
    "swizzle 128 of 32-byte atoms behind its pattern": Trial(
        "f32", (32, 64), (32, 2), (0, 3), "128B_ATOM_32B", 256
    ),
    "swizzle 128 of 32-byte atoms that flip": Trial(
        "u8", (128, 64), (128, 16), (-48, 60), "128B_ATOM_32B_FLIP_8B"
    ),
    "swizzle 128 of 64-byte atoms": Trial("f16", (64, 64), (64, 16), (0, 3), "128B_ATOM_64B"),
    "row of 48 under swizzle 128 of 32-byte atoms": Trial(
        "u8", (128, 64), (48, 8), (16, 3), "128B_ATOM_32B"
    ),
    "row of 80 that flips": Trial("u8", (128, 64), (80, 8), (16, 3), "128B_ATOM_32B_FLIP_8B", 128),
    "row of 16 under swizzle 128 of 64-byte atoms": Trial(
        "u8", (128, 64), (16, 8), (16, 3), "128B_ATOM_64B"
    ),
    "three dimensions": Trial("u16", (32, 16, 8), (16, 4, 3), (8, 10, 2)),
    "three dimensions clipped": Trial("u16", (32, 16, 8), (16, 4, 3), (-8, 14, 7)),
    "three dimensions swizzled": Trial("u8", (128, 8, 8), (128, 4, 3), (0, 6, 1), "128B"),
    "every third row": Trial("u8", (128, 64), (64, 16), (0, 5), steps=(1, 3)),
    "every second row of 15": Trial("u8", (128, 64), (64, 15), (0, 0), steps=(1, 2)),
    "a stride of the fastest is not read": Trial("u8", (128, 64), (64, 8), (0, 0), steps=(4, 1)),
    "steps from outside": Trial("u8", (128, 64), (64, 16), (0, -4), steps=(1, 3)),
    "nan of f16": Trial("f16", (64, 64), (64, 8), (40, 60), fill="nan"),
    "nan of bf16": Trial("bf16", (64, 64), (64, 8), (40, 60), fill="nan"),
    "nan of f32": Trial("f32", (32, 64), (32, 8), (20, 60), fill="nan"),
    "nan of f64": Trial("f64", (16, 64), (16, 8), (10, 60), fill="nan"),
}
STORES = {
    "store": Trial("u8", (128, 64), (64, 16), (32, 8), stores=True),
    "store clipped": Trial("u16", (64, 64), (64, 16), (32, 57), stores=True),
    "store outside": Trial("u8", (128, 64), (64, 16), (0, 64), stores=True),
    "store swizzled": Trial("u8", (128, 64), (128, 16), (0, 9), "128B", 128, stores=True),
    "store swizzled by 32-byte atoms": Trial(
        "f32", (32, 64), (32, 16), (0, 9), "128B_ATOM_32B", stores=True
    ),
    "store swizzled and flipped": Trial(
        "u8", (128, 64), (80, 16), (16, 9), "128B_ATOM_32B_FLIP_8B", stores=True
    ),
    "store swizzled by 64-byte atoms": Trial(
        "u8", (128, 64), (128, 16), (0, 50), "128B_ATOM_64B", 128, stores=True
    ),
    "store every third row": Trial("u8", (128, 64), (64, 16), (0, 5), steps=(1, 3), stores=True),
    "store three dimensions": Trial("u16", (32, 16, 8), (16, 4, 3), (24, 14, 2), stores=True),
    **{
        f"{operation} {dtype}": Trial(
            dtype, (64 // ELEMENT_BYTES[dtype], 128), (32 // ELEMENT_BYTES[dtype], 64), (0, 70),
            stores=True, operation=operation,
        )
        for operation, dtypes in (
            ("add", "u32 i32 u64 f16 bf16"),
            ("min", "u32 i32 u64 i64 f16 bf16"),
            ("max", "u32 i32 u64 i64 f16 bf16"),
            ("inc", "u32"),
            ("dec", "u32"),
            ("and", "u32 u64"),
            ("or", "u32 u64"),
            ("xor", "u32 u64"),
        )
        for dtype in get_args(Dtype)
        if dtype in dtypes.split()
    },
}  # fmt: skip
TRIALS = LOADS | STORES
_PROBED: dict[Dtype, tuple[int, ...]] = {
    "u16": (1, 2, 3, 4, 8), "u32": (1, 2, 3, 4, 8), "f32": (1, 2, 3),
}  # fmt: skip
PROBES = {
    **{
        f"{'store' if stores else 'load'} u8 at {x}": Trial(
            "u8", (128, 64), (64, 16), (x, 8), stores=stores
        )
        for stores in (False, True)
        for x in (1, 4, 7, 8, 12, 15, 16, 24, 48, -1, -5, -8, -16, 112, 120, 124, 127, 128, 144)
    },
    **{
        f"load {dtype} at {x}": Trial(dtype, (128 // ELEMENT_BYTES[dtype], 64), (16, 16), (x, 8))
        for dtype, starts in _PROBED.items()
        for x in starts
    },
    "load swizzled at -40": Trial("u8", (128, 64), (128, 16), (-40, 60), "128B"),
    "load u16 at 31": Trial("u16", (64, 64), (64, 16), (31, 57)),
    "store u16 at -8": Trial("u16", (32, 16, 8), (16, 4, 3), (-8, 14, 2), stores=True),
}
"""Where a box may start in a row."""
REDUCTIONS = [
    "add.u32",
    "add.s32",
    "add.u64",
    "add.f32",
    "add.f64",
    "add.noftz.f16",
    "add.noftz.bf16",
    "min.u32",
    "min.s32",
    "min.u64",
    "min.s64",
    "min.f16",
    "min.bf16",
    "max.u32",
    "max.s32",
    "max.u64",
    "max.s64",
    "max.f16",
    "max.bf16",
    "inc.u32",
    "dec.u32",
    "and.b32",
    "or.b64",
    "xor.b32",
]
"""Of bytes: half of the tile into the tensor's bytes, which are any numbers, NaN too."""


def reduction_text(operation: str) -> str:
    name = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}"
    copy = f"ld.param.u64 %rd4, [a]; {name} [%rd4], [%r3], 4096;"
    copy += " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    return tile_text(copy)


def emulated(trial: Trial, engine: str, text: str = "") -> dict[str, NDArray[np.uint8]]:
    """Return what the emulator leaves in the tensor and in the tile."""
    result = attempted(trial, engine, text)
    assert result.kinds == []
    return result.buffers


def attempted(trial: Trial, engine: str, text: str = "") -> Result:
    return run_tile(text or trial.text, trial.map, engine)


def places(trial: Trial) -> dict[int, int | None]:
    """Return by byte of the tile which byte of the tensor an element is; None for one outside."""
    map_, size = trial.map(0), ELEMENT_BYTES[trial.dtype]
    steps = (1, *map_.element_strides[1:])
    row = trial.box[0] * size
    pitch = SWIZZLES[trial.swizzle].width or row
    found: dict[int, int | None] = {}
    counts = [-(-n // step) for n, step in zip(trial.box, steps, strict=True)]
    for number, index in enumerate(np.ndindex(*counts[::-1])):
        where = [c + i * s for c, i, s in zip(trial.corner, index[::-1], steps, strict=True)]
        inside = all(0 <= w < dim for w, dim in zip(where, trial.dims, strict=True))
        start = sum(w * p for w, p in zip(where, (size, *trial.strides), strict=True))
        to = trial.at + number * size // row * pitch + number * size % row
        found[swizzled(trial.swizzle, to)] = start if inside else None
    return found


def loaded(trial: Trial) -> dict[int, bytes]:
    """Return what a load puts at which byte of the tile, element by element."""
    size = ELEMENT_BYTES[trial.dtype]
    outside = NAN_FILL * (size // 2) if trial.fill == "nan" else bytes(size)
    return {
        to: outside if start is None else SOURCE[start : start + size].tobytes()
        for to, start in places(trial).items()
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LOADS)
def test_a_load_puts_each_element_in_its_place(name: str, engine: str) -> None:
    trial, left = LOADS[name], emulated(LOADS[name], engine)
    assert np.array_equal(left["a"], SOURCE)
    size = ELEMENT_BYTES[trial.dtype]
    wanted = loaded(trial)
    assert len(wanted) * size == trial.map(0).box_bytes
    tile = left["out"].tobytes()
    assert {to: tile[to : to + size] for to in wanted} == wanted


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", STORES)
def test_a_store_changes_the_box_alone(name: str, engine: str) -> None:
    trial, left = STORES[name], emulated(STORES[name], engine)
    map_ = trial.map(0)
    inside = np.zeros(TILE, np.bool_)
    clip = map_.clip(trial.corner)
    if not clip.is_empty:
        size = clip.shape[0] * map_.element_bytes
        for start in map_.rows(0, clip):
            inside[start : start + size] = True
    assert np.array_equal(left["a"][~inside], SOURCE[~inside])
    if trial.operation:
        return
    size, tensor, tile = map_.element_bytes, left["a"].tobytes(), left["out"].tobytes()
    for to, start in places(trial).items():
        if start is not None:
            assert tensor[start : start + size] == tile[to : to + size]


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
def test_every_byte_is_as_an_h200_left_it(engine: str) -> None:
    known = json.loads(RECORDED.read_text())["left"]
    left = {n: emulated(t, engine) for n, t in (TRIALS | PROBES).items() if n in known}
    left |= {o: emulated(LOADS["plain"], engine, reduction_text(o)) for o in REDUCTIONS}
    here = {name: digest(buffers) for name, buffers in left.items()}
    assert here == known


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
def test_what_an_h200_rejected_is_reported(engine: str) -> None:
    unsupported = json.loads(RECORDED.read_text())["refused"]
    assert [name for name in unsupported if not attempted(PROBES[name], engine).kinds] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", TRIALS)
def test_emulator_and_gpu_agree_on_every_byte(name: str, engine: str, gpu: Gpu) -> None:
    trial, here = TRIALS[name], emulated(TRIALS[name], engine)
    buffers = {"a": SOURCE, "out": np.zeros(TILE, np.uint8)}
    arguments: list[Argument] = [trial.entry, Pointer("a"), Pointer("out")]
    if gpu.arch < 100 and "ATOM" in trial.swizzle:
        with pytest.raises(GpuError, match="CUDA_ERROR_INVALID_VALUE"):
            gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
        return
    there = gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
    for buffer, array in there.items():
        different = np.flatnonzero(array != here[buffer])
        assert different.tolist()[:20] == [], buffer


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROBES)
def test_emulator_and_gpu_reject_the_same_starts(name: str, engine: str, gpu: Gpu) -> None:
    trial, here = PROBES[name], attempted(PROBES[name], engine)
    buffers = {"a": SOURCE, "out": np.zeros(TILE, np.uint8)}
    arguments: list[Argument] = [trial.entry, Pointer("a"), Pointer("out")]
    if here.kinds:
        with pytest.raises(GpuError):
            gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
        return
    there = gpu.run(trial.text, "k", buffers, arguments, block=(128, 1, 1))
    assert digest(there) == digest(here.buffers)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", REDUCTIONS)
def test_a_reduction_of_bytes_leaves_the_rest(operation: str, engine: str) -> None:
    left = emulated(LOADS["plain"], engine, reduction_text(operation))
    assert np.array_equal(left["a"][4096:], SOURCE[4096:])
    assert not np.array_equal(left["a"][:4096], SOURCE[:4096])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", REDUCTIONS)
def test_emulator_and_gpu_agree_on_every_sum(operation: str, engine: str, gpu: Gpu) -> None:
    text = reduction_text(operation)
    here = emulated(LOADS["plain"], engine, text)
    buffers = {"a": SOURCE, "out": np.zeros(TILE, np.uint8)}
    arguments: list[Argument] = [LOADS["plain"].entry, Pointer("a"), Pointer("out")]
    there = gpu.run(text, "k", buffers, arguments, block=(128, 1, 1))
    words = np.flatnonzero(there["a"].view(np.uint32) != here["a"].view(np.uint32))
    assert [
        [
            f"{array.view(np.uint32)[at]:#x}"
            for array in (SOURCE, there["out"], there["a"], here["a"])
        ]
        for at in words[:8]
    ] == [], "old, operand, on the GPU, here"
