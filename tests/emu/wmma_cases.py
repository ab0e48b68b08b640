"""nvcuda::wmma as nvcc compiles it: matrices in memory with rows that are apart, D = A x B + C.

`python -m tests.emu.wmma_cases OUT.npz` runs them on a GPU, says where the emulator differs, and
writes what the GPU left.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from kernelrig.emu.launch.engines import NUMPY
from numpy.typing import NDArray

from tests.emu.gpu import Argument, Gpu, GpuError, Pointer
from tests.emu.harness import Result, run_text
from tests.emu.mma_cases import hashed
from tests.toolchain_fixture import REPOSITORY

PTX = REPOSITORY / "tests/data/emu/wmma-nvcc-13.0.88.ptx"
APART = 16  # elements between lines
DATA = ("integers", "like")


class Form(NamedTuple):
    """`a`, `b` and `c` say whether that matrix lies by rows or by columns."""

    type: str
    d: str
    m: int
    n: int
    k: int
    layouts: str

    def lines(self, part: int) -> tuple[int, int]:
        """Return the lines of A, B or C in memory, and the elements of each."""
        rows, columns = ((self.m, self.k), (self.k, self.n), (self.m, self.n))[part]
        return (rows, columns) if self.layouts[part] == "r" else (columns, rows)


FORMS = {
    "k0": Form("f16", "f32", 16, 16, 16, "rcr"),
    "k1": Form("f16", "f16", 16, 16, 16, "crc"),
    "k2": Form("f16", "f32", 8, 32, 16, "rrr"),
    "k3": Form("f16", "f16", 32, 8, 16, "ccr"),
    "k4": Form("bf16", "f32", 16, 16, 16, "rrc"),
    "k5": Form("bf16", "f32", 8, 32, 16, "ccr"),
    "k6": Form("s8", "s32", 16, 16, 16, "rcr"),
    "k7": Form("u8", "s32", 32, 8, 16, "rrc"),
    "k8": Form("tf32", "f32", 16, 16, 8, "rcr"),
    "k9": Form("f64", "f64", 8, 8, 4, "rcr"),
    "k10": Form("s8", "s32", 8, 32, 16, "crr"),
    "k11": Form("f64", "f64", 8, 8, 4, "crc"),
}
_DTYPES: dict[str, type[Any]] = {
    "f16": np.float16, "bf16": np.uint16, "s8": np.int8, "u8": np.uint8, "tf32": np.float32,
    "f32": np.float32, "s32": np.int32, "f64": np.float64,
}  # fmt: skip


def matrix(name: str, part: int, data: str) -> NDArray[np.float64]:
    """Return A, B or C of a form as float64: small integers, or numbers of like magnitudes."""
    form = FORMS[name]
    lines, length = form.lines(part)
    bits = hashed(lines * length, 3 * int(name[1:]) + part + 100 * DATA.index(data))
    values = (bits % np.uint64(9)).astype(np.float64) - 4
    if data == "like" and form.d not in ("s32",):
        values = (bits % np.uint64(2001)).astype(np.float64) / 1000 - 1
    made = values.reshape(lines, length)
    made = np.abs(made) if form.type == "u8" and part < 2 else made
    return made if form.layouts[part] == "r" else made.T


def stored(name: str, part: int, data: str) -> NDArray[Any]:
    """Return A, B or C as it lies in memory."""
    form = FORMS[name]
    values = matrix(name, part, data)
    values = values if form.layouts[part] == "r" else values.T
    kind = form.d if part == 2 else form.type
    apart = np.zeros((values.shape[0], values.shape[1] + APART), np.float64)
    apart[:, : values.shape[1]] = values
    if kind == "bf16":
        return (apart.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return apart.astype(_DTYPES[kind])


def _arguments(name: str, data: str) -> tuple[dict[str, NDArray[Any]], list[bytes]]:
    buffers = {part: stored(name, at, data) for at, part in enumerate("abc")}
    strides = [array.shape[1].to_bytes(4, "little") for array in buffers.values()]
    return {**buffers, "d": np.zeros_like(buffers["c"])}, strides


def emulated(
    name: str, data: str, engine: str = NUMPY, *, hardware: bool = True, threads: int = 32,
    old: str = "", new: str = "",
) -> Result:  # fmt: skip
    """Run the kernel of a form; `old` of its text becomes `new`."""
    buffers, strides = _arguments(name, data)
    text = PTX.read_text("utf-8")
    assert old in text
    return run_text(
        text.replace(old, new) if old else text, buffers, entry=name, block=(threads, 1, 1),
        engine=engine, hardware_accumulation=hardware, behind=strides,
    )  # fmt: skip


def on_gpu(gpu: Gpu, name: str, data: str) -> NDArray[Any]:
    buffers, strides = _arguments(name, data)
    passed: list[Argument] = [*(Pointer(part) for part in buffers), *strides]
    left: NDArray[Any] = gpu.run(
        PTX.read_text("utf-8"), name, buffers, passed, grid=(1, 1, 1), block=(32, 1, 1)
    )["d"]
    return left


def main(arguments: Sequence[str]) -> int:
    gpu = Gpu()
    left: dict[str, NDArray[Any]] = {}
    failed = 0
    for name in FORMS:
        for data in DATA:
            try:
                left[f"{name} {data}"] = on_gpu(gpu, name, data)
            except GpuError as e:
                failed += 1
                sys.stdout.write(f"{name} {data}: {e}\n")
                gpu = Gpu()
                continue
            ours, theirs = emulated(name, data).buffers["d"], left[f"{name} {data}"]
            same = ours.tobytes() == theirs.tobytes()
            failed += not same
            sys.stdout.write(f"{name} {data}: {'the same' if same else 'differs'}\n")
            for at in np.argwhere(ours != theirs)[:4]:
                sys.stdout.write(f"  {at}: {ours[tuple(at)]!r}, not {theirs[tuple(at)]!r}\n")
            sys.stdout.flush()
    if arguments:
        np.savez_compressed(arguments[0], **left)  # type: ignore[arg-type]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
