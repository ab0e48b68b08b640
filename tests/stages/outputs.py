"""What a right kernel writes, by one more implementation of the inputs: NumPy, whole arrays.

A small shape keeps it quick: N = 64, K = 32, images of 4 rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS_PER_IMAGE, N, K = 4, 64, 32

_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + _STEP
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_at(name: str, seed: int, count: int) -> NDArray[np.uint64]:
    base = 0xCBF29CE484222325
    for byte in name.encode():
        base = ((base ^ byte) * 0x100000001B3) % 2**64
    start = np.array([base], np.uint64) ^ _mix(np.array([seed], np.uint64))
    return _mix(start + np.arange(count, dtype=np.uint64) * _STEP)


def _uniform(name: str, seed: int, *shape: int) -> NDArray[np.float64]:
    bits = hash_at(name, seed, int(np.prod(shape)))
    return ((bits >> np.uint64(40)).astype(np.float64) * 2.0**-24).reshape(shape)


def _e4m3(x: NDArray[np.float64]) -> NDArray[np.float64]:
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-20))), -6)
    step = 2.0 ** (exponent - 3)
    return np.asarray(np.rint(x / step) * step)


def _bf16(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return (_bits(x).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _bits(x: NDArray[np.float64]) -> NDArray[np.uint16]:
    raw = x.astype(np.float32).view(np.uint32)
    even = (raw >> np.uint32(16)) & np.uint32(1)
    return ((raw + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)


@cache
def right_bits(
    pattern: str, seed: int, images: int, *, k: int = K, a_seed: int | None = None
) -> NDArray[np.uint16]:
    """Return C as BF16 bits, rows x N; `a_seed` is that of A, where it is another."""
    m = images * ROWS_PER_IMAGE
    if pattern == "constant":
        a, b = np.full((m, k), 1.5), np.full((N, k), 1.5)
        bias, table = np.zeros(N), np.zeros((ROWS_PER_IMAGE, N))
    else:
        a_seed = seed if a_seed is None else a_seed
        a, b = _uniform("A", a_seed, m, k), _uniform("B", seed, N, k)
        bias, table = _uniform("bias", seed, N), _uniform("pos_embed", seed, ROWS_PER_IMAGE, N)
        if pattern == "integer":
            a, b = np.floor(3 * a) - 1, np.floor(3 * b) - 1
            bias, table = np.floor(17 * bias) - 8, np.floor(17 * table) - 8
        else:
            a, b = _e4m3(4 * a - 2), _e4m3(4 * b - 2)
            bias, table = 2 * bias - 1, 2 * table - 1
    comb = _bf16(np.tile(bias + table, (images, 1)))
    return _bits(_bf16(a @ b.T) + comb)


def checksum(pattern: str, seed: int, images: int, *, k: int = K) -> float:
    """Return the sum of the first 1024 elements, as a result file's `checksum` has it."""
    bits = right_bits(pattern, seed, images, k=k).ravel()[:1024]
    return float(
        (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64).sum()
    )


def sampled(pattern: str, seed: int, images: int, *, k: int = K) -> list[list[int]]:
    """Return every element as a result file's `sampled` has them."""
    bits = right_bits(pattern, seed, images, k=k)
    rows, columns = bits.shape
    return [[r, c, int(bits[r, c])] for r in range(rows) for c in range(columns)]


def spot_checks(seed: int, samples: int, sets: int, images: int) -> list[dict[str, Any]]:
    """Return what a right kernel leaves of the launches that are spot-checked."""
    outputs = images * ROWS_PER_IMAGE * N
    found = []
    for sample in _drawn("spot samples", seed, 0, min(16, samples - 1), samples - 1):
        places = _drawn("spot places", seed, sample * 256, min(256, outputs), outputs)
        a_seed = int(hash_at("spot rows", seed, sample + 1)[sample]) >> 16
        used = sample % sets
        right = right_bits("random", seed + used, images, a_seed=a_seed).ravel()
        bits = [int(right[p]) for p in places]
        found.append({"sample": sample, "set": used, "bits": bits})
    return found


def _drawn(name: str, seed: int, first: int, count: int, extent: int) -> list[int]:
    """Return one number of each of `count` parts of [0, extent): the first `rest` have one more."""
    hashes = hash_at(name, seed, first + count)[first:]
    numbers, begin = [], 0
    for part, drawn in enumerate(map(int, hashes)):
        size = extent // count + (part < extent % count)
        numbers.append(begin + drawn % size)
        begin += size
    return numbers
