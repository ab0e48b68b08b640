"""PTX and tensor maps that tests of bulk copies start with."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernelrig.emu.machine.state_spaces import GlobalMemory
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


def image(map_: TensorMap) -> NDArray[np.uint8]:
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
