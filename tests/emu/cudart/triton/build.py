"""Compiles the kernels of kernels.txt with Triton, and writes what host.cu launches.

Run as a script, with Triton on its path: `build.py FOLDER`. A folder each, NAME_90 and NAME_100:
the PTX, the inputs, the wanted outputs made by NumPy, and launch.txt, which says of each argument
what it is.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Argument = tuple[Any, ...]
"""A number by its type; or `in`, `out`, `zero` (an output that starts as zeros), Triton's type,
the array, and the tolerance of an output."""
Case = tuple[str, list[Argument], dict[str, Any], tuple[int, int, int], dict[str, int]]
"""The kernel, its arguments, its constants, the grid, and Triton's options."""
RNG = np.random.default_rng(1)
LOW = np.uint64(0xFFFFFFFF)
E4M3 = np.array([0, 0x38, 0x40, 0x44], np.uint8)
"""0, 1, 2 and 3 as FP8."""


def small(*shape: int) -> NDArray[Any]:
    """Return whole numbers whose products are summed without rounding."""
    return RNG.integers(-3, 4, shape).astype(np.float16)


def normal(*shape: int) -> NDArray[Any]:
    return RNG.standard_normal(shape)


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    made: NDArray[Any] = a.astype(np.float32) @ b.astype(np.float32)
    return made


def fp8(values: NDArray[Any]) -> NDArray[Any]:
    whole = values.astype(np.int64)
    return E4M3[abs(whole)] | np.where(whole < 0, 0x80, 0).astype(np.uint8)


def random_of_philox(seed: int, index: NDArray[Any]) -> NDArray[Any]:
    """Return what tl.rand(seed, index) is: Philox 4x32 of ten rounds."""
    word = np.uint64(32)
    c = [index.astype(np.uint64), *(np.zeros(len(index), np.uint64) for _ in range(3))]
    first, second = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> word) ^ c[1] ^ first, b & LOW, (a >> word) ^ c[3] ^ second, a & LOW]
        first, second = (
            (k + np.uint64(more)) & LOW for k, more in ((first, 0x9E3779B9), (second, 0xBB67AE85))
        )
    signed = c[0].astype(np.uint32).view(np.int32).astype(np.int64)
    return (np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10).astype(np.float32)


def cases() -> dict[str, Case]:
    made: dict[str, Case] = {}
    x = normal(8, 200).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    arguments = [("out", "*fp32", e / e.sum(1, keepdims=True), 1e-6), ("in", "*fp32", x)]
    made["softmax"] = ("softmax", [*arguments, ("i32", 200)], {"BLOCK": 256}, (8, 1, 1), {})

    x = normal(4, 300).astype(np.float16)
    w, b = (normal(300).astype(np.float32) for _ in "wb")
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    y = (centred / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b).astype(np.float32)
    arguments = [("out", "*fp32", y, 1e-4), ("in", "*fp16", x), ("in", "*fp32", w)]
    arguments += [("in", "*fp32", b), ("i32", 300), ("fp32", 1e-5)]
    made["layernorm"] = ("layernorm", arguments, {"BLOCK": 128}, (4, 1, 1), {})

    x = normal(1000).astype(np.float32)
    kept = random_of_philox(123, np.arange(1000)) > np.float32(0.25)
    y = np.where(kept, x / np.float32(0.75), np.float32(0)).astype(np.float32)
    arguments = [("out", "*fp32", y, 1e-6), ("in", "*fp32", x), ("i32", 1000)]
    arguments += [("fp32", 0.25), ("i32", 123)]
    made["dropout"] = ("dropout", arguments, {"BLOCK": 256}, (4, 1, 1), {})

    sizes: list[Argument] = [("i32", 128), ("i32", 128), ("i32", 256)]
    a, b = small(128, 256), small(256, 128)
    inputs: list[Argument] = [("in", "*fp16", a), ("in", "*fp16", b)]
    tile = {"BM": 64, "BN": 64, "BK": 32, "SPLIT": 4}
    arguments = [("zero", "*fp32", product(a, b), 0), *inputs, *sizes]
    made["splitk"] = ("splitk", arguments, tile, (2, 2, 4), {"num_stages": 3})

    b = small(128, 256)
    inputs = [("in", "*fp16", a), ("in", "*fp16", b)]
    arguments = [("out", "*fp16", product(a, b.T).astype(np.float16), 0), *inputs, *sizes]
    for name, specialised in (("gemm_desc", False), ("gemm_desc_ws", True)):
        tile = {"BM": 128, "BN": 64, "BK": 64, "WS": specialised}
        options = {"num_stages": 3, "num_warps": 4}
        made[name] = ("gemm_desc", arguments, tile, (1, 2, 1), options)
    inputs = [("in", "*fp8e4nv", fp8(a)), ("in", "*fp8e4nv", fp8(b))]
    arguments = [("out", "*fp32", product(a, b.T), 0), *inputs, *sizes]
    tile = {"BM": 64, "BN": 64, "BK": 64}
    made["gemm_fp8"] = ("gemm_fp8", arguments, tile, (2, 2, 1), {"num_stages": 3})

    q, k, v = ((normal(2, 128, 64) * 0.5).astype(np.float16) for _ in "qkv")
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    scores = np.where(np.tril(np.ones((128, 128))) > 0, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    o = (p / p.sum(-1, keepdims=True) @ v.astype(np.float64)).astype(np.float16)
    arguments = [("out", "*fp16", o, 4e-3), *(("in", "*fp16", one) for one in (q, k, v))]
    arguments += [("i32", 128), ("fp32", 0.125)]
    tile = {"BM": 64, "BN": 64, "D": 64}
    made["attention"] = ("attention", arguments, tile, (2, 2, 1), {"num_stages": 2})

    x = RNG.integers(0, 64, (2, 256)).astype(np.int32)
    counted = np.bincount(x.reshape(-1), minlength=64).astype(np.int32)
    arguments = [("out", "*i32", np.cumsum(x, 1).astype(np.int32), 0)]
    arguments += [("out", "*i32", np.sort(x, 1), 0), ("zero", "*i32", counted, 0)]
    arguments += [("in", "*i32", x)]
    made["scan_sort"] = ("scan_sort", arguments, {"BLOCK": 256}, (2, 1, 1), {})

    a, b = small(160, 64), small(96, 64)
    arguments = [("out", "*fp32", product(a, b.T), 0), ("in", "*fp16", a), ("in", "*fp16", b)]
    arguments += [("i32", 160), ("i32", 96), ("i32", 64)]
    tile = {"BM": 64, "BN": 32, "BK": 32}
    made["persistent"] = ("persistent", arguments, tile, (4, 1, 1), {"num_stages": 3})
    return made


def write(folder: Path, case: Case, capability: int, kernels: Any) -> None:  # noqa: ANN401
    """Compile one kernel for sm_90a or sm_100a, and write its folder."""
    name, arguments, constants, grid, options = case
    compiler = importlib.import_module("triton.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", capability, 32)
    function = getattr(kernels, name)
    types = [a[1] if a[0] in ("in", "out", "zero") else a[0] for a in arguments]
    aligned = [
        number
        for number, a in enumerate(arguments)
        if a[0] in ("in", "out", "zero") or (a[0] == "i32" and a[1] % 16 == 0)
    ]
    source = compiler.ASTSource(
        fn=function,
        signature={
            **dict(zip(function.arg_names, types, strict=False)),
            **dict.fromkeys(constants, "constexpr"),
        },
        constexprs=constants,
        attrs={(number,): [["tt.divisibility", 16]] for number in aligned},
    )
    made = compiler.compile(source, target=target, options=options)
    ptx = made.asm["ptx"]
    threads = re.search(r"\.reqntid (\d+)", ptx)
    assert threads
    assert not made.metadata.profile_scratch_size
    folder.mkdir()
    (folder / "kernel.ptx").write_text(ptx, "utf-8")
    launch = [made.metadata.name, *grid, threads[1], made.metadata.shared]
    lines = [[*launch, made.metadata.global_scratch_size]]
    for number, argument in enumerate(arguments):
        if argument[0] not in ("in", "out", "zero"):
            lines.append(list(argument))
            continue
        kind, of, array, *tolerance = argument
        np.ascontiguousarray(array).tofile(folder / f"{number}.bin")
        lines.append([kind, of, f"{number}.bin", *(tolerance or [0])])
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    (folder / "launch.txt").write_text(text, "utf-8")


def main() -> None:
    folder = Path(sys.argv[1])
    # Triton reads the source of what it compiles: it is a module, beside which there is Triton.
    shutil.copyfile(Path(__file__).with_name("kernels.txt"), folder / "triton_kernels.py")
    sys.path.insert(0, str(folder))
    kernels = importlib.import_module("triton_kernels")
    for name, case in cases().items():
        for capability in (90, 100):
            write(folder / f"{name}_{capability}", case, capability, kernels)


if __name__ == "__main__":
    main()
