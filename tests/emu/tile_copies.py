"""The kernel of tests that compare copies of tensors: a tile of shared memory, and one copy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from kernelrig.emu.machine.state_spaces import GlobalMemory
from kernelrig.emu.tensor.map_image import AnyMap
from numpy.typing import NDArray

from tests.emu.harness import HEAD, Result, run_text

TILE = 8192
SOURCE = (np.arange(TILE) * 40503 >> 5).astype(np.uint8)
"""The tensor, whatever its type; 8 KiB."""

# A wait that gives up: a tx-count that hardware sees otherwise must not hang the GPU.
TILE_WAIT = """
    mov.u32 %r9, 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
    @%p2 bra READY;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 100000; @%p3 bra WAIT;
    trap;
READY:
"""
_KERNEL = """
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 a, .param .u64 out) .maxntid 128 {{
    .reg .pred %p<10>; .reg .b32 %r<40>; .reg .b64 %rd<10>;
    .shared .align 8 .b8 bar[8]; .shared .align 1024 .b8 tile[8192];
    mov.u32 %r0, %tid.x; mov.u32 %r1, bar; mov.u32 %r2, tile; add.u32 %r3, %r2, {at};
    shl.b32 %r4, %r0, 6; add.u32 %r4, %r4, %r2;
    shl.b32 %r5, %r0, 16; or.b32 %r5, %r5, 0x3F80; xor.b32 %r6, %r5, 0x40;
    st.shared.v4.b32 [%r4], {{%r5, %r0, %r6, %r5}};
    st.shared.v4.b32 [%r4+16], {{%r0, %r5, %r5, %r6}};
    st.shared.v4.b32 [%r4+32], {{%r6, %r5, %r0, %r6}};
    st.shared.v4.b32 [%r4+48], {{%r5, %r6, %r6, %r0}};
    setp.eq.u32 %p1, %r0, 0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra MEET;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
    {copy}
MEET:
    bar.sync 0;
    {wait}
    ld.param.u64 %rd2, [out]; mul.wide.u32 %rd3, %r0, 64; add.s64 %rd2, %rd2, %rd3;
    ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r4];
    ld.shared.v4.b32 {{%r14, %r15, %r16, %r17}}, [%r4+16];
    ld.shared.v4.b32 {{%r18, %r19, %r20, %r21}}, [%r4+32];
    ld.shared.v4.b32 {{%r22, %r23, %r24, %r25}}, [%r4+48];
    st.global.v4.b32 [%rd2], {{%r10, %r11, %r12, %r13}};
    st.global.v4.b32 [%rd2+16], {{%r14, %r15, %r16, %r17}};
    st.global.v4.b32 [%rd2+32], {{%r18, %r19, %r20, %r21}};
    st.global.v4.b32 [%rd2+48], {{%r22, %r23, %r24, %r25}};
    ret;
}}
"""


def tile_text(copy: str, wait: str = "", at: int = 0) -> str:
    """Return a kernel of 128 threads that fills its tile, has thread 0 do `copy`, and writes the
    tile out. %rd1 is the tensor map, %r1 the mbarrier, %r3 the tile's byte `at`.
    """
    return HEAD.format(target="sm_90") + _KERNEL.format(at=at, copy=copy, wait=wait)


def run_tile(text: str, map_of: Callable[[int], AnyMap], engine: str) -> Result:
    """Run such a kernel; `map_of` makes the map of the tensor at an address."""
    buffers = {"a": SOURCE, "out": np.zeros(TILE, np.uint8)}
    memory = GlobalMemory()
    addresses = [memory.allocate(name, array.nbytes).address for name, array in buffers.items()]
    map_ = map_of(addresses[0])
    assert map_.errors() == ()
    arguments = [map_.image(), *(a.to_bytes(8, "little") for a in addresses)]
    return run_text(text, buffers, block=(128, 1, 1), arguments=arguments, engine=engine)


def digest(left: dict[str, NDArray[np.uint8]]) -> str:
    return hashlib.sha256(left["a"].tobytes() + left["out"].tobytes()).hexdigest()[:16]
