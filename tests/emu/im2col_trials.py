"""Copies of im2col that tests do here and on a GPU: what is asked for, and its PTX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kernelrig.emu.launch.file import Dtype, Im2colEntry, SwizzleName
from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.tensor_map_rules import ELEMENT_BYTES

from tests.emu.tile_copies import TILE_WAIT, tile_text


@dataclass(frozen=True)
class Trial:
    """A copy of the column that starts at `corner`, to or from byte `at` of the tile."""

    dtype: Dtype
    dims: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    corner: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    swizzle: SwizzleName = "none"
    at: int = 0
    steps: tuple[int, ...] = ()
    fill: Literal["zeros", "nan"] = "zeros"
    stores: bool = False
    operation: str = ""
    mode: str = ""
    padding: int = 0

    @property
    def strides(self) -> tuple[int, ...]:
        size, found = ELEMENT_BYTES[self.dtype], list[int]()
        for dim in self.dims[:-1]:
            size = size * dim + (0 if found else self.padding)
            found.append(size)
        return tuple(found)

    @property
    def element_strides(self) -> tuple[int, ...]:
        return self.steps or (1,) * len(self.dims)

    def map(self, address: int) -> Im2colMap:
        return Im2colMap(
            self.dtype, address, self.dims, self.strides, self.lower, self.upper, self.channels,
            self.pixels, self.element_strides, "none", self.swizzle, "none", self.fill,
        )  # fmt: skip

    @property
    def entry(self) -> Im2colEntry:
        return Im2colEntry(
            buffer="a",
            dtype=self.dtype,
            dims=self.dims,
            strides_bytes=self.strides,
            lower_corner=self.lower,
            upper_corner=self.upper,
            channels_per_pixel=self.channels,
            pixels_per_column=self.pixels,
            element_strides=self.element_strides,
            swizzle=self.swizzle,
            oob_fill=self.fill,
        )

    @property
    def text(self) -> str:
        rank, corner = len(self.dims), ", ".join(map(str, self.corner))
        tensor = f"[%rd1, {{{corner}}}]"
        wait = ""
        if self.stores:
            mode = self.mode or "im2col_no_offs"
            name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group"
            if self.operation:
                name = (
                    f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{self.operation}"
                    f".{mode}.bulk_group"
                )
            copy = f"{name} {tensor}, [%r3];"
            copy += " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        else:
            mode = self.mode or "im2col"
            offsets = self.offsets or (0,) * (rank - 2)
            behind = f", {{{', '.join(map(str, offsets))}}}" if mode == "im2col" else ""
            name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}"
            copy = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {self.map(0).box_bytes};"
            copy += f" {name}.mbarrier::complete_tx::bytes [%r3], {tensor}, [%r1]{behind};"
            wait = TILE_WAIT
        return tile_text(copy, wait, self.at)


# Tensors of at most 8 KiB.
LINES = Trial("u16", (32, 16, 8), (0,), (0,), 32, 16, (0, 0, 0))  # C W N
IMAGES = Trial("u8", (32, 7, 6, 5), (0, 0), (0, 0), 32, 24, (0, 0, 0, 0))  # C W H N
VOLUMES = Trial("u32", (8, 5, 4, 3, 4), (0,) * 3, (0,) * 3, 8, 40, (0,) * 5)  # C W H D N

HALO = replace(IMAGES, lower=(-1, -1), upper=(-1, -1))
"""The windows of a filter of 3 by 3 with padding."""

LOADS = {
    "lines": LINES,
    "lines from the middle": replace(LINES, corner=(0, 9, 2), pixels=40),
    "lines with a filter of 3": replace(
        LINES, lower=(-1,), upper=(-1,), corner=(0, -1, 3), offsets=(2,)
    ),
    "lines of a wide filter": replace(
        LINES, lower=(-20,), upper=(-20,), corner=(0, -20, 3), offsets=(33,), pixels=50
    ),
    "lines by twos": replace(
        LINES, lower=(-1,), upper=(1,), corner=(0, -1, 1), steps=(1, 2, 1), pixels=20
    ),
    "lines by threes and images by twos": replace(
        LINES, corner=(0, 1, 1), steps=(1, 3, 2), pixels=20
    ),
    "images": IMAGES,
    "images, filter at its start": replace(HALO, corner=(0, -1, -1, 0)),
    "images, filter in its middle": replace(HALO, corner=(0, -1, -1, 0), offsets=(1, 1)),
    "images, filter at its end": replace(HALO, corner=(0, 3, 2, 1), offsets=(2, 2), pixels=70),
    "images to behind the last": replace(HALO, corner=(0, 4, 4, 4), offsets=(2, 1)),
    "images behind the last": replace(HALO, corner=(0, 0, 0, 5)),
    "images by twos": replace(HALO, corner=(0, -1, -1, 0), steps=(1, 2, 2, 1), offsets=(1, 2)),
    "images by twos from the second": replace(
        HALO, corner=(0, 0, 0, 0), steps=(1, 2, 2, 1), offsets=(1, 2), pixels=60
    ),
    "images by twos and threes": replace(HALO, corner=(0, 1, -1, 0), steps=(1, 2, 3, 1), pixels=60),
    "images by steps beyond the box": replace(IMAGES, steps=(1, 8, 8, 1)),
    "images by twos of images": replace(IMAGES, steps=(1, 1, 1, 2), pixels=200),
    "images, a stride of channels": replace(IMAGES, steps=(4, 1, 1, 1)),
    "dilated filter": replace(
        IMAGES, lower=(-2, -2), upper=(-2, -2), corner=(0, -2, -2, 1), offsets=(4, 2), pixels=50
    ),
    "box beyond the image": replace(
        IMAGES, lower=(-2, -1), upper=(1, 2), corner=(0, -2, 3, 1), offsets=(0, 1), pixels=70
    ),
    "box of one pixel": replace(
        IMAGES, lower=(-3, 2), upper=(-9, -3), corner=(0, -3, 2, 0), offsets=(4, 1), pixels=7
    ),
    "box of one column": replace(
        IMAGES, lower=(2, 0), upper=(-4, 0), corner=(0, 2, 4, 0), pixels=30
    ),
    "largest box": replace(
        IMAGES, lower=(-128, -128), upper=(127, 127), corner=(0, -2, -1, 0), pixels=200
    ),
    "far offsets": replace(
        IMAGES,
        lower=(-128, -128),
        upper=(-128, -128),
        corner=(0, -128, -128, 0),
        offsets=(130, 129),
    ),
    "offset 255": replace(
        IMAGES,
        lower=(-128, -128),
        upper=(-100, -100),
        corner=(0, -128, -128, 0),
        offsets=(255, 129),
    ),
    "half of the channels": replace(
        HALO, channels=16, corner=(16, -1, -1, 0), offsets=(1, 2), pixels=33
    ),
    "channels beyond": replace(
        HALO, channels=32, corner=(16, -1, -1, 0), offsets=(1, 2), pixels=33
    ),
    "channels before": replace(
        HALO, channels=32, corner=(-16, -1, -1, 0), offsets=(1, 2), pixels=33
    ),
    "channels outside": replace(
        HALO, channels=32, corner=(32, -1, -1, 0), offsets=(1, 2), pixels=33
    ),
    "more channels than there are": replace(
        HALO, channels=48, corner=(0, -1, -1, 0), offsets=(1, 1), pixels=33
    ),
    "images before the first": replace(HALO, corner=(0, 3, 3, -1), pixels=24),
    "images far before": replace(HALO, corner=(0, 0, 0, -3), pixels=60),
    "padded rows": replace(
        IMAGES, dims=(24, 7, 5, 5), padding=8, channels=16, corner=(0, 3, 2, 1), pixels=50
    ),
    "one pixel": replace(HALO, corner=(0, 3, 2, 1), offsets=(1, 1), pixels=1),
    "swizzle 32": replace(HALO, corner=(0, -1, -1, 0), offsets=(1, 1), swizzle="32B", pixels=64),
    "swizzle 64, narrow rows": replace(
        HALO, corner=(0, -1, -1, 0), offsets=(1, 1), swizzle="64B", pixels=40
    ),
    "swizzle 128, narrow rows": replace(
        HALO, corner=(0, -1, -1, 0), offsets=(1, 1), swizzle="128B", pixels=40
    ),
    "swizzle 64": replace(
        LINES, lower=(-1,), upper=(-1,), corner=(0, 2, 0), offsets=(2,), swizzle="64B", pixels=100
    ),
    "swizzle 64 behind its pattern": replace(
        LINES, corner=(0, 2, 0), swizzle="64B", pixels=30, at=128
    ),
    "swizzle 128 behind its pattern": replace(
        LINES, dims=(64, 8, 8), channels=64, corner=(0, 2, 0), swizzle="128B", pixels=30, at=384
    ),
    "swizzle 128 of f16": replace(
        LINES,
        dtype="f16",
        dims=(64, 8, 8),
        channels=64,
        lower=(-1,),
        upper=(-1,),
        corner=(0, 2, 5),
        offsets=(1,),
        swizzle="128B",
        pixels=64,
        fill="nan",
    ),
    "swizzle 128 of half rows of bf16": replace(
        LINES,
        dtype="bf16",
        dims=(64, 8, 8),
        channels=32,
        lower=(-1,),
        upper=(-1,),
        corner=(32, 2, 5),
        offsets=(1,),
        swizzle="128B",
        pixels=50,
        fill="nan",
    ),
    "nan of f32": replace(
        HALO, dtype="f32", dims=(8, 7, 6, 5), channels=8, corner=(4, -1, -1, 0), fill="nan"
    ),
    "nan of f64": replace(
        HALO,
        dtype="f64",
        dims=(4, 7, 6, 5),
        channels=4,
        corner=(0, -1, -1, 3),
        fill="nan",
        pixels=70,
    ),
    "u64": replace(
        HALO, dtype="u64", dims=(4, 7, 6, 5), channels=2, corner=(2, -1, -1, 0), offsets=(2, 1)
    ),
    "i32": replace(
        HALO, dtype="i32", dims=(8, 7, 6, 5), channels=4, corner=(4, -1, -1, 0), offsets=(2, 1)
    ),
    "volumes": VOLUMES,
    "volumes from the middle": replace(VOLUMES, corner=(0, 3, 2, 1, 1), pixels=100),
    "volumes with a filter": replace(
        VOLUMES,
        lower=(-1,) * 3,
        upper=(-1,) * 3,
        corner=(0, -1, -1, -1, 0),
        offsets=(1, 2, 1),
        pixels=70,
    ),
    "volumes, filter at its start": replace(
        VOLUMES, lower=(-1,) * 3, upper=(-1,) * 3, corner=(0, -1, -1, -1, 1), pixels=70
    ),
    "volumes by steps": replace(
        VOLUMES,
        lower=(-1,) * 3,
        upper=(-1,) * 3,
        corner=(0, -1, -1, -1, 0),
        offsets=(2, 1, 2),
        steps=(1, 2, 1, 2, 1),
        pixels=70,
    ),
    "volumes by other steps": replace(
        VOLUMES, corner=(0, 1, 0, 1, 0), steps=(1, 2, 3, 2, 1), pixels=70
    ),
    "largest box of volumes": replace(
        VOLUMES,
        lower=(-16,) * 3,
        upper=(15,) * 3,
        corner=(0, -16, 0, 0, 0),
        offsets=(15, 1, 0),
        pixels=200,
    ),
    "volumes, offset 31": replace(
        VOLUMES,
        lower=(-16,) * 3,
        upper=(-8,) * 3,
        corner=(0, -16, -9, -8, 0),
        offsets=(18, 12, 9),
        pixels=200,
    ),
    "volumes to the end": replace(VOLUMES, corner=(0, 2, 2, 2, 3), pixels=100),
}
STORES = {
    "store lines": replace(LINES, stores=True, corner=(0, 9, 2), pixels=40),
    "store lines by twos": replace(
        LINES, stores=True, corner=(0, 1, 2), pixels=20, steps=(1, 2, 1)
    ),
    "store lines within a box": replace(
        LINES, stores=True, lower=(2,), upper=(-3,), corner=(0, 5, 2), pixels=20
    ),
    "store images": replace(IMAGES, stores=True, corner=(0, 3, 2, 1)),
    "store images by twos": replace(IMAGES, stores=True, corner=(0, 1, 2, 1), steps=(1, 2, 2, 1)),
    "store to behind the last": replace(IMAGES, stores=True, corner=(0, 3, 2, 4), pixels=60),
    "store behind the last": replace(IMAGES, stores=True, corner=(0, 0, 0, 5)),
    "store half of the channels": replace(
        IMAGES, stores=True, channels=16, corner=(16, 3, 2, 1), pixels=60
    ),
    "store channels beyond": replace(
        IMAGES, stores=True, channels=32, corner=(16, 3, 2, 1), pixels=60
    ),
    "store swizzled": replace(
        LINES,
        stores=True,
        dims=(64, 8, 8),
        channels=64,
        corner=(0, 2, 1),
        swizzle="128B",
        pixels=40,
        at=128,
    ),
    "store narrow rows": replace(
        IMAGES, stores=True, corner=(0, 2, 1, 1), swizzle="64B", pixels=40
    ),
    "store volumes": replace(VOLUMES, stores=True, corner=(0, 3, 2, 1, 1), pixels=100),
    "store volumes by steps": replace(
        VOLUMES, stores=True, corner=(0, 1, 0, 1, 0), steps=(1, 2, 1, 2, 1), pixels=60
    ),
    "add u32": replace(VOLUMES, stores=True, operation="add", corner=(0, 3, 2, 1, 1), pixels=100),
    "max u64": replace(
        IMAGES,
        dtype="u64",
        dims=(4, 7, 6, 5),
        channels=4,
        stores=True,
        operation="max",
        corner=(0, 3, 2, 1),
        pixels=40,
    ),
    "min i32": replace(
        IMAGES,
        dtype="i32",
        dims=(8, 7, 6, 5),
        channels=4,
        stores=True,
        operation="min",
        corner=(4, 3, 2, 1),
        pixels=40,
    ),
    "add f16": replace(
        LINES, dtype="f16", stores=True, operation="add", corner=(0, 5, 2), pixels=40
    ),
    "xor u32": replace(
        VOLUMES, stores=True, operation="xor", lower=(1, 0, 0), corner=(0, 3, 2, 1, 1), pixels=100
    ),
}
