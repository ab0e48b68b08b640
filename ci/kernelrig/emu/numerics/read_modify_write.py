"""What an atomic operation makes of the old value and its operands.

Each function takes and returns arrays of unsigned bits. Halves and sums are rounded to nearest
even; a sum of two f16 or bf16 in f32 is rounded once more without harm, f32 having more than twice
their digits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelrig.emu.numerics.arrays import F32, F64, SIGNED, U16, U32, U64, UNSIGNED, Array

Combine = Callable[..., Array]
"""(old, operands...) -> new."""

U128 = np.dtype([("lower", U64), ("upper", U64)])

NAN_F32 = U32.type(0x7FFF_FFFF)
NAN_HALF = U16.type(0x7FFF)
_LEAST_NORMAL = np.float32(2.0**-126)


def bitwise(operation: str) -> Combine:
    functions: dict[str, Combine] = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    return functions[operation]


def exchange(old: Array, new: Array) -> Array:
    return new


def compare_and_swap(old: Array, expected: Array, new: Array) -> Array:
    return np.asarray(np.where(old == expected, new, old))


def increment(old: Array, limit: Array) -> Array:
    return np.asarray(np.where(old >= limit, U32.type(0), old + U32.type(1)))


def decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - U32.type(1))


def extreme(operation: str, signed: bool) -> Combine:
    """min or max of integers."""
    choose = np.minimum if operation == "min" else np.maximum

    def combine(old: Array, new: Array) -> Array:
        bits = UNSIGNED[old.dtype.itemsize]
        kind = SIGNED[old.dtype.itemsize] if signed else bits
        return np.asarray(choose(old.view(kind), new.view(kind)).view(bits))

    return combine


def add_f32(old: Array, new: Array) -> Array:
    total = old.view(F32) + new.view(F32)
    return np.where(np.isnan(total), NAN_F32, total.view(U32))


def add_f32_flushed(old: Array, new: Array) -> Array:
    """As reductions in the L2 do it: subnormal operands and sums become zeros of their sign."""
    return _flush(add_f32(_flush(old), _flush(new)))


def add_f64(old: Array, new: Array) -> Array:
    return np.asarray((old.view(F64) + new.view(F64)).view(UNSIGNED[8]))


def _flush(bits: Array) -> Array:
    small = np.abs(bits.view(F32)) < _LEAST_NORMAL
    return np.where(small, bits & U32.type(0x8000_0000), bits)


def of_halves(operation: str, kind: str) -> Combine:
    """add, min or max of f16 or bf16, each half for itself where the element holds two."""
    widen, narrow = (_from_f16, _to_f16) if kind.startswith("f16") else (_from_bf16, _to_bf16)

    def combine(old: Array, new: Array) -> Array:
        a, b = _halves(old), _halves(new)
        if operation == "add":
            made = narrow(widen(a) + widen(b))
        else:
            made = _chosen(operation, a, b, widen)
        return made.reshape(-1).view(old.dtype).reshape(np.broadcast_shapes(old.shape, new.shape))

    return combine


def _halves(bits: Array) -> Array:
    return np.ascontiguousarray(bits).reshape(-1).view(U16)


def _chosen(operation: str, a: Array, b: Array, widen: Callable[[Array], Array]) -> Array:
    """One NaN gives way to the other operand; -0 is less than +0."""
    x, y = widen(a), widen(b)
    first = (x < y) | ((x == y) & ((a >> 15) > (b >> 15)))
    if operation == "max":
        first = (x > y) | ((x == y) & ((a >> 15) < (b >> 15)))
    made = np.where((first & ~np.isnan(x)) | np.isnan(y), a, b)
    return np.where(np.isnan(x) & np.isnan(y), NAN_HALF, made)


def _from_f16(bits: Array) -> Array:
    return np.asarray(bits.view(np.float16).astype(F32))


def _to_f16(values: Array) -> Array:
    return np.where(np.isnan(values), NAN_HALF, values.astype(np.float16).view(U16))


def _from_bf16(bits: Array) -> Array:
    return np.asarray((bits.astype(U32) << U32.type(16)).view(F32))


def _to_bf16(values: Array) -> Array:
    bits = values.view(U32)
    rounded = bits + U32.type(0x7FFF) + (bits >> U32.type(16) & U32.type(1))
    return np.asarray(np.where(np.isnan(values), NAN_HALF, (rounded >> U32.type(16)).astype(U16)))


def combination(operation: str, kind: str, *, flushed: bool = False) -> Combine | None:
    """Return what `operation` does to elements of type `kind`; None where PTX has no such form.

    `flushed`: f32 sums as global memory makes them.
    """
    allowed = _ALLOWED.get(operation, "")
    if kind not in allowed.split():
        return None
    match operation, kind:
        case (("and" | "or" | "xor"), _):
            return bitwise(operation)
        case "exch", _:
            return exchange
        case "cas", _:
            return compare_and_swap
        case "inc", _:
            return increment
        case "dec", _:
            return decrement
        case "add", "f32":
            return add_f32_flushed if flushed else add_f32
        case "add", "f64":
            return add_f64
        case _, ("f16" | "f16x2" | "bf16" | "bf16x2"):
            return of_halves(operation, kind)
        case "add", _:
            return np.add
    return extreme(operation, kind[0] == "s")


_HALVES = "f16 f16x2 bf16 bf16x2"
_ALLOWED: dict[str, str] = {
    **dict.fromkeys(("and", "or", "xor"), "b32 b64"),
    "exch": "b32 b64 b128",
    "cas": "b16 b32 b64 b128",
    "add": f"u32 s32 u64 f32 f64 {_HALVES}",
    **dict.fromkeys(("min", "max"), f"u32 s32 u64 s64 {_HALVES}"),
    **dict.fromkeys(("inc", "dec"), "u32"),
}
OPERATIONS: tuple[str, ...] = tuple(_ALLOWED)
