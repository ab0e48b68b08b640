"""Parameters of a launch as its file says them: pointers and tensor maps by name, numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.tensor.map_fields import IMAGE_ALIGNMENT, IMAGE_BYTES
from kernelrig.emu.tensor.map_image import MARKS, AnyMap, decode
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.ptx import Variable

Pointer = Callable[[int], tuple[str, int] | None]
Map = Callable[[AnyMap], str | None]

_WHOLE = {"u": "u", "b": "u", "s": "i"}
_FLOATS = {"f32": "<f", "f64": "<d"}
_POINTER_BYTES = 8


def argument_of(param: Variable, raw: bytes, pointer: Pointer, named: Map) -> dict[str, Any]:
    """Return what a file says of an argument with the bytes `raw`: they are those again on reading.

    `pointer` finds the buffer of an address, `named` gives a tensor map its name.
    """
    plain = param.lanes == 1 and not param.dimensions
    held = list(_held(raw, pointer, named))
    if len(held) == 1 and held[0][1] == len(raw):
        ((_, _, said),) = held
        return said
    if held or not plain:
        said = {"bytes": raw.hex()}
        return {**said, "holds": [{"at": at, **what} for at, _, what in held]} if held else said
    return _number(param.type, raw)


def _number(kind: str, raw: bytes) -> dict[str, Any]:
    if kind in _FLOATS:
        (value,) = struct.unpack(_FLOATS[kind], raw)
        return {kind: value} if isfinite(value) else {"bytes": raw.hex()}
    if kind[0] in _WHOLE and len(raw) <= _POINTER_BYTES and 8 * len(raw) == int(kind[1:]):
        dtype = _WHOLE[kind[0]] + kind[1:]
        return {dtype: int.from_bytes(raw, "little", signed=dtype[0] == "i")}
    return {"bytes": raw.hex()}


def _held(raw: bytes, pointer: Pointer, named: Map) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the place, the size and the name of each tensor map and pointer, in their order."""
    maps = {}
    for at, found in maps_in(np.frombuffer(raw, np.uint8)):
        if (name := named(found)) is not None:
            maps[at] = name
    at = 0
    while at + _POINTER_BYTES <= len(raw):
        if at in maps:
            yield at, IMAGE_BYTES, {"tensor_map": maps[at]}
            at += IMAGE_BYTES
            continue
        place = pointer(int.from_bytes(raw[at : at + _POINTER_BYTES], "little"))
        if place is not None:
            buffer, offset = place
            said = {"buffer": buffer, "offset_bytes": offset} if offset else {"buffer": buffer}
            yield at, _POINTER_BYTES, said
        at += _POINTER_BYTES


def maps_in(data: NDArray[np.uint8]) -> Iterator[tuple[int, AnyMap]]:
    """Yield the tensor maps among bytes, which begin where one may lie, with their places."""
    count = len(data) // IMAGE_ALIGNMENT
    if not count:
        return
    rows = data[: count * IMAGE_ALIGNMENT].reshape(count, IMAGE_ALIGNMENT)
    first = np.ascontiguousarray(rows[:, :8]).view(np.uint64)[:, 0]
    marks = np.frombuffer(b"".join(MARKS), np.uint64)
    for row in np.flatnonzero(np.isin(first, marks)).tolist():
        at = row * IMAGE_ALIGNMENT
        found = decode(data[at : at + IMAGE_BYTES].tobytes())
        # One whose bytes say what is not in its fields stays bytes.
        if (
            found is not None
            and not found.errors()
            and found.image() == data[at : at + IMAGE_BYTES].tobytes()
        ):
            yield at, found


def map_entry(found: AnyMap, buffer: str, offset: int) -> dict[str, Any]:
    """Return what a file says of a tensor map of a buffer."""
    place = {"buffer": buffer, "offset_bytes": offset} if offset else {"buffer": buffer}
    of_mode: dict[str, Any]
    if isinstance(found, TensorMap):
        of_mode = {"box": found.box}
    else:
        of_mode = {
            "lower_corner": found.lower_corner,
            "upper_corner": found.upper_corner,
            "channels_per_pixel": found.channels_per_pixel,
            "pixels_per_column": found.pixels_per_column,
        }
    return {
        **place,
        "dtype": found.dtype,
        "dims": found.dims,
        "strides_bytes": found.strides_bytes,
        **of_mode,
        "element_strides": found.element_strides,
        "interleave": found.interleave,
        "swizzle": found.swizzle,
        "l2_promotion": found.l2_promotion,
        "oob_fill": found.oob_fill,
    }
