"""Products of matrices for the core: by NumPy's BLAS, or by Python where none is found.

Both engines multiply as `tensor.summation` does. NumPy hands such a product to cblas_sgemm; where
that function can be found, and adds to D as a product and a sum do, the core calls it without
Python in between.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache

import numpy as np

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.tensor.formats import FORMATS
from kernelrig.emu.tensor.instruction_descriptor import KINDS, doubtful, product
from kernelrig.emu.tensor.operand_layout import BadDescriptor
from kernelrig.emu.tensor.summation import F32, multiply_into
from kernelrig.reference.one_thread import one_thread

_SGEMM = ("scipy_cblas_sgemm64_", "cblas_sgemm64_")
"""What builds of OpenBLAS whose integers have 64 bits call it."""
_NUMPY = "numpy._core._multiarray_umath"
_BY_ROWS, _AS_IS, _TRANSPOSED = 101, 111, 112
_I, _L, _F, _P = ctypes.c_int, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_FUNCTION = ctypes.PYFUNCTYPE(None, _I, _I, _I, _L, _L, _L, _F, _P, _L, _P, _L, _F, _P, _L)
_TRIED = ((128, 256, 32), (128, 64, 16), (64, 48, 8), (16, 8, 32))
"""Sizes (m, n, k) with which a cblas_sgemm is tried."""
ON_DESCRIPTOR = ctypes.CFUNCTYPE(_I, ctypes.c_uint32, _I, _I, _L)
ON_PRODUCT = ctypes.CFUNCTYPE(_I, _L)


class MatrixWords(ctypes.Structure):
    """`Matrix` of core/tensor/products.hpp."""

    _fields_ = (("values", _P), ("stride", _L), ("by_columns", _L))


class ProductWords(ctypes.Structure):
    """`MatrixProduct` of core/tensor/products.hpp."""

    _fields_ = (
        ("m", _L), ("n", _L), ("k", _L), ("a", MatrixWords), ("b", MatrixWords),
        ("d", _P), ("stride", _L), ("adds", _L),
    )  # fmt: skip


class TensorForm(ctypes.Structure):
    """`TensorForm` of core/tensor/tensor_product.hpp."""

    _fields_ = tuple(
        (name, _L) for name in ("is_plain", "m", "n", "a", "b", "a_mn_major", "b_mn_major")
    )


def decode_descriptor(machine: Machine, bits: int, kind: int, cta_group: int, into: int) -> int:
    """Decode an instruction descriptor of tcgen05.mma, if the core does such products."""
    try:
        found = product(bits, KINDS[kind], cta_group)
    except BadDescriptor:
        return 0
    exact = not machine.hardware_accumulation and found.d == "f32"
    made, names = TensorForm.from_address(into), list(FORMATS)
    exact &= not (found.a.bits or found.b.bits)  # types under a byte are Python's
    made.is_plain = exact and not (found.negate_a or found.negate_b or doubtful(found, cta_group))
    made.m, made.n = found.m, found.n
    if exact:
        made.a, made.b = names.index(found.a.name), names.index(found.b.name)
    made.a_mn_major, made.b_mn_major = found.a_mn_major, found.b_mn_major
    return 0


def multiply_at(address: int) -> int:
    """Make the product that the core describes at `address`."""
    asked = ProductWords.from_address(address)
    a, b = _matrix(asked.a, asked.m, asked.k), _matrix(asked.b, asked.n, asked.k)
    d = _rows(asked.d, asked.m, asked.n, asked.stride)
    multiply_into(a, b, d, bool(asked.adds))
    return 0


def _matrix(of: MatrixWords, rows: int, k: int) -> F32:
    if of.by_columns:
        return _rows(of.values, k, rows, of.stride).T
    return _rows(of.values, rows, k, of.stride)


def _rows(address: int, rows: int, columns: int, stride: int) -> F32:
    words = (_F * (stride * (rows - 1) + columns)).from_address(address)
    flat = np.ctypeslib.as_array(words)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (4 * stride, 4))


@cache
def sgemm() -> int | None:
    """Return the address of NumPy's cblas_sgemm, None where none is found that does the same."""
    library = ctypes.PyDLL(str(importlib.import_module(_NUMPY).__file__))
    for name in _SGEMM:
        try:
            address = ctypes.cast(getattr(library, name), _P).value
        except AttributeError:
            continue
        if address is not None and does_the_same(address):
            return address
    return None


def does_the_same(address: int) -> bool:
    """Say whether a cblas_sgemm gives the bits that NumPy gives, of values of all magnitudes."""
    with one_thread():
        return _does_the_same(address)


def _does_the_same(address: int) -> bool:
    function, rng = _FUNCTION(address), np.random.default_rng(0)

    def drawn(*shape: int) -> F32:
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)
        return values.astype(np.float32)

    for m, n, k in _TRIED:
        for transposed in (False, True):
            a, b, start = drawn(m, k), drawn(n, k), drawn(m, 2 * n)
            for adds in (False, True):
                wanted, found = start.copy(), start.copy()
                of_a, of_b = (np.asfortranarray(x) if transposed else x for x in (a, b))
                multiply_into(of_a, of_b, wanted[:, :n], adds)
                function(
                    _BY_ROWS, _TRANSPOSED if transposed else _AS_IS,
                    _AS_IS if transposed else _TRANSPOSED, m, n, k, 1.0,
                    of_a.ctypes.data, m if transposed else k,
                    of_b.ctypes.data, n if transposed else k,
                    float(adds), found.ctypes.data, 2 * n,
                )  # fmt: skip
                if wanted.tobytes() != found.tobytes():
                    return False
    return True
