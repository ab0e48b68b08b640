"""The small kernels that faults are put into: their texts, and launches that say what is right.

A line of a text that a fault changes, or that a finding names, ends in `// @mark`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from kernelrig.emu.launch.loader import Loaded, load
from kernelrig.reference.inputs import bf16_values
from numpy.typing import NDArray

from tests.emu.tensor_harness import k_major, operand, place, values

TEXTS = Path(__file__).parent / "texts"
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """A text and its launch. `given` are the buffers that are filled, `wanted` those compared."""

    name: str
    block: int
    given: Mapping[str, NDArray[Any]]
    wanted: Mapping[str, NDArray[Any]]
    arguments: tuple[str, ...]
    maps: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    grid: int = 1
    cluster: int = 1
    shared_bytes: int = 0

    @property
    def text(self) -> str:
        return (TEXTS / f"{self.name}.ptx").read_text("utf-8")

    def line(self, mark: str) -> int:
        """Return the number of the one line that carries `mark`."""
        ends = f"// @{mark}"
        (number,) = (
            n for n, line in enumerate(self.text.splitlines(), 1) if line.endswith(ends)
        )  # fmt: skip
        return number

    def with_line(self, mark: str, line: str) -> str:
        """Return the text with `line` in the place of the marked one."""
        lines = self.text.splitlines()
        lines[self.line(mark) - 1] = line
        return "\n".join(lines) + "\n"

    def load(self, folder: Path, text: str, change: Mapping[str, Any] | None = None) -> Loaded:
        """Write `text` and a launch file; `change` replaces keys of tensor maps, `map.key`."""
        (folder / "kernel.ptx").write_text(text, "utf-8")
        buffers = {}
        for name, array in {**self.wanted, **self.given}.items():
            fill = {"kind": "undefined"}
            if name in self.given:
                np.save(folder / f"{name}.npy", array)
                fill = {"kind": "file", "path": f"{name}.npy"}
            dtype = self.dtypes.get(name, {"u": "u", "f": "f"}[array.dtype.kind]
                                    + str(8 * array.dtype.itemsize))  # fmt: skip
            buffers[name] = {"dtype": dtype, "shape": array.shape, "fill": fill}
        expect = {}
        for name, array in self.wanted.items():
            np.save(folder / f"{name}_wanted.npy", array)
            expect[name] = {"path": f"{name}_wanted.npy", "max_abs": 1e-4, "max_rel": 1e-5}
        maps = {name: dict(entry) for name, entry in self.maps.items()}
        for key, value in (change or {}).items():
            name, _, item = key.partition(".")
            maps[name][item] = value
        launch = {
            "schema": 1, "module": "kernel.ptx", "entry": self.name, "grid": [self.grid, 1, 1],
            "block": [self.block, 1, 1], "cluster": [self.cluster, 1, 1],
            "dynamic_smem_bytes": self.shared_bytes, "buffers": buffers, "tensor_maps": maps,
            "args": [{"tensor_map" if a in maps else "buffer": a} for a in self.arguments],
            "expect": expect,
        }  # fmt: skip
        (folder / "launch.json").write_text(json.dumps(launch), "utf-8")
        return load(folder / "launch.json")


def _ring() -> Kernel:
    words = np.arange(7 * 64, dtype=np.uint32)
    return Kernel("ring", 64, {"in": words}, {"out": words + 1}, ("in", "out"))


def _threads() -> Kernel:
    words = np.arange(128, dtype=np.uint32) * 3
    out = np.zeros(128, np.uint32)
    for cta in range(2):
        own = words[64 * cta :][:64]
        for t in range(64):
            lower = t % 32 < 16
            source = (t ^ 1) ^ (1 if lower else 0)
            vector = own[(t ^ 60) & 60]
            out[64 * cta + t] = own[source ^ 37] + 64 + own[t] + vector
    total = out[[63]] + out[127]
    zero = np.zeros(2, np.uint32)
    return Kernel(
        "threads", 64, {"in": words, "counter": zero}, {"out": out, "total": total},
        ("in", "out", "counter", "total"), grid=2,
    )  # fmt: skip


def _cluster() -> Kernel:
    words = np.arange(32, dtype=np.uint32) * 7
    lanes = np.arange(32, dtype=np.uint32)
    first = (100 + lanes) + lanes + words  # rank 0: the peer's tile, the box, the copy
    second = lanes + words
    out = np.concatenate([first, second])
    return Kernel("cluster", 32, {"in": words}, {"out": out}, ("in", "out"), grid=2, cluster=2)


def _warpgroup() -> Kernel:
    rng = np.random.default_rng(1)
    a, b = operand(rng, 64, "e4m3"), operand(rng, 8, "e4m3")
    image = np.zeros(10240, np.uint8)
    place(image, 0x400, a, k_major(128, 1024), 128)
    place(image, 0x400 + 8192, b, k_major(128, 1024), 128)
    d = 2 * values(a, "e4m3") @ values(b, "e4m3").T
    out = _fragments(d)
    return Kernel(
        "warpgroup", 128, {"in": image}, {"out": out}, ("in", "out"), shared_bytes=10240
    )  # fmt: skip


def _fragments(d: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return what the 128 threads of a warpgroup hold of a result of 64 x 8."""
    out = np.zeros((128, 4), np.float32)
    for t in range(128):
        for v in range(4):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (v >> 1)
            out[t, v] = d[row, 2 * (t % 4) + (v & 1)]
    return out


def _stages() -> Kernel:
    rng = np.random.default_rng(5)
    image, d = np.zeros((4, 9216), np.uint8), np.zeros((64, 8))
    for step in image:
        a, b = operand(rng, 64, "e4m3"), operand(rng, 8, "e4m3")
        space = np.zeros(10240, np.uint8)
        place(space, 0x400, a, k_major(128, 1024), 128)
        place(space, 0x400 + 8192, b, k_major(128, 1024), 128)
        step[:] = space[:9216]
        d += values(a, "e4m3") @ values(b, "e4m3").T
    out = _fragments(d)
    return Kernel("stages", 160, {"in": image}, {"out": out}, ("in", "out"), shared_bytes=20480)


def _map(buffer: str, dtype: str, dims: list[int], box: list[int], swizzle: str) -> dict[str, Any]:
    size = {"bf16": 2, "f32": 4}[dtype]
    return {
        "buffer": buffer, "dtype": dtype, "dims": dims, "strides_bytes": [dims[0] * size],
        "box": box, "element_strides": [1, 1], "swizzle": swizzle,
    }  # fmt: skip


def _operands() -> tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.float32]]:
    rng = np.random.default_rng(2)
    a = (rng.standard_normal((256, 64)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    b = (rng.standard_normal((32, 64)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    product = bf16_values(a).astype(np.float64) @ bf16_values(b).astype(np.float64).T
    return a, b, product.astype(np.float32)


def _product() -> Kernel:
    a, b, c = _operands()
    return Kernel(
        "product", 160, {"A": a, "B": b}, {"C": c}, ("a_map", "b_map", "c_map"),
        {
            "a_map": _map("A", "bf16", [64, 256], [64, 128], "128B"),
            "b_map": _map("B", "bf16", [64, 32], [64, 32], "128B"),
            "c_map": _map("C", "f32", [32, 256], [32, 128], "none"),
        },
        {"A": "bf16", "B": "bf16"}, shared_bytes=37888,
    )  # fmt: skip


def _pair() -> Kernel:
    a, b, c = _operands()
    return Kernel(
        "pair", 128, {"A": a, "B": b}, {"out": c}, ("a_map", "b_map", "out"),
        {
            "a_map": _map("A", "bf16", [64, 256], [64, 128], "128B"),
            "b_map": _map("B", "bf16", [64, 32], [64, 16], "128B"),
        },
        {"A": "bf16", "B": "bf16"}, grid=2, cluster=2, shared_bytes=18432,
    )  # fmt: skip


_ALL = (_ring(), _threads(), _cluster(), _warpgroup(), _stages(), _product(), _pair())
KERNELS = {k.name: k for k in _ALL}
