"""A GEMM of Triton's as PTX and a launch file: code of a compiler that we have no part in.

Run by hand: `python tests/benchmarks/triton_gemm.py FOLDER SIZE 90 100`. It needs Triton, which the
benchmark of the emulator fetches from PyPI into a folder of its own, and no GPU.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

WHEEL = "triton==3.9.0"
TILE, DEPTH, WARPS, STAGES = 128, 64, 4, 3

# Triton reads the source of what it compiles: the kernel is a module of its own, made here, as this
# one must be importable where there is no Triton.
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, n_all, k_all, TILE: tl.constexpr, DEPTH: tl.constexpr):
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    k = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, k_all, DEPTH):
        x = tl.load(a + m[:, None] * k_all + (start + k)[None, :])
        y = tl.load(b + n[None, :] * k_all + (start + k)[:, None])
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * n_all + n[None, :], total.to(tl.float16))
"""


def write(folder: Path, size: int, capability: int) -> Path:
    """Compile C = A * B^T of `size` squared f16 for sm_90a or sm_100a; return the launch file."""
    (folder / "triton_kernel.py").write_text(KERNEL, "utf-8")
    sys.path.insert(0, str(folder))
    compiler = importlib.import_module("triton.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", capability, 32)
    gemm = importlib.import_module("triton_kernel").gemm
    constants = {"TILE": TILE, "DEPTH": DEPTH}
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n_all": "i32", "k_all": "i32"}
    source = compiler.ASTSource(
        fn=gemm,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in range(len(types))},
    )
    made = compiler.compile(
        source, target=target, options={"num_warps": WARPS, "num_stages": STAGES}
    )
    (folder / f"gemm{capability}.ptx").write_text(made.asm["ptx"], "utf-8")
    launch = folder / f"gemm{capability}.json"
    launch.write_text(json.dumps(_launch(folder, size, capability, made.metadata.shared)), "utf-8")
    return launch


def _launch(folder: Path, size: int, capability: int, shared: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (size, size)).astype(np.float16) for _ in range(2))
    product = a.astype(np.float32) @ b.astype(np.float32).T  # exact: small whole numbers
    for name, array in (("a", a), ("b", b), ("c", product.astype(np.float16))):
        np.save(folder / f"{name}.npy", array)
    shape = [size, size]
    buffers = {
        name: {"dtype": "f16", "shape": shape, "fill": {"kind": "file", "path": f"{name}.npy"}}
        for name in "ab"
    }
    scratch = {"dtype": "u8", "shape": [128], "fill": {"kind": "undefined"}}
    return {
        "schema": 1,
        "module": f"gemm{capability}.ptx",
        "entry": "gemm",
        "grid": [size // TILE, size // TILE, 1],
        "block": [32 * WARPS, 1, 1],
        "dynamic_smem_bytes": shared,
        "buffers": {
            **buffers,
            "c": {"dtype": "f16", "shape": shape, "fill": {"kind": "undefined"}},
            "scratch": scratch,
        },
        # The last two are Triton's own, for descriptors and profiles that it does not make here.
        "args": [
            *({"buffer": name} for name in "abc"),
            *({"i32": size} for _ in range(2)),
            *({"buffer": "scratch"} for _ in range(2)),
        ],
        "expect": {"c": {"path": "c.npy"}},
    }


if __name__ == "__main__":
    for arch in sys.argv[3:]:
        sys.stdout.write(f"{write(Path(sys.argv[1]), int(sys.argv[2]), int(arch))}\n")
