"""Boxes of tensor maps in the core: random maps and places, byte for byte as NumPy moves them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.isa.tensor_copy import _Box, _from_shared, _to_shared
from kernelrig.emu.machine.state_spaces import Arena, GlobalMemory, Memory
from kernelrig.emu.native.library import library
from kernelrig.emu.tensor.swizzle import SWIZZLES
from kernelrig.emu.tensor.tensor_map import TensorMap, decode
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES, FLOATS
from numpy.typing import NDArray

BASE = 4096
BYTES = 1 << 17
Bytes = NDArray[np.uint8]


def random_map(rng: np.random.Generator) -> TensorMap:
    """Return a map that breaks no rule, of a tensor of at most BYTES - BASE bytes."""
    while True:
        dtype = str(rng.choice(list(ELEMENT_BYTES)))
        size = ELEMENT_BYTES[dtype]
        rank = int(rng.integers(1, 6))
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
        made = TensorMap(
            dtype, 1 << 20, tuple(dims), tuple(strides), box, steps, swizzle=swizzle, oob_fill=fill
        )
        if not made.errors() and pitch < BYTES - BASE and made.shared_bytes <= 32768:
            return made


long = ctypes.c_int64


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def cases() -> list[tuple[TensorMap, tuple[int, ...], int]]:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(300):
        map_ = random_map(rng)
        corner = tuple(int(rng.integers(-n // 2 - 2, dim + 2)) for n, dim in
                       zip(map_.box, map_.dims, strict=True))  # fmt: skip
        found.append((map_, corner, 128 * int(rng.integers(0, 32))))
    return found


def numpy_copy(
    map_: TensorMap, corner: tuple[int, ...], memory: Bytes, at: int
) -> tuple[Memory, Bytes, list[Any]]:
    """Return the memory behind a load to shared memory and a store of what landed there."""
    seen: list[Any] = []
    global_ = GlobalMemory()
    global_.bytes, global_.written = memory.copy(), np.zeros(BYTES, np.uint8)
    machine = SimpleNamespace(
        memory=Memory(global_, Arena(1 << 16), Arena()),
        hooks=SimpleNamespace(op_accessed=lambda *event: seen.append(event[1:])),
    )
    op: Any = SimpleNamespace(machine=machine)
    part = _Box(map_, BASE, map_.clip(corner))
    box = part.load(op)
    _to_shared(op, map_, at, box)
    machine.memory.global_.bytes = np.full(BYTES, 7, np.uint8)
    part.store(op, _from_shared(op, map_, at), None)
    return machine.memory, box, seen


def test_the_core_copies_boxes_as_numpy_does() -> None:
    memory = np.random.default_rng(1).integers(0, 256, BYTES).astype(np.uint8)
    clipped = 0
    for map_, corner, at in cases():
        expected, box, _ = numpy_copy(map_, corner, memory, at)
        clipped += not map_.clip(corner).whole
        image = np.frombuffer(map_.image(), np.uint8)
        shared, shared_written = np.zeros(1 << 16, np.uint8), np.zeros(1 << 16, np.uint8)
        out, out_written = np.full(BYTES, 7, np.uint8), np.zeros(BYTES, np.uint8)
        size = library().core_copy_box(
            pointer(image), pointer(np.array(corner, np.int32)), long(BASE), pointer(memory),
            long(at), pointer(shared), pointer(shared_written), pointer(out), pointer(out_written),
        )  # fmt: skip
        assert size == len(box), map_
        np.testing.assert_array_equal(shared, expected.shared.bytes, str((map_, corner, at)))
        np.testing.assert_array_equal(shared_written, expected.shared.written)
        np.testing.assert_array_equal(out, expected.global_.bytes)
        np.testing.assert_array_equal(out_written, expected.global_.written)
    assert 50 < clipped < 290


def test_observers_are_told_the_same_places() -> None:
    memory = np.zeros(BYTES, np.uint8)
    for map_, corner, at in cases()[:100]:
        seen = numpy_copy(map_, corner, memory, at)[2]
        image, where = np.frombuffer(map_.image(), np.uint8), np.array(corner, np.int32)
        for space, starts, size, _ in seen:
            found, length = np.zeros(1 << 14, np.int64), ctypes.c_int64()
            shared = int(space == "shared")
            count = library().core_box_places(
                pointer(image), pointer(where), long(BASE), long(at), shared, pointer(found),
                ctypes.byref(length),
            )  # fmt: skip
            np.testing.assert_array_equal(found[:count], np.asarray(starts).ravel())
            assert length.value == size


@pytest.mark.parametrize("at", [0, 8, 20, 100, 127])
def test_other_bytes_are_no_map(at: int) -> None:
    image = np.frombuffer(cases()[0][0].image(), np.uint8).copy()
    image[at] ^= 1
    assert decode(image.tobytes()) is None
    where, empty = np.zeros(5, np.int32), np.zeros(1, np.uint8)
    here = pointer(empty)
    copied = library().core_copy_box(
        pointer(image), pointer(where), long(0), here, long(0), here, here, here, here
    )
    assert copied == -1
