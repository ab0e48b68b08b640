"""Copies of im2col of which an H100 takes some: where they may start, what a store may reach."""

from __future__ import annotations

from dataclasses import replace

from tests.emu.im2col_trials import IMAGES, LINES, VOLUMES

_BOX = replace(IMAGES, lower=(-1, 1), upper=(1, -2))  # w from -1 to 7, h from 1 to 3
_OF_D = replace(VOLUMES, lower=(0, 0, -1), upper=(0, 0, -1))
STARTS = {
    **{f"load at w {w}": replace(_BOX, corner=(0, w, 2, 1)) for w in (-2, -1, 7, 8)},
    **{f"load at h {h}": replace(_BOX, corner=(0, 2, h, 1)) for h in (0, 1, 3, 4, -1)},
    **{
        f"load by twos at w {w}": replace(_BOX, corner=(0, w, 2, 1), steps=(1, 2, 2, 1))
        for w in (-2, 6, 7, 8, 9)
    },
    **{
        f"load at image {n}": replace(_BOX, corner=(0, 2, 2, n), pixels=40)
        for n in (-1, -2, -70000, 5, 1 << 30)
    },
    **{
        f"load at channel {c}": replace(_BOX, corner=(c, 2, 2, 1))
        for c in (1, 8, 15, -8, -16, -32, -64, 16, 32, 64, 1 << 20)
    },
    **{
        f"load outside at w {w} behind the last": replace(_BOX, corner=(0, w, 2, 5))
        for w in (-2, 8)
    },
    **{
        f"load lines at w {w}": replace(LINES, lower=(-3,), upper=(-5,), corner=(0, w, 1))
        for w in (-4, -3, 10, 11)
    },
    **{f"load volumes at d {d}": replace(_OF_D, corner=(0, 1, 1, d, 1)) for d in (-2, -1, 1, 2)},
    **{
        f"offset {x} of lines": replace(
            LINES, lower=(-5,), upper=(0,), corner=(0, -5, 0), offsets=(x,)
        )
        for x in (10, 32767, 32768, 65535)
    },
    **{
        f"offset {x} of volumes": replace(
            VOLUMES,
            lower=(-16, 0, 0),
            upper=(-8, 0, 0),
            corner=(0, -16, 1, 1, 0),
            offsets=(x, 0, 0),
        )
        for x in (18, 31)
    },
    "offset 255 of small images": replace(IMAGES, corner=(0, 1, 2, 1), offsets=(255, 0)),
    "offset 31 of small volumes": replace(
        VOLUMES, corner=(0, 1, 1, 1, 1), offsets=(31, 0, 0), pixels=20
    ),
    "offset 65535 of small lines": replace(LINES, corner=(0, 1, 1), offsets=(65535,), pixels=20),
    "tile load of an im2col map": replace(IMAGES, mode="tile"),
}

_STORE = replace(IMAGES, stores=True, corner=(0, 2, 2, 1), pixels=2)
_IN = replace(IMAGES, stores=True, lower=(1, 1), upper=(-1, -1), corner=(0, 2, 2, 1))
OF_STORES = {
    **{f"store at w {w}": replace(_BOX, stores=True, corner=(0, w, 2, 1)) for w in (-2, 0, 8)},
    "store in a box from h 0": replace(IMAGES, stores=True, lower=(-1, -1), corner=(0, 2, 0, 1)),
    "store in a box that goes beyond": replace(
        IMAGES, stores=True, upper=(2, 1), corner=(0, 3, 2, 1), pixels=60
    ),
    "box beyond, column inside": replace(_STORE, lower=(-1, -1)),
    "box before in w, column inside": replace(_STORE, lower=(-1, 0)),
    "box before in h, column inside": replace(_STORE, lower=(0, -1)),
    "box behind in w, column inside": replace(_STORE, upper=(1, 0)),
    "box behind in h, column inside": replace(_STORE, upper=(0, 1)),
    "box behind in h, column of a row": replace(_STORE, upper=(0, 1), pixels=5),
    "lines: box before, column inside": replace(
        LINES, stores=True, lower=(-1,), corner=(0, 2, 1), pixels=2
    ),
    "lines: box behind, column inside": replace(
        LINES, stores=True, upper=(1,), corner=(0, 2, 1), pixels=2
    ),
    "volumes: box before in d, column inside": replace(
        VOLUMES, stores=True, lower=(0, 0, -1), corner=(0, 2, 1, 1, 1), pixels=2
    ),
    "add: box before, column inside": replace(
        _STORE, dtype="u32", dims=(8, 7, 6, 5), channels=8, operation="add", lower=(-1, 0)
    ),
    "inside": _IN,
    "inside at w 0": replace(_IN, corner=(0, 0, 2, 1)),
    "inside at w 6": replace(_IN, corner=(0, 6, 2, 1)),
    "inside at h 5": replace(_IN, corner=(0, 2, 5, 1)),
    **{f"inside at image {n}": replace(_IN, corner=(0, 2, 2, n), pixels=60) for n in (-1, -2, 5)},
    "inside at image -1, into none": replace(_IN, corner=(0, 2, 2, -1), pixels=2),
    "inside at image 1 << 30": replace(_IN, corner=(0, 2, 2, 1 << 30), pixels=60),
    **{
        f"inside at channel {c}": replace(_IN, corner=(c, 2, 2, 1))
        for c in (-16, -32, 16, 32, 48, 8, 1)
    },
    "store images by twos of images": replace(IMAGES, stores=True, steps=(1, 3, 3, 2), pixels=30),
    "tile store of an im2col map": replace(IMAGES, mode="tile", stores=True),
}
PROBES = STARTS | OF_STORES
