"""Products of matrices: one order of additions, in both engines, on every CPU."""

from __future__ import annotations

import ctypes
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from kernelrig.emu.native.core_build import Variant, build
from kernelrig.emu.native.core_calls import core_calls
from kernelrig.emu.native.core_sources import SOURCES
from kernelrig.emu.tensor.summation import F32, multiply, multiply_into

SIZES = [(128, 256, 32), (128, 8, 16), (64, 96, 8), (16, 24, 32), (256, 16, 32), (256, 120, 32),
         (64, 72, 16), (64, 4, 8), (12, 10, 7), (1, 1, 1)]  # fmt: skip


class MatrixWords(ctypes.Structure):
    """`Matrix` of core/tensor/products.hpp."""

    _fields_ = (
        ("values", ctypes.c_void_p), ("stride", ctypes.c_int64), ("by_columns", ctypes.c_int64),
    )  # fmt: skip


class ProductWords(ctypes.Structure):
    """`MatrixProduct` of core/tensor/products.hpp."""

    _fields_ = (
        ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
        ("a", MatrixWords), ("b", ctypes.c_void_p), ("b_stride", ctypes.c_int64),
        ("d", ctypes.c_void_p), ("stride", ctypes.c_int64), ("adds", ctypes.c_int64),
        ("exact", ctypes.c_int64),
    )  # fmt: skip


def drawn(rng: np.random.Generator, *shape: int) -> F32:
    values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-60, 60, shape)).astype(np.float32)
    values[rng.random(shape) < 0.01] = np.inf
    values[rng.random(shape) < 0.01] = np.nan
    return np.where(rng.random(shape) < 0.1, np.copysign(np.float32(0), values), values)


def halves(rng: np.random.Generator, *shape: int) -> F32:
    """Return any values of f16, which has the most bits of the formats with exact products."""
    return rng.integers(0, 1 << 16, shape, dtype=np.uint16).view(np.float16).astype(np.float32)


def words_of(a: F32, b: F32, d: F32, adds: bool, exact: bool) -> ProductWords:
    (m, k), n = a.shape, len(b.T)
    by_columns = a.strides[0] == a.itemsize and k > 1
    matrix = MatrixWords(a.ctypes.data, max(a.strides) // a.itemsize, by_columns)
    return ProductWords(
        m, n, k, matrix, b.ctypes.data, n, d.ctypes.data, d.strides[0] // 4, adds, exact
    )


def compare(core: ctypes.CDLL, adds: bool, exact: bool) -> None:
    """Let `core` and NumPy make products of all sizes and layouts."""
    rng = np.random.default_rng(1)
    draw = halves if exact else drawn
    for m, n, k in SIZES:
        for transposed in (False, True):
            a, b, d = draw(rng, m, k), draw(rng, k, n), drawn(rng, m, n + 5)
            a[m // 4 : m // 2] = np.copysign(np.float32(0), a[m // 4 : m // 2])
            # with half of B finite
            b[:, : n // 2] = np.nan_to_num(b[:, : n // 2], posinf=1, neginf=-1)
            if transposed:
                a = np.asfortranarray(a)
            expected = d.copy()
            with np.errstate(all="ignore"):
                multiply_into(a, b.T, expected[:, :n], adds)
            core.core_multiply(ctypes.byref(words_of(a, b, d[:, :n], adds, exact)))
            assert d.tobytes() == expected.tobytes()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_both_engines_make_the_same_bits(adds: bool, exact: bool) -> None:
    compare(core_calls(), adds, exact)


@pytest.mark.long
@pytest.mark.parametrize("march", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "native"])
def test_the_core_makes_the_same_bits_with_vectors_of_any_width(march: str, tmp_path: Path) -> None:
    if march == "x86-64-v4" and "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has no AVX-512")
    for path in [*SOURCES.rglob("*.hpp"), SOURCES / "tensor" / "products.cpp"]:
        copy = tmp_path / "core" / path.relative_to(SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    library = ctypes.CDLL(str(build(Variant(march), tmp_path / "made", tmp_path / "core")))
    for adds, exact in product((True, False), (True, False)):
        compare(library, adds, exact)


LARGE, MORE = 2.0**24, 1 + 2.0**-13


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((LARGE, 1, -LARGE), (1, 1, 1), 0),  # 1 is lost; from the other end the sum would be 1
        ((LARGE, -LARGE, 1), (1, 1, 1), 1),
        ((-1, MORE), (1, MORE), 2.0**-12),  # a fused step would keep 2^-26 of the product
    ],
)
def test_an_element_is_added_up_in_the_order_of_k_with_every_step_rounded(
    a: tuple[float, ...], b: tuple[float, ...], expected: float
) -> None:
    assert multiply(np.array([a], np.float32), np.array([b], np.float32)) == np.float32(expected)


def test_d_is_added_last() -> None:
    ones, d = np.ones((1, 3), np.float32), np.full((1, 1), LARGE, np.float32)
    multiply_into(ones, ones, d, True)
    assert d == LARGE + 4  # of 3 at once; each 1 alone would be lost
