"""Maps of im2col: what CUDA takes, as an H100's driver answered, and which bytes a column has."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.cudart.messages import ColumnMessage, TensorMapMessage
from kernelrig.emu.cudart.tensor_maps import arch_errors, tensor_map_of
from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.map_image import decode, edited
from kernelrig.emu.tensor.swizzle import CHUNK, SWIZZLES, order_of
from kernelrig.errors import ConfigError
from numpy.typing import NDArray

from tests.toolchain_fixture import REPOSITORY

RECORDED = json.loads(
    (REPOSITORY / "tests/data/emu/im2col-maps-h100-580.159.04.json").read_text(encoding="utf-8")
)
"""Calls and their error codes, as changes of a good one; loads of 16-bit numbers by maps, each into
a tile of 32 KiB that held 0xeeee, with the checksum of what it held then.
"""
GOOD = Im2colMap(
    "u16", 0x7F0000000000, (64, 7, 6, 3), (128, 896, 5376), (-1, -1), (-1, -1), 64, 24, (1, 1, 1, 1)
)
LINES = replace(
    GOOD, dims=(64, 9, 4), strides_bytes=(128, 1152), lower_corner=(0,), upper_corner=(0,),
    element_strides=(1, 1, 1),
)  # fmt: skip


def refused(asked: dict[str, Any]) -> tuple[str, ...]:
    """Return why the call is refused, for an sm_90a."""
    rank = asked["rank"]
    lists = ((n, rank - less) for n, less in (("dims", 0), ("strides", 1), ("steps", 0)))
    dims, strides, steps = (tuple((asked[n] + [0] * rank)[: max(k, 0)]) for n, k in lists)
    lower, upper = (tuple((asked[n] + [0] * rank)[: max(rank - 2, 0)]) for n in ("lower", "upper"))
    column = ColumnMessage(lower, upper, asked["channels"], asked["pixels"])
    message = TensorMapMessage(
        asked["type"], GOOD.address + asked["address"], dims, strides, (), steps,
        asked["interleave"], asked["swizzle"], asked["promotion"], asked["fill"], (0, 0), column,
    )  # fmt: skip
    try:
        made = tensor_map_of(message)
    except ConfigError as wrong:
        return (wrong.message,)
    return made.errors() or arch_errors(made, "sm_90a")


def test_a_call_is_refused_where_an_h100_refused_it() -> None:
    differ = []
    for change, code in RECORDED["answers"]:
        asked = {**RECORDED["good"], **change}
        # cuda.h wants 32B there, and says so to no avail: the driver took each of the first four.
        if asked["interleave"] == 2 and asked["swizzle"] != 1:
            continue
        if bool(why := refused(asked)) != bool(code):
            differ.append((change, code, why))
    assert differ == []
    assert {code for _, code in RECORDED["answers"]} == {0, 1}


def loaded(numbers: list[int]) -> NDArray[np.uint16]:
    """Return the tile behind a load by the map that the probe's arguments make."""
    at, rank = iter(numbers[1:]), numbers[0]

    def some(count: int) -> tuple[int, ...]:
        return tuple(next(at) for _ in range(count))

    dims, lower, upper = some(rank), some(rank - 2), some(rank - 2)
    (channels, pixels), steps, corner, offsets = some(2), some(rank), some(rank), some(rank - 2)
    strides = tuple(int(2 * np.prod(dims[: n + 1])) for n in range(rank - 1))
    swizzle = list(SWIZZLES)[next(at)]
    map_ = Im2colMap(
        "u16", 1 << 20, dims, strides, lower, upper, channels, pixels, steps, swizzle=swizzle
    )
    assert map_.errors() == ()
    assert map_.misfit(corner, write=False) == map_.offset_misfit(offsets) == ("", "")
    memory = np.arange(1, (1 << 19) + 1, dtype=np.uint32).astype(np.uint16).view(np.uint8)
    clip, box = map_.clip(corner, offsets), map_.empty_box()
    there, place = map_.in_memory(memory, 0, clip)
    whole, part = map_.in_box(box, clip)
    whole[part] = there[place]
    tile = np.full(32768, 0xEE, np.uint8)
    chunks = box.reshape(-1, CHUNK)
    order = order_of(map_.pattern, 0, map_.room_bytes, map_.row_room)
    tile.reshape(-1, CHUNK)[np.arange(len(chunks)) if order is None else order] = chunks
    return tile.view(np.uint16)


def test_a_column_holds_what_an_h100_loaded() -> None:
    seen = [trial for trial in RECORDED["loads"] if "left" in trial]
    held = [hashlib.sha256(loaded(trial["arguments"]).tobytes()).hexdigest()[:16] for trial in seen]
    assert held == [trial["left"] for trial in seen]
    assert len(seen) > 30


def test_a_map_travels_as_128_bytes() -> None:
    for map_ in (
        GOOD,
        replace(LINES, lower_corner=(-32768,), upper_corner=(32767,)),
        replace(GOOD, dtype="bf16", swizzle="128B", l2_promotion="256B", oob_fill="nan"),
        replace(
            GOOD, dims=(64, 5, 4, 3, 2), strides_bytes=(128, 640, 2560, 7680),
            lower_corner=(-16, 1, 2), upper_corner=(15, -1, 0), element_strides=(1, 2, 3, 4, 8),
        ),
    ):  # fmt: skip
        assert map_.errors() == ()
        assert len(map_.image()) == 128
        assert decode(map_.image()) == map_


def test_a_kernel_edits_no_map_of_im2col() -> None:
    with pytest.raises(ValueError, match="this one is of im2col"):
        edited(GOOD.image(), "rank", 0, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dims": (64, 7), "strides_bytes": (128,)}, "dims has 2 entries: 3 to 5 are allowed"),
        ({"lower_corner": (0,)}, "lower_corner has 1 entries: the rank of dims asks for 2"),
        ({"upper_corner": ()}, "upper_corner has 0 entries: the rank of dims asks for 2"),
        ({"lower_corner": (-129, 0)}, "lower_corner[0] is -129: -128 to 127 is allowed with 4"
         " dims"),
        ({"upper_corner": (0, 128)}, "upper_corner[1] is 128: -128 to 127 is allowed with 4 dims"),
        ({"lower_corner": (3, 0), "upper_corner": (-4, 0)}, "the bounding box of dims[1] begins at"
         " 3 and ends at 2: a pixel is wanted"),
        ({"dims": (64, 1 << 31, 6, 3), "upper_corner": (0, 0)}, "the bounding box of dims[1] ends"
         " at 2147483647: at most 2147483646 is allowed"),
        ({"channels_per_pixel": 257}, "channels_per_pixel is 257: 1 to 256 is allowed"),
        ({"channels_per_pixel": 4}, "channels_per_pixel is 4 of u16, 8 bytes: a multiple of 16"
         " bytes is wanted"),
        ({"channels_per_pixel": 72, "swizzle": "128B"}, "channels_per_pixel is 72 of u16, 144"
         " bytes: at most 128 fit the swizzle"),
        ({"pixels_per_column": 1025}, "pixels_per_column is 1025: 1 to 1024 is allowed"),
        ({"channels_per_pixel": 256, "pixels_per_column": 457}, "a box has 233984 bytes: at most"
         " 233472 are allowed"),
        ({"element_strides": (1, 9, 1, 1)}, "element_strides[1] is 9: 1 to 8 is allowed"),
        ({"oob_fill": "nan"}, "oob_fill is nan: u16 has none, zeros is wanted"),
    ],
)  # fmt: skip
def test_what_the_driver_rejects_is_a_sentence(change: dict[str, Any], sentence: str) -> None:
    assert sentence in replace(GOOD, **change).errors()


@pytest.mark.parametrize(
    ("corner", "write", "kind", "why"),
    [
        ((0, -1, 4, 0), False, "", ""),
        ((-8, 5, -1, -3), False, "", ""),
        ((4, 0, 0, 0), False, "misaligned", "start at a multiple of 16 bytes, 8 of u16"),
        ((0, -2, 0, 0), False, "out-of-bounds",
         "W -2 is outside of the bounding box, from -1 to 5"),
        ((0, 0, 5, 0), False, "out-of-bounds", "H 5 is outside of the bounding box, from -1 to 4"),
        ((0, 0, 0, 0), True, "out-of-bounds", "its bounding box reaches beyond the tensor"),
    ],
)  # fmt: skip
def test_a_start_that_hardware_rejects_is_known(
    corner: tuple[int, ...], write: bool, kind: str, why: str
) -> None:
    said = GOOD.misfit(corner, write)
    assert said[0] == kind
    assert why in said[1]


def test_a_store_starts_in_its_tensor() -> None:
    map_ = replace(GOOD, lower_corner=(0, 0), upper_corner=(-1, -1))
    assert map_.misfit((0, 0, 0, 3), write=True) == ("", "")
    assert map_.misfit((0, 0, 0, -1), write=True)[0] == "out-of-bounds"
    assert map_.misfit((-8, 0, 0, 0), write=True)[0] == "out-of-bounds"


def test_a_position_beyond_64_bits_is_behind_all_memory() -> None:
    map_ = replace(
        LINES, dims=(64, 9, 1 << 32), strides_bytes=(128, (1 << 40) - 16), pixels_per_column=2
    )
    assert map_.errors() == ()
    clip = map_.clip((0, 0, (1 << 31) - 1), (0,))
    assert clip.start >= 1 << 62
