"""Boxes and columns of tensor maps in the core: random ones, byte for byte as NumPy moves them."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.isa._tensor_box import Box
from kernelrig.emu.isa.tensor_copy import _from_shared, _to_shared
from kernelrig.emu.machine.state_spaces import Arena, GlobalMemory, Memory
from kernelrig.emu.native.library import library
from kernelrig.emu.tensor.im2col_map import Column, Im2colMap
from kernelrig.emu.tensor.map_image import AnyMap, decode
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import Clip, TensorMap
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES, FLOATS
from numpy.typing import NDArray

BASE = 4096
BYTES = 1 << 17
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Case:
    """A copy of the box at `corner` to byte `at` of shared memory; `offsets` are of im2col."""

    map: AnyMap
    corner: tuple[int, ...]
    at: int
    offsets: tuple[int, ...] = ()

    @property
    def clip(self) -> Clip | Column:
        if isinstance(self.map, Im2colMap):
            return self.map.clip(self.corner, self.offsets)
        return self.map.clip(self.corner)

    @property
    def words(self) -> tuple[Bytes, NDArray[np.int32], NDArray[np.int32]]:
        """What the core gets: the map, the corner, the offsets."""
        image = np.frombuffer(self.map.image(), np.uint8)
        return image, np.array(self.corner, np.int32), np.array([*self.offsets, 0], np.int32)


def random_map(rng: np.random.Generator, *, im2col: bool = False) -> AnyMap:
    """Return a map that breaks no rule, of a tensor of at most BYTES - BASE bytes."""
    while True:
        dtype = str(rng.choice(list(ELEMENT_BYTES)))
        size = ELEMENT_BYTES[dtype]
        rank = int(rng.integers(3 if im2col else 1, 6))
        swizzle = str(rng.choice(list(SWIZZLES)))
        dims = [int(rng.integers(1, 200 // size + 2))]
        dims += [int(n) for n in rng.integers(1, 7, rank - 1)]
        strides, pitch = [], -(-dims[0] * size // 16) * 16
        for dim in dims[1:]:
            strides.append(pitch + 16 * int(rng.integers(0, 2)))
            pitch = strides[-1] * dim
        row = 16 * int(rng.integers(1, 9)) // size
        box = (row, *(int(n) for n in rng.integers(1, 6, rank - 1)))
        steps = tuple(int(n) for n in rng.choice([1, 1, 2, 3], rank))
        fill = str(rng.choice(["zeros", "nan"])) if dtype in FLOATS else "zeros"
        first = (dtype, 1 << 20, tuple(dims), tuple(strides))
        made: AnyMap = TensorMap(*first, box, steps, swizzle=swizzle, oob_fill=fill)
        if im2col:
            lower, upper = (tuple(map(int, rng.integers(-3, 3, rank - 2))) for _ in range(2))
            pixels = int(rng.integers(1, rng.choice([3, 90])))
            made = Im2colMap(
                *first, lower, upper, row, pixels, steps, swizzle=swizzle, oob_fill=fill
            )
        if not made.errors() and pitch < BYTES - BASE and made.shared_bytes <= 32768:
            return made


long = ctypes.c_int64


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pointers(*arrays: NDArray[Any]) -> list[ctypes.c_void_p]:
    return [pointer(array) for array in arrays]


def cases(count: int = 300) -> list[Case]:
    """Return so many of tiles, and half as many of im2col."""
    rng = np.random.default_rng(5)
    found = []
    for number in range(count + count // 2):
        map_ = random_map(rng, im2col=number >= count)
        offsets: tuple[int, ...] = ()
        if isinstance(map_, Im2colMap):
            of_row = 16 // map_.element_bytes
            corner = [of_row * int(rng.integers(-1, map_.dims[0] // of_row + 1))]
            offsets = tuple(map(int, rng.integers(0, 4, map_.rank - 2)))
            for off, dim, low, high in zip(
                offsets, map_.dims[1:], map_.lower_corner, map_.last, strict=False
            ):
                corner.append(min(max(int(rng.integers(0, dim + 1)) - off, low), high))
            corner.append(int(rng.integers(0, map_.dims[-1] + 1)))
        else:
            corner = [int(rng.integers(-n // 2 - 2, dim + 2)) for n, dim in
                      zip(map_.box, map_.dims, strict=True)]  # fmt: skip
        found.append(Case(map_, tuple(corner), 128 * int(rng.integers(0, 32)), offsets))
    return found


def numpy_copy(case: Case, memory: Bytes) -> tuple[Memory, Bytes, list[Any]]:
    """Return the memory behind a load to shared memory and a store of what landed there."""
    seen: list[Any] = []
    global_ = GlobalMemory()
    global_.bytes, global_.written = memory.copy(), np.zeros(BYTES, np.uint8)
    machine = SimpleNamespace(
        memory=Memory(global_, Arena(1 << 16), Arena()),
        hooks=SimpleNamespace(op_accessed=lambda *event: seen.append(event[1:])),
    )
    op: Any = SimpleNamespace(machine=machine)
    part = Box(case.map, BASE, case.clip)
    box = part.load(op)
    _to_shared(op, case.map, case.at, box)
    machine.memory.global_.bytes = np.full(BYTES, 7, np.uint8)
    part.store(op, _from_shared(op, part, case.at), None)
    return machine.memory, box, seen


def test_the_core_copies_boxes_as_numpy_does() -> None:
    memory = np.random.default_rng(1).integers(0, 256, BYTES).astype(np.uint8)
    clipped, empty, whole = Counter[type](), Counter[type](), Counter[type]()
    for case in cases():
        expected, box, _ = numpy_copy(case, memory)
        seen = whole if case.clip.whole else empty if case.clip.is_empty else clipped
        seen[type(case.map)] += 1
        shared, shared_written = np.zeros(1 << 16, np.uint8), np.zeros(1 << 16, np.uint8)
        out, out_written = np.full(BYTES, 7, np.uint8), np.zeros(BYTES, np.uint8)
        words = case.words
        size = library().core_copy_box(
            *pointers(*words), long(BASE), pointer(memory), long(case.at),
            pointer(shared), pointer(shared_written), pointer(out), pointer(out_written),
        )  # fmt: skip
        assert size == len(box), case
        np.testing.assert_array_equal(shared, expected.shared.bytes, str(case))
        np.testing.assert_array_equal(shared_written, expected.shared.written)
        np.testing.assert_array_equal(out, expected.global_.bytes)
        np.testing.assert_array_equal(out_written, expected.global_.written)
    for kind, count in ((TensorMap, 300), (Im2colMap, 150)):
        assert min(clipped[kind], empty[kind], whole[kind]) > count // 30, kind


def test_observers_are_told_the_same_places() -> None:
    memory = np.zeros(BYTES, np.uint8)
    for case in cases(100):
        seen, words = numpy_copy(case, memory)[2], case.words
        for space, starts, size, _ in seen:
            found, length = np.zeros(1 << 14, np.int64), ctypes.c_int64()
            shared = int(space == "shared")
            count = library().core_box_places(
                *pointers(*words), long(BASE), long(case.at), shared, pointer(found),
                ctypes.byref(length),
            )  # fmt: skip
            np.testing.assert_array_equal(found[:count], np.asarray(starts).ravel())
            assert length.value == size


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("at", [0, 8, 20, 100, 127])
def test_other_bytes_are_no_map(at: int, number: int) -> None:
    image = np.frombuffer(cases(10)[number].map.image(), np.uint8).copy()
    image[at] ^= 1
    assert decode(image.tobytes()) is None
    where, empty = np.zeros(5, np.int32), np.zeros(1, np.uint8)
    here = pointer(empty)
    copied = library().core_copy_box(
        pointer(image), pointer(where), pointer(where), long(0), here, long(0), here, here, here,
        here,
    )  # fmt: skip
    assert copied == -1
