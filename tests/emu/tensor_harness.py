"""PTX of small tensor-core kernels, and operands laid out by plain loops over the formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from kernelrig.emu.tensor.formats import byte_values
from numpy.typing import NDArray

Offset = Callable[[int, int], int]
"""(row, byte of K) -> linear offset from the start of the operand."""

XOR = {16: 0x00, 32: 0x10, 64: 0x30, 128: 0x70}


def k_major(span: int, stride: int, leading: int = 0) -> Offset:
    """The formula of ptx-semantics, section 2."""
    if span == 16:
        return lambda row, kb: row % 8 * 16 + row // 8 * stride + kb % 16 + kb // 16 * leading
    return lambda row, kb: row % 8 * span + row // 8 * stride + kb


def mn_major(span: int, stride: int, leading: int, size: int) -> Offset:
    """As above, of an operand whose rows lie along the fast dimension."""

    def offset(row: int, kb: int) -> int:
        k, mb = kb // size, row * size + kb % size
        if span == 16:
            return mb % 16 + mb // 16 * stride + k % 8 * 16 + k // 8 * leading
        return mb % span + mb // span * leading + k % 8 * span + k // 8 * stride

    return offset


def place(
    memory: NDArray[np.uint8], start: int, rows: NDArray[np.uint8], offset: Offset, span: int
) -> None:
    """Write rows of 32 bytes into `memory`, whose byte 0 is shared address 0x400, one by one."""
    for row in range(rows.shape[0]):
        for kb in range(rows.shape[1]):
            address = start + offset(row, kb)
            address ^= address >> 3 & XOR[span]
            memory[address - 0x400] = rows[row, kb]


def descriptor_100(start: int, leading: int, stride: int, code: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | code << 61


def descriptor_90(start: int, leading: int, stride: int, code: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | code << 62


def values(raw: NDArray[np.uint8], name: str) -> NDArray[np.float64]:
    """Return the elements of rows of bytes, by NumPy's own types where it has them."""
    if name in ("e4m3", "e5m2"):
        return byte_values(name)[raw].astype(np.float64)
    if name == "f16":
        return raw.view(np.float16).astype(np.float64)
    if name == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def operand(rng: np.random.Generator, rows: int, name: str) -> NDArray[np.uint8]:
    """Return random finite rows of 32 bytes, of about one in size."""
    numbers = rng.standard_normal((rows, 32 // {"tf32": 4, "f16": 2, "bf16": 2}.get(name, 1)))
    if name == "e4m3":
        return rng.choice(np.array([*range(0x20, 0x48), *range(0xA0, 0xC8)], np.uint8), (rows, 32))
    if name == "e5m2":
        return rng.choice(np.array([*range(0x30, 0x44), *range(0xB0, 0xC4)], np.uint8), (rows, 32))
    if name == "f16":
        return numbers.astype(np.float16).view(np.uint8)
    bits = numbers.astype(np.float32).view(np.uint32)
    if name == "bf16":
        return (bits >> 16).astype(np.uint16).view(np.uint8)
    return bits.view(np.uint8)


SHARED = ".extern .shared .align 1024 .b8 smem[];\n"

LOAD_SHARED = """
    mov.u32 %r100, %tid.x;
    mov.u32 %r101, %ntid.x;
    ld.param.u64 %rd100, [{param}];
    mov.u32 %r102, %cluster_ctarank;
    mul.wide.u32 %rd101, %r102, {size};
    add.u64 %rd100, %rd100, %rd101;
    mov.u32 %r103, smem;
    mul.lo.u32 %r104, %r100, 16;
    mul.lo.u32 %r105, %r101, 16;
COPY:
    cvt.u64.u32 %rd102, %r104;
    add.u64 %rd103, %rd100, %rd102;
    ld.global.v4.u32 {{%r110, %r111, %r112, %r113}}, [%rd103];
    add.u32 %r106, %r103, %r104;
    st.shared.v4.u32 [%r106], {{%r110, %r111, %r112, %r113}};
    add.u32 %r104, %r104, %r105;
    setp.lt.u32 %p100, %r104, {size};
    @%p100 bra COPY;
    fence.proxy.async.shared::cta;
    {sync}
"""
"""Copy `size` bytes a CTA from a buffer to the start of shared memory."""


def load_shared(param: str, size: int, sync: str = "bar.sync 0;") -> str:
    return LOAD_SHARED.format(param=param, size=size, sync=sync)
