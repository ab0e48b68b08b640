"""PTX and tensor maps that tests of bulk copies start with."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernelrig.emu.machine.state_spaces import GlobalMemory
from kernelrig.emu.tensor.map_image import AnyMap
from kernelrig.emu.tensor.tensor_map import TensorMap
from numpy.typing import NDArray

SHARED = (
    ".shared .align 8 .b8 bar[8]; .shared .align 8 .b8 done[8]; .shared .align 1024 .b8 tile[8192];"
)
START = """
mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
mov.u32 %r1, bar; mov.u32 %r2, tile;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
bar.sync 0;
"""
WAIT = """
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;
@!%p1 bra WAIT;
"""
"""%r1 is the mbarrier, of which one arrival is pending; %r2 the tile; %p0 holds in thread 0."""


def first_address(nbytes: int) -> int:
    """Return the generic address of a launch's first buffer."""
    return GlobalMemory().allocate("", nbytes).address


def map_of(
    array: NDArray[Any],
    dtype: str,
    box: tuple[int, ...],
    element_strides: tuple[int, ...] = (),
    **words: str,
) -> TensorMap:
    """Return the map of an array that is the launch's first buffer."""
    return TensorMap(
        dtype,
        first_address(array.nbytes),
        array.shape[::-1],
        tuple(array.strides[-2::-1]),
        box,
        element_strides or (1,) * array.ndim,
        **words,
    )


def image(map_: AnyMap) -> NDArray[np.uint8]:
    """Return the map as a buffer."""
    assert map_.errors() == ()
    return np.frombuffer(map_.image(), np.uint8)


def store_tile(nbytes: int) -> str:
    """Copy the tile to the buffer `out`, by a bulk copy of thread 0."""
    return f"""
ld.param.u64 %rd2, [out];
@!%p0 bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], {nbytes};
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
"""


PATTERNS: dict[str, list[str]] = {
    "none": ["01234567"],
    "32B": ["01234567", "10325476"],
    "64B": ["01234567", "10325476", "23016745", "32107654"],
    "128B": [
        "01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301",
        "76543210",
    ],
    "128B_ATOM_32B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_32B_FLIP_8B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_ATOM_64B": ["01234567", "45670123"],
}  # fmt: skip
"""By line of 128 bytes: which of its 16-byte chunks lies where (PTX ISA 5.5.7)."""


def swizzled(swizzle: str, byte: int) -> int:
    """Return where that byte of a tile lies."""
    line, within = divmod(byte, 128)
    pattern = PATTERNS[swizzle][line % len(PATTERNS[swizzle])]
    flip = 8 if swizzle.endswith("FLIP_8B") and line % 2 else 0
    return 128 * line + 16 * pattern.index(str(within // 16)) + (within % 16 ^ flip)
