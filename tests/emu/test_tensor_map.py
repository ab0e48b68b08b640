"""Tensor maps: the driver's rules, the image, boxes, swizzles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernelrig.emu.tensor.map_image import decode
from kernelrig.emu.tensor.swizzle import NONE, SWIZZLES, order_of
from kernelrig.emu.tensor.tensor_map import TensorMap

GOOD = TensorMap("u8", 0x7F0000000000, (768, 512), (768,), (128, 128), (1, 1), swizzle="128B")


def test_a_map_travels_as_128_bytes() -> None:
    image = GOOD.image()
    assert len(image) == 128
    assert decode(image) == GOOD


def test_the_largest_dimension_fits_the_image() -> None:
    large = replace(GOOD, dims=(1 << 32, 1 << 32))
    assert decode(large.image()) == large


@pytest.mark.parametrize("at", [0, 20, 127])
def test_other_bytes_are_no_map(at: int) -> None:
    image = bytearray(GOOD.image())
    image[at] ^= 1
    assert decode(bytes(image)) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dtype": "e4m3"}, "dtype is 'e4m3': one of u8, u16, u32, i32, u64, i64, f16, f32, f64,"
         " bf16, b4x16, b4x16_p64, b6x16_p32 is wanted"),
        ({"swizzle": "96B"}, "swizzle is '96B': one of none, 32B, 64B, 128B,"
         " 128B_ATOM_32B, 128B_ATOM_32B_FLIP_8B, 128B_ATOM_64B is wanted"),
        ({"interleave": "8B"}, "interleave is '8B': one of none, 16B, 32B is wanted"),
        ({"dims": ()}, "dims has 0 entries: 1 to 5 are allowed"),
        ({"box": (128,)}, "box has 1 entries: the rank of dims asks for 2"),
        ({"strides_bytes": ()}, "strides_bytes has 0 entries: the rank of dims asks for 1"),
        ({"dims": (768, 0)}, "dims[1] is 0: 1 to 4294967296 is allowed"),
        ({"strides_bytes": (760,)}, "strides_bytes[0] is 760: a multiple of 16 below 2^40 is"
         " wanted"),
        ({"strides_bytes": (1 << 40,)}, "strides_bytes[0] is 1099511627776: a multiple of 16 below"
         " 2^40 is wanted"),
        ({"box": (128, 257)}, "box[1] is 257: 1 to 256 is allowed"),
        ({"element_strides": (1, 9)}, "element_strides[1] is 9: 1 to 8 is allowed"),
        ({"element_strides": (0, 1)}, "element_strides[0] is 0: 1 to 8 is allowed"),
        ({"dims": (768, 4, 128), "strides_bytes": (768, 3072), "box": (128, 8, 229),
          "element_strides": (1, 1, 1)}, "a box has 234496 bytes: at most 233472 are allowed"),
        ({"dims": (768, 4, 128), "strides_bytes": (768, 3072), "box": (8, 8, 8),
          "element_strides": (1, 1, 1), "interleave": "16B"},
         "box[0] is 8 of u8, 8 bytes: a multiple of 16 bytes is wanted"),
        ({"box": (8, 128)}, "box[0] is 8 of u8, 8 bytes: a multiple of 16 bytes is wanted"),
        ({"box": (256, 128)}, "box[0] is 256 of u8, 256 bytes: at most 128 fit the swizzle"),
        ({"interleave": "16B"}, "interleave is 16B with 2 dims: at least 3 are wanted"),
        ({"address": 0x7F0000000008}, "the address lies 8 past a multiple of 16 bytes: a multiple"
         " is wanted"),
        ({"oob_fill": "nan"}, "oob_fill is nan: u8 has none, zeros is wanted"),
    ],
)  # fmt: skip
def test_what_the_driver_rejects_is_a_sentence(change: dict[str, object], sentence: str) -> None:
    assert replace(GOOD, **change).errors() == (sentence,)  # type: ignore[arg-type]


PADDED = TensorMap("b6x16_p32", 0x7F0000000000, (256, 64), (192,), (128, 8), (1, 1))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dims": (192, 64)}, "dims[0] is 192 of b6x16_p32: a multiple of 128 is wanted"),
        ({"box": (64, 8)}, "box[0] is 64 of b6x16_p32: 128 is wanted"),
        ({"strides_bytes": (208,)}, "strides_bytes[0] is 208: a multiple of 32 below 2^40 is"
         " wanted"),
        ({"address": 0x7F0000000010}, "the address lies 16 past a multiple of 32 bytes: a multiple"
         " is wanted"),
        ({"swizzle": "64B"}, "box[0] is 128 of b6x16_p32, 96 bytes: at most 64 fit the swizzle"),
        ({"swizzle": "128B_ATOM_32B_FLIP_8B"}, "swizzle is 128B_ATOM_32B_FLIP_8B: b6x16_p32 goes"
         " with one of none, 128B, 128B_ATOM_32B, 128B_ATOM_64B"),
        ({"dtype": "b4x16_p64", "swizzle": "128B_ATOM_64B"}, "swizzle is 128B_ATOM_64B: b4x16_p64"
         " goes with one of none, 128B, 128B_ATOM_32B"),
        ({"oob_fill": "nan"}, "oob_fill is nan: b6x16_p32 has none, zeros is wanted"),
        ({"dtype": "b4x16", "dims": (255, 64)}, "dims[0] is 255 of b4x16: a multiple of 2 is"
         " wanted"),
        ({"dtype": "b4x16", "box": (33, 8)}, "box[0] is 33 of b4x16, 16.5 bytes: a multiple of 16"
         " bytes is wanted"),
        ({"dtype": "b4x16", "box": (128, 8), "swizzle": "32B"}, "box[0] is 128 of b4x16, 64 bytes:"
         " at most 32 fit the swizzle"),
    ],
)  # fmt: skip
def test_types_under_a_byte_have_rules_of_their_own(
    change: dict[str, object], sentence: str
) -> None:
    assert PADDED.errors() == ()
    assert sentence in replace(PADDED, **change).errors()  # type: ignore[arg-type]


def test_a_good_map_breaks_no_rule() -> None:
    assert GOOD.errors() == ()
    for unread in (1, 4, 8):
        made = replace(GOOD, element_strides=(unread, 1))
        assert made.errors() == ()
        assert decode(made.image()) == replace(GOOD, element_strides=(1, 1))


def test_a_box_inside_is_whole() -> None:
    clip = GOOD.clip((128, 256))
    assert clip.whole
    assert clip.start == 256 * 768 + 128
    assert GOOD.box_bytes == 16384


def test_a_box_beyond_the_tensor_is_clipped() -> None:
    clip = GOOD.clip((-16, 500))
    assert clip == ((16, 0), (112, 12), 500 * 768, False)


def test_a_box_outside_is_empty() -> None:
    assert GOOD.clip((768, 0)).is_empty
    assert GOOD.clip((0, -128)).is_empty


def test_element_strides_skip_rows() -> None:
    map_ = TensorMap("u8", 0, (16, 100), (16,), (16, 8), (1, 3))
    assert map_.counts == (16, 3)
    assert map_.box_bytes == 48
    clip = map_.clip((0, -1))
    assert clip == ((0, 1), (16, 2), 2 * 16, False)  # rows -1, 2, 5


def test_a_window_is_the_box_of_three_dimensions() -> None:
    map_ = TensorMap("u16", 0, (16, 4, 3), (32, 128), (8, 2, 2), (1, 1, 1))
    data = np.arange(192, dtype=np.uint16).view(np.uint8)
    clip = map_.clip((8, 1, 1))
    there, place = map_.in_memory(data, 0, clip)
    window = np.ascontiguousarray(there[place]).view(np.uint16)
    assert window.tolist() == [
        [[88, 89, 90, 91, 92, 93, 94, 95], [104, 105, 106, 107, 108, 109, 110, 111]],
        [[152, 153, 154, 155, 156, 157, 158, 159], [168, 169, 170, 171, 172, 173, 174, 175]],
    ]
    assert map_.rows(0, clip).tolist() == [176, 208, 304, 336]
    assert map_.extent(clip) == 336 + 16 - 176


@pytest.mark.parametrize(
    ("swizzle", "start", "chunks"),
    [
        ("32B", 128, [9, 8, 11, 10, 13, 12, 15, 14]),
        ("64B", 128, [9, 8, 11, 10, 13, 12, 15, 14]),
        ("64B", 256, [18, 19, 16, 17, 22, 23, 20, 21]),
        ("128B", 128, [9, 8, 11, 10, 13, 12, 15, 14]),
        ("128B", 896, [63, 62, 61, 60, 59, 58, 57, 56]),
    ],
)
def test_a_swizzle_permutes_the_chunks_of_a_line(
    swizzle: str, start: int, chunks: list[int]
) -> None:
    order = order_of(SWIZZLES[swizzle], start, 128)
    assert order is not None
    assert order.tolist() == chunks


@pytest.mark.parametrize(
    ("swizzle", "row", "chunks"),
    [
        ("32B", 16, [0, 2, 4, 6, 9, 11]),
        ("64B", 48, [0, 1, 2, 4, 5, 6]),
        ("128B", 32, [0, 1, 9, 8, 18, 19]),
    ],
)
def test_narrow_rows_lie_as_far_apart_as_the_swizzle_is_wide(
    swizzle: str, row: int, chunks: list[int]
) -> None:
    order = order_of(SWIZZLES[swizzle], 0, 96, row)
    assert order is not None
    assert order.tolist() == chunks


def test_a_box_of_narrow_rows_needs_the_whole_swizzle() -> None:
    map_ = TensorMap("u8", 0, (128, 64), (128,), (48, 8), (1, 1), swizzle="64B")
    assert (map_.box_bytes, map_.shared_bytes, map_.is_dense) == (384, 512, False)
    assert (GOOD.box_bytes, GOOD.shared_bytes, GOOD.is_dense) == (16384, 16384, True)


@pytest.mark.parametrize(
    ("dtype", "corner", "write", "kind"),
    [
        ("u16", (8, -3), False, ""),
        ("u16", (4, 0), False, "misaligned"),
        ("u16", (-8, 0), False, ""),
        ("u16", (-8, 0), True, "out-of-bounds"),
        ("u16", (0, -1), True, "out-of-bounds"),
        ("f64", (1, 0), True, "misaligned"),
        ("f64", (2, 100), True, ""),
    ],
)
def test_a_start_that_hardware_rejects_is_known(
    dtype: str, corner: tuple[int, int], write: bool, kind: str
) -> None:
    map_ = TensorMap(dtype, 0, (32, 64), (512,), (16, 8), (1, 1))
    assert map_.misfit(corner, write)[0] == kind


def test_no_swizzle_keeps_the_order() -> None:
    assert order_of(NONE, 128, 128) is None


def test_a_map_of_floats_may_fill_with_nan() -> None:
    map_ = TensorMap("bf16", 0, (64, 8), (128,), (8, 1), (1, 1), oob_fill="nan")
    assert map_.errors() == ()
    assert map_.empty_box().view(np.uint16).tolist() == [0x7FF7] * 8
