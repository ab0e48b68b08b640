"""The expected outputs of a kernel, and the tolerance that rounding allows.

NumPy alone, so that a finished run can be judged without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.model import Function, Pattern
from kernelrig.proc import run_jobs
from kernelrig.reference.inputs import (
    E4M3_VALUES,
    Doubles,
    Floats,
    Indices,
    Words,
    bf16_bits,
    bf16_sum,
    bf16_ulp,
    bf16_values,
    combined_bits,
    operand_codes,
    table_values,
)
from kernelrig.reference.one_thread import one_thread

_ROWS_AT_ONCE = 512
"""Rows of A generated at a time: 512 x 768 hashes and their values fit in a few MB."""


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

    def first_rounded(self, acc: Doubles | Floats) -> Floats:
        """Return the numbers that are rounded to BF16 first."""
        total = acc.astype(np.float32, copy=False)
        if self.function is Function.BIAS_THEN_ADD:
            return total + bf16_values(self.bias)
        if self.function is Function.ADD_THEN_ROUND:
            return total + bf16_values(self.table)
        return total

    def output(self, acc: Doubles | Floats) -> Words:
        first = bf16_bits(self.first_rounded(acc))
        return bf16_sum(first, self.table) if self.rounds_twice else first

    def largest_on_the_way(self, acc: Doubles | Floats) -> Doubles:
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
    """Expected outputs, and how far a correct kernel's may be from them.

    An output is correct within `bound` of `bits`, or between `lowest` and `highest`: the results of
    rounding the two ends of the accumulator's interval, which is +- accum_tol * sum |a b|. The
    second test is needed for an accumulator on a BF16 tie whose sum with the table is a tie again:
    two correct results are then two ulp apart, once in 7e8 outputs. A bound of 0 is bit for bit.
    """

    bits: Words
    bound: Doubles
    lowest: Floats
    highest: Floats

    def wrong(self, got: Words) -> NDArray[np.bool_]:
        """Return which of `got` no correct kernel can compute; a NaN is always wrong."""
        if not self.bound.any():
            return np.asarray(got != self.bits)
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
    a_seed: int | None = None,
) -> Expected:
    """Return C[row, column] for each pair, without ever holding the whole of A.

    `a_seed` is the seed of A alone, where it differs.

    The FP64 sums are exact: products of two E4M3 numbers of our patterns are multiples of 2^-18.
    """
    acc, abs_sum = np.zeros(rows.size), np.zeros(rows.size)
    known, place = np.unique(columns, return_inverse=True)
    b = _operand_lines(pattern, "B", seed, known, k)

    def add(part: Indices, lines: Indices, line_of: Indices) -> None:
        a = _operand_lines(pattern, "A", seed if a_seed is None else a_seed, lines, k)
        products = a[line_of] * b[place[part]]
        acc[part], abs_sum[part] = products.sum(axis=1), np.abs(products).sum(axis=1)

    parts = [partial(add, *some) for some in _by_rows(rows)]
    if len(parts) > 1:  # NumPy computes without the interpreter's lock
        for done in run_jobs(parts):
            done.result()
    elif parts:
        parts[0]()
    addends = addends_at(function, pattern, seed, rows % rows_per_image, columns, n)
    return _of_sums(acc, abs_sum, addends, accum_tol if pattern is Pattern.RANDOM else None)


class OutputRows:
    """The outputs of whole rows, of any number of them: what they have in common is made once.

    Equal to `expected` of each. They are one matrix product: exact sums do not depend on the order
    in which they are added, nor on the format, where it holds them. Those of the exact patterns are
    multiples of 1/4 below 2^22 for `k` up to a million, which FP32 holds.
    """

    def __init__(
        self,
        *,
        pattern: Pattern,
        seed: int,
        accum_tol: float,
        n: int,
        k: int,
        rows_per_image: int,
        function: Function = Function.ROUND_THEN_ADD,
    ) -> None:
        self._pattern, self._seed, self._k = pattern, seed, k
        self._accum_tol = accum_tol if pattern is Pattern.RANDOM else None
        exact_in_fp32 = self._accum_tol is None and k <= 1 << 20
        self._values = E4M3_VALUES.astype(np.float32 if exact_in_fp32 else np.float64)
        self._b = self._lines("B", 0, n).T
        positions, columns = np.divmod(np.arange(rows_per_image * n), n)
        of_image = addends_at(function, pattern, seed, positions, columns, n)
        self._function = function
        self._bias, self._table = of_image.bias.reshape(-1, n), of_image.table.reshape(-1, n)

    def rows(self, first: int, count: int) -> Expected:
        """Return every element of the rows from `first` on, in row-major order."""
        a = self._lines("A", first, count)
        with one_thread():
            acc = (a @ self._b).reshape(-1)
            random = self._accum_tol is not None
            abs_sum = (np.abs(a) @ np.abs(self._b)).reshape(-1) if random else None
        positions = np.arange(first, first + count) % len(self._table)
        addends = Addends(
            self._function, self._bias[positions].reshape(-1), self._table[positions].reshape(-1)
        )
        return _of_sums(acc, abs_sum, addends, self._accum_tol)

    def _lines(self, name: str, first: int, count: int) -> NDArray[Any]:
        indices = np.arange(first * self._k, (first + count) * self._k)
        codes = operand_codes(self._pattern, name, self._seed, indices)
        return self._values.take(codes.reshape(count, self._k))


def _of_sums(
    acc: Doubles | Floats, abs_sum: Doubles | None, addends: Addends, accum_tol: float | None
) -> Expected:
    """Return the allowed outputs for exact sums; without `accum_tol` they must match to the bit."""
    if accum_tol is None or abs_sum is None:
        bits = addends.output(acc)
        values = bf16_values(bits)
        return Expected(bits, np.broadcast_to(np.float64(0.0), bits.shape), values, values)
    slack = accum_tol * abs_sum
    low, bits, high = (addends.output(total) for total in (acc - slack, acc, acc + slack))
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
