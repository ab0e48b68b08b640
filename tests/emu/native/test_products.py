"""Products that the core has made, by BLAS or by Python: NumPy's bits."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from kernelrig.emu.native.core_calls import core_calls
from kernelrig.emu.native.products import (
    ON_PRODUCT,
    MatrixWords,
    ProductWords,
    _matrix,
    _rows,
    does_the_same,
    multiply_at,
    sgemm,
)
from kernelrig.emu.tensor.summation import F32, multiply_into

SIZES = [(128, 256, 32), (128, 8, 16), (64, 96, 8), (16, 24, 32), (256, 16, 32), (256, 120, 32),
         (64, 72, 16), (12, 10, 7)]  # fmt: skip
LAST = 4


def drawn(rng: np.random.Generator, *shape: int) -> F32:
    values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-60, 60, shape)).astype(np.float32)
    values[rng.random(shape) < 0.01] = np.inf
    values[rng.random(shape) < 0.01] = np.nan
    return np.where(rng.random(shape) < 0.1, np.copysign(np.float32(0), values), values)


def words_of(a: F32, b: F32, d: F32, adds: bool) -> ProductWords:
    def matrix(of: F32) -> MatrixWords:
        by_columns = of.strides[0] == of.itemsize
        return MatrixWords(of.ctypes.data, max(of.strides) // of.itemsize, by_columns)

    (m, k), n = a.shape, len(b)
    return ProductWords(m, n, k, matrix(a), matrix(b), d.ctypes.data, d.strides[0] // 4, adds)


@pytest.mark.parametrize("by_blas", [True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_products_have_the_bits_of_numpy(by_blas: bool, adds: bool) -> None:
    function = sgemm() if by_blas else None
    if by_blas and function is None:
        pytest.skip("NumPy's BLAS is none that the core calls")
    rng = np.random.default_rng(1)
    for m, n, k in SIZES:
        for transposed in (False, True):
            a, b, d = drawn(rng, m, k), drawn(rng, n, k), drawn(rng, m, n + 5)
            a[m // 4 : m // 2] = np.copysign(np.float32(0), a[m // 4 : m // 2])
            # with half of B finite
            b[: n // 2] = np.nan_to_num(b[: n // 2], posinf=1, neginf=-1)
            if transposed:
                a, b = np.asfortranarray(a), np.asfortranarray(b)
            expected = d.copy()
            with np.errstate(all="ignore"):
                multiply_into(a, b, expected[:, :n], adds)
                words, python = words_of(a, b, d[:, :n], adds), ON_PRODUCT(multiply_at)
                assert core_calls().core_multiply(function, python, ctypes.byref(words)) == 1
            assert d.tobytes() == expected.tobytes()


def last_rows(a: F32, b: F32) -> F32:
    """Return the last rows of A x B^T, added up from the last k on."""
    sums = np.zeros((LAST, len(b)), np.float32)
    for of_a, of_b in zip(a[-LAST:, ::-1].T, b[:, ::-1].T, strict=True):
        sums += of_a[:, None] * of_b
    return sums


@pytest.fixture
def other_blas() -> Iterator[int]:
    """A cblas_sgemm that adds up its last rows from the end; its address."""

    def multiply_otherwise(
        _: int, of_a: int, of_b: int, m: int, n: int, k: int, alpha: float,
        a: int, stride_a: int, b: int, stride_b: int, beta: float, d: int, stride: int,
    ) -> None:  # fmt: skip
        made = ProductWords(
            m, n, k, MatrixWords(a, stride_a, of_a == 112), MatrixWords(b, stride_b, of_b == 111),
            d, stride, beta != 0,
        )  # fmt: skip
        last = _rows(d, m, n, stride)[-LAST:]
        start = last.copy() if beta else np.zeros_like(last)
        with np.errstate(all="ignore"):
            multiply_at(ctypes.addressof(made))
            last[:] = start + last_rows(_matrix(made.a, m, k), _matrix(made.b, n, k))

    long, plain, real, place = ctypes.c_int64, ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    function = ctypes.CFUNCTYPE(
        None, plain, plain, plain, long, long, long, real, place, long, place, long, real, place,
        long,
    )(multiply_otherwise)  # fmt: skip
    yield ctypes.cast(function, ctypes.c_void_p).value or 0  # noqa: PT022 - it lives as long


def test_a_function_that_adds_in_another_order_is_not_called(other_blas: int) -> None:
    assert not does_the_same(other_blas)
    known = sgemm()
    assert known is None or does_the_same(known)


def test_the_core_multiplies_itself_only_where_that_has_the_bits_of_blas(other_blas: int) -> None:
    rng = np.random.default_rng(1)
    a, b, d = (rng.random(shape, np.float32) for shape in ((128, 32), (96, 32), (128, 96)))
    expected = d.copy()
    multiply_into(a, b, expected, True)
    expected[-LAST:] = d[-LAST:] + last_rows(a, b)
    words, python = words_of(a, b, d, True), ON_PRODUCT(multiply_at)
    assert core_calls().core_multiply(other_blas, python, ctypes.byref(words)) == 1
    assert d.tobytes() == expected.tobytes()
