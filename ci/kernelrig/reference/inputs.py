"""The inputs and outputs of a kernel, computed again on this machine.

The same bits as kernel/inputs.cuh makes on host and device, by other means: reference and kernels
share that header, and an error in it would be common to both. NumPy alone, so that a finished run
can be judged where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.model import Function, Pattern

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]
Words = NDArray[np.uint16]
Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

_ROWS_AT_ONCE = 512
"""Rows of A generated at a time: 512 x 768 hashes and their values fit in a few MB."""


# --- the hash ------------------------------------------------------------------------------------


def splitmix64(x: Hashes) -> Hashes:
    """Mix each number; all arithmetic is modulo 2^64, which is how NumPy's arrays wrap."""
    x = x + np.uint64(GOLDEN_GAMMA)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fnv1a64(text: str) -> int:
    hashed = 0xCBF29CE484222325
    for byte in text.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & _MASK
    return hashed


def hash_base(name: str, seed: int) -> int:
    """Return the start value of all hashes of the buffer `name` under `seed`."""
    mixed = splitmix64(np.array([seed & _MASK], np.uint64))
    return fnv1a64(name) ^ int(mixed[0])


def hash_at(name: str, seed: int, indices: Indices) -> Hashes:
    """Return h(name, seed, i) for each row-major flat index."""
    steps = indices.astype(np.uint64) * np.uint64(GOLDEN_GAMMA)
    return splitmix64(np.uint64(hash_base(name, seed)) + steps)


def unit_at(name: str, seed: int, indices: Indices) -> Floats:
    """Return u, uniform in [0, 1): the upper 24 bits of the hash, exact in FP32."""
    upper = (hash_at(name, seed, indices) >> np.uint64(40)).astype(np.float32)
    return upper * np.float32(2.0**-24)


def uniform_at(name: str, seed: int, indices: Indices, low: float, high: float) -> Floats:
    """Return low + (high - low) * u, product and sum rounded apart: the fill `hash`."""
    scale = np.float32(np.float32(high) - np.float32(low))
    return np.float32(low) + scale * unit_at(name, seed, indices)


# --- the number formats --------------------------------------------------------------------------


def bf16_bits(values: Floats) -> Words:
    """Round to BF16, nearest even; every NaN becomes the canonical 0x7FFF."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(values), np.uint64(0x7FFF), rounded).astype(np.uint16)


def bf16_values(bits: Words) -> Floats:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bf16_sum(a: Words, b: Words) -> Words:
    """Return a +bf16 b; the sum in FP32 rounds twice without harm (24 >= 2 * 8 + 2 bits)."""
    return bf16_bits(bf16_values(a) + bf16_values(b))


def bf16_ulp(magnitudes: Doubles) -> Doubles:
    """Return the ulp: the distance of neighbouring BF16 numbers at each magnitude."""
    _, exponents = np.frexp(np.maximum(magnitudes, 2.0**-126))
    # frexp's fraction lies in [1/2, 1), and eight significant bits follow from there
    ulp: Doubles = np.ldexp(np.ones_like(magnitudes), exponents - 8)
    return ulp


def _e4m3_table() -> Floats:
    codes = np.arange(128)
    exponents, mantissas = codes >> 3, codes & 7
    subnormal = np.ldexp(mantissas.astype(np.float64), -9)
    normal = np.ldexp(8.0 + mantissas, exponents - 10)
    values = np.where(exponents == 0, subnormal, normal)
    values[127] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


E4M3_VALUES = _e4m3_table()
"""The value of each E4M3 code: 1-4-3, bias 7, no infinity, 448 the largest, 0x7F and 0xFF NaN."""

_MIDPOINTS = (E4M3_VALUES[:126] + E4M3_VALUES[1:127]) / np.float32(2.0)


def e4m3_codes(values: Floats) -> Codes:
    """Round to E4M3, nearest even, saturating at 448."""
    magnitudes = np.abs(values)
    codes = np.searchsorted(_MIDPOINTS, magnitudes)
    # On a midpoint the search stops below it: right where that code is even.
    tie = _MIDPOINTS[np.minimum(codes, 125)] == magnitudes
    codes = codes + (tie & (codes % 2 == 1) & (codes < 126))
    codes = np.where(np.isnan(values), 127, codes)
    return (codes | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


# --- the patterns --------------------------------------------------------------------------------


def operand_codes(pattern: Pattern, name: str, seed: int, indices: Indices) -> Codes:
    """Return the E4M3 codes of elements of A or B."""
    if pattern is Pattern.CONSTANT:
        return e4m3_codes(np.full(indices.shape, 1.5, np.float32))
    if pattern is Pattern.INTEGER:
        thirds = uniform_at(name, seed, indices, 0.0, 3.0)
        return e4m3_codes(np.floor(thirds) - np.float32(1.0))
    return e4m3_codes(uniform_at(name, seed, indices, -2.0, 2.0))


def table_values(pattern: Pattern, name: str, seed: int, indices: Indices) -> Floats:
    """Return elements of bias or pos_embed, before their sum is rounded to BF16."""
    if pattern is Pattern.CONSTANT:
        return np.zeros(indices.shape, np.float32)
    if pattern is Pattern.INTEGER:
        return np.floor(uniform_at(name, seed, indices, 0.0, 17.0)) - np.float32(8.0)
    return uniform_at(name, seed, indices, -1.0, 1.0)


def combined_bits(
    pattern: Pattern, seed: int, positions: Indices, columns: Indices, n: int
) -> Words:
    """Return comb = bf16(bias[column] + pos_embed[position, column]), element by element."""
    bias = table_values(pattern, "bias", seed, columns)
    pos = table_values(pattern, "pos_embed", seed, positions * n + columns)
    return bf16_bits(bias + pos)


# --- the functions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Addends:
    """The epilogue operands of some outputs, added as `function` says (kernel/function.cuh)."""

    function: Function
    bias: Words
    table: Words

    @property
    def rounds_twice(self) -> bool:
        """Whether the table is added to a rounded number, and the sum rounded again."""
        return self.function in (Function.ROUND_THEN_ADD, Function.BIAS_THEN_ADD)

    def first_rounded(self, acc: Doubles) -> Floats:
        """Return the numbers that are rounded to BF16 first."""
        total = acc.astype(np.float32)
        if self.function is Function.BIAS_THEN_ADD:
            return total + bf16_values(self.bias)
        if self.function is Function.ADD_THEN_ROUND:
            return total + bf16_values(self.table)
        return total

    def output(self, acc: Doubles) -> Words:
        first = bf16_bits(self.first_rounded(acc))
        return bf16_sum(first, self.table) if self.rounds_twice else first

    def largest_on_the_way(self, acc: Doubles) -> Doubles:
        """Return the largest number that is rounded, or added between two roundings."""
        first, output = self.first_rounded(acc), bf16_values(self.output(acc))
        added = bf16_values(self.table) if self.rounds_twice else np.zeros_like(output)
        largest = np.maximum(np.abs(first), np.maximum(np.abs(added), np.abs(output)))
        return largest.astype(np.float64)


def addends_at(
    function: Function, pattern: Pattern, seed: int, positions: Indices, columns: Indices, n: int
) -> Addends:
    bias = bf16_bits(table_values(pattern, "bias", seed, columns))
    if function is Function.BIAS_THEN_ADD:
        table = bf16_bits(table_values(pattern, "pos_embed", seed, positions * n + columns))
    else:
        table = combined_bits(pattern, seed, positions, columns, n)
    return Addends(function, bias, table)


# --- the outputs ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected outputs, and the interval that a correct kernel may differ by.

    Right is within `bound` of `bits`, or from `lowest` to `highest`: where the roundings of an
    accumulator within accum_tol * sum |a b| can land. The latter is for an accumulator on a BF16
    tie whose sum with the table is a tie again: two ulp apart and both right, once in 7e8 outputs.
    A bound of 0 means bit for bit.
    """

    bits: Words
    bound: Doubles
    lowest: Floats
    highest: Floats

    def wrong(self, got: Words) -> NDArray[np.bool_]:
        """Return which of `got` no correct kernel can compute; NaN is always among them."""
        value = bf16_values(got)
        with np.errstate(invalid="ignore"):
            error = np.abs(value.astype(np.float64) - bf16_values(self.bits))
            near = (error <= self.bound) | ((self.lowest <= value) & (value <= self.highest))
        return np.where(self.bound == 0.0, got != self.bits, ~near)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One output that differs from the reference."""

    row: int
    column: int
    got: float
    wanted: float
    bound: float

    def __str__(self) -> str:
        wanted = f"{self.wanted:g} +- {self.bound:.4g}" if self.bound else f"{self.wanted:g}"
        return f"row {self.row}, column {self.column}: got {self.got:g}, wanted {wanted}"


def expected(
    rows: Indices,
    columns: Indices,
    *,
    pattern: Pattern,
    seed: int,
    accum_tol: float,
    n: int,
    k: int,
    rows_per_image: int,
    function: Function = Function.ROUND_THEN_ADD,
) -> Expected:
    """Return C[row, column] for each pair, without ever holding the whole of A.

    The sums are exact: products of two E4M3 numbers of ours are multiples of 2^-18, in FP64.
    """
    acc, abs_sum = np.zeros(rows.size), np.zeros(rows.size)
    known, place = np.unique(columns, return_inverse=True)
    b = _operand_lines(pattern, "B", seed, known, k)
    for part, lines, line_of in _by_rows(rows):
        a = _operand_lines(pattern, "A", seed, lines, k)
        products = a[line_of] * b[place[part]]
        acc[part], abs_sum[part] = products.sum(axis=1), np.abs(products).sum(axis=1)
    addends = addends_at(function, pattern, seed, rows % rows_per_image, columns, n)
    return _of_sums(acc, abs_sum, addends, accum_tol if pattern is Pattern.RANDOM else None)


def expected_outputs(
    row_count: int,
    *,
    pattern: Pattern,
    seed: int,
    accum_tol: float,
    n: int,
    k: int,
    rows_per_image: int,
    function: Function = Function.ROUND_THEN_ADD,
) -> Expected:
    """Return every element of the first `row_count` rows, in row-major order.

    The same as `expected` says of each, by a matrix product: sums that are exact know no order.
    """
    a = _operand_lines(pattern, "A", seed, np.arange(row_count), k)
    b = _operand_lines(pattern, "B", seed, np.arange(n), k)
    acc, abs_sum = (a @ b.T).ravel(), (np.abs(a) @ np.abs(b).T).ravel()
    rows, columns = np.divmod(np.arange(row_count * n), n)
    addends = addends_at(function, pattern, seed, rows % rows_per_image, columns, n)
    return _of_sums(acc, abs_sum, addends, accum_tol if pattern is Pattern.RANDOM else None)


def _of_sums(acc: Doubles, abs_sum: Doubles, addends: Addends, accum_tol: float | None) -> Expected:
    """Return the allowed outputs for exact sums; without `accum_tol` they must match to the bit."""
    slack = np.zeros(acc.size) if accum_tol is None else accum_tol * abs_sum
    low, bits, high = (addends.output(total) for total in (acc - slack, acc, acc + slack))
    bound = np.zeros(acc.size)
    if accum_tol is not None:
        bound = bf16_ulp(addends.largest_on_the_way(acc)) + slack
    return Expected(bits, bound, bf16_values(low), bf16_values(high))


def recompute(
    sampled: Sequence[tuple[int, int, int]],
    *,
    pattern: Pattern,
    seed: int,
    accum_tol: float,
    n: int,
    k: int,
    rows_per_image: int,
    function: Function = Function.ROUND_THEN_ADD,
) -> list[Disagreement]:
    """Return each of the `(row, column, BF16 bits)` that differs from the reference."""
    places = np.array([(row, column) for row, column, _ in sampled], np.int64).reshape(-1, 2)
    got_bits = np.array([bits for _, _, bits in sampled], np.uint16)
    wanted = expected(
        places[:, 0],
        places[:, 1],
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=n,
        k=k,
        rows_per_image=rows_per_image,
        function=function,
    )
    got, value = bf16_values(got_bits), bf16_values(wanted.bits)
    return [
        Disagreement(
            int(places[i, 0]),
            int(places[i, 1]),
            float(got[i]),
            float(value[i]),
            float(wanted.bound[i]),
        )
        for i in np.flatnonzero(wanted.wrong(got_bits))
    ]


def _operand_lines(pattern: Pattern, name: str, seed: int, lines: Indices, k: int) -> Doubles:
    indices = lines[:, None] * k + np.arange(k)
    return E4M3_VALUES[operand_codes(pattern, name, seed, indices)].astype(np.float64)


def _by_rows(rows: Indices) -> Iterator[tuple[Indices, Indices, Indices]]:
    """Yield, for some rows at a time: the pairs in them, the rows, and each pair's place there."""
    order = np.argsort(rows, kind="stable")
    lines, starts = np.unique(rows[order], return_index=True)
    ends = np.append(starts, rows.size)
    for first in range(0, lines.size, _ROWS_AT_ONCE):
        some = lines[first : first + _ROWS_AT_ONCE]
        part = order[starts[first] : ends[first + some.size]]
        yield part, some, np.searchsorted(some, rows[part])
