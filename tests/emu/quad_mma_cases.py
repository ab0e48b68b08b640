"""mma.sync.m8n8k4 of f16: the programs, their data, and what a GPU leaves.

`python -m tests.emu.quad_mma_cases OUT.npz` runs them on a GPU, says where the emulator differs,
and writes what the GPU left. Warps have data of the kinds of `mma_cases`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from kernelrig.emu.launch.engines import NUMPY
from numpy.typing import NDArray

from tests.emu.gpu import Gpu
from tests.emu.harness import HEAD, Result
from tests.emu.mma_cases import (
    KINDS,
    LANES,
    WARPS,
    compare,
    emulated_words,
    float_bits,
    hashed,
    words_on_gpu,
)

FORMS = tuple(
    f"m8n8k4.{a}.{b}.{d}.f16.f16.{c}"
    for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
    for a in ("row", "col")
    for b in ("row", "col")
)


def counts_of(form: str) -> dict[str, int]:
    """Return the registers of each operand."""
    *_, d, _, _, c = form.split(".")
    return {"a": 2, "b": 2, "c": 4 if c == "f16" else 8, "d": 4 if d == "f16" else 8}


def text_of(form: str) -> str:
    """A kernel k(a, b, c, d): registers one behind the other, each with a word a thread."""
    counts = counts_of(form)
    lines = [f".reg .b32 %{name}<{count}>;" for name, count in counts.items()]
    lines += [".reg .b32 %t; .reg .b64 %off, %at;", "mov.u32 %t, %tid.x;"]
    lines.append("mul.wide.u32 %off, %t, 4;")
    for name in "abc":
        lines.append(f"ld.param.u64 %at, [{name}]; add.s64 %at, %at, %off;")
        for n in range(counts[name]):
            lines.append(f"ld.global.b32 %{name}{n}, [%at+{n * 4 * LANES * WARPS}];")
    listed = ["{" + ", ".join(f"%{name}{n}" for n in range(counts[name])) + "}" for name in "dabc"]
    lines.append(f"mma.sync.aligned.{form} {', '.join(listed)};")
    lines.append("ld.param.u64 %at, [d]; add.s64 %at, %at, %off;")
    for n in range(counts["d"]):
        lines.append(f"st.global.b32 [%at+{n * 4 * LANES * WARPS}], %d{n};")
    params = ", ".join(f".param .u64 {name}" for name in "abcd")
    body = "\n".join(lines)
    return f"{HEAD.format(target='sm_90a')}.visible .entry k({params})\n{{\n{body}\nret;\n}}\n"


def _words(kind: str, count: int, salt: int) -> NDArray[np.uint32]:
    each = 2 if kind == "f16" else 1
    random = hashed(count * WARPS * LANES * each, salt).reshape(count, WARPS, LANES, each)
    made = random.copy()
    for warp, data in enumerate(KINDS):
        if data != "bits":
            made[:, warp] = float_bits(kind, data, random[:, warp])
    made &= np.uint64((1 << 32 // each) - 1)
    shifts = np.arange(each, dtype=np.uint64) * np.uint64(16)
    words = np.bitwise_or.reduce(made << shifts, axis=-1)
    listed: NDArray[np.uint32] = words.reshape(count, WARPS * LANES).astype(np.uint32)
    return listed


def data_of(form: str) -> dict[str, NDArray[Any]]:
    counts, salt = counts_of(form), sum(map(ord, form))
    c = _words("f16" if counts["c"] == 4 else "f32", counts["c"], salt + 2)
    return {
        "a": _words("f16", 2, salt),
        "b": _words("f16", 2, salt + 1),
        "c": c,
        "d": np.zeros((counts["d"], LANES * WARPS), np.uint32),
    }


def emulated(form: str, engine: str = NUMPY, *, hardware: bool = True) -> Result:
    return emulated_words(text_of(form), data_of(form), engine, hardware=hardware)


def on_gpu(gpu: Gpu, form: str) -> NDArray[Any]:
    return words_on_gpu(gpu, text_of(form), data_of(form))


if __name__ == "__main__":
    sys.exit(compare(FORMS, emulated, on_gpu, sys.argv[1:]))
