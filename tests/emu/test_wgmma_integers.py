"""wgmma of s8 and u8 with sums in s32: exact, wrapping or clamped."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.test_wgmma import descriptors, matrix, product_text, run_product, shared_with

TYPES = {"s8": np.int8, "u8": np.uint8}


def _product(form: str, before: str, a: str, b: str, n: int, engine: str, again: int) -> tuple[
    np.ndarray, np.ndarray
]:  # fmt: skip
    """Return D's registers, and A x B^T of the random bytes, each once."""
    rng = np.random.default_rng(n)
    of_a, of_b = (rng.integers(0, 256, (rows, 32)).astype(np.uint8) for rows in (64, n))
    text = product_text(
        n, f"m64n{n}k32.{form}", "%rd10, %rd11, 1", registers=n // 2,
        before=descriptors(128, 1024) + before, steps="MMA\n" * again,
    )  # fmt: skip
    found = run_product(text, shared_with(of_a, of_b, 128, 1024), n // 2, engine=engine)
    assert found.findings == ()
    left, right = of_a.view(TYPES[a]).astype(np.int64), of_b.view(TYPES[b]).astype(np.int64)
    # `matrix` puts bits where they belong, as floats: their bits are the integers
    registers = found.buffers["out"]
    bits = np.zeros((64, n), np.int64)
    for half in (0, 16):  # as two exact halves of each word
        part = (registers >> np.uint32(half) & np.uint32(0xFFFF)).astype(np.float32)
        bits += matrix(part.view(np.uint32), n).astype(np.int64) << half
    return bits.astype(np.uint32).view(np.int32).astype(np.int64)[:, :n], left @ right.T


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("a", "b"), [(a, b) for a in TYPES for b in TYPES])
def test_sums_are_exact(a: str, b: str, engine: str) -> None:
    found, once = _product(f"s32.{a}.{b}", "", a, b, 48, engine, 1)
    assert np.array_equal(found, 2 * once)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
def test_sums_beyond_32_bits_wrap_or_are_clamped(satfinite: str, engine: str) -> None:
    start = 0x7FFFFFF0
    before = "".join(f"mov.b32 %d{n}, {start};" for n in range(8))
    found, once = _product(f"s32.u8.u8{satfinite}", before, "u8", "u8", 16, engine, 0)
    total = once + start
    wrapped = total.astype(np.uint64).astype(np.uint32).view(np.int32)
    assert np.array_equal(found, np.minimum(total, 2**31 - 1) if satfinite else wrapped)
    assert (total > 2**31 - 1).any()


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("m64n40k32.s32.s8.s8", "N of integers is"),
        ("m64n16k32.f32.s8.s8", "s8 is not supported"),
        ("m64n16k32.s32.s8.e4m3", "is not supported"),
    ],
)
def test_other_forms_are_refused(form: str, why: str) -> None:
    text = f"wgmma.mma_async.sync.aligned.{form} {{%r1}}, %rd1, %rd2, 1;"
    with pytest.raises(UnsupportedKernel) as refused:
        run_ptx(text, {}, target="sm_90a")
    assert why in str(refused.value)
