"""Whether a wrong output holds right numbers in wrong places: shifted, swapped, transposed.

Each hypothesis predicts what the wrong elements are. It is reported where it holds for at least 95%
of them, with the count. They are tried on a sample first, so that the cost is bounded.

An output that is the product of two inputs, plus something, is predicted in parts: the product of
another row of either operand, or what is added (a bias, a table) from another row. Which operand
has the output's rows and which its columns follows from the shapes: C[M, N] = A[M, K] x B[N, K]^T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

SHARE = 0.95
"""Of the wrong elements, that must fit."""
_SAMPLE = 4096
_GLANCE = 128
"""Wrong elements that most hypotheses are dropped by."""
_MOST_PRODUCTS = 1 << 33
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)
_SHIFTS = tuple(sign * step for step in _STEPS for sign in (1, -1))
_BLOCKS = (8, 16, 32, 64, 128)
_LANES = 128
"""Rows of tensor memory; a warp has a quarter of them."""
_K_STEPS = (8, 16, 32, 64, 128)
_MOST_K_STEPS = 1024
_MOST_SEARCHED = 1 << 26
_BITS = tuple(1 << n for n in range(9))
_SWIZZLES = (("128B", 0, 8), ("64B", 1, 4), ("32B", 2, 2))
"""Name, and that unit u of row r is at u ^ (r >> shift) % units."""

Numbers = NDArray[np.float64]
Index = NDArray[np.intp]
Move = Callable[[Index, Index], tuple[Index, Index]]
"""Rows and columns of wrong elements -> those of the elements that they hold instead."""
Predict = Callable[[Index, Index], Numbers]


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two inputs: `rows` names the one with the output's rows, `columns` the other.

    `values` has the shape of the output; `a` and `b` are the two inputs, a line a row or column of
    it.
    """

    rows: str
    columns: str
    values: Numbers
    a: Numbers
    b: Numbers


@dataclass(frozen=True, slots=True)
class Output:
    """An output: what it holds, what it should, how far apart right elements are at most.

    `bytes_each` is the size of an element, `epsilon` its relative rounding error.
    """

    got: Numbers
    wanted: Numbers
    right: NDArray[np.bool_]
    max_abs: float
    max_rel: float
    bytes_each: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """What most wrong elements are, in words.

    `operand` names the input of which other rows were used, "" where it is none or unknown.
    """

    text: str
    operand: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """`predict` gives the elements at some rows and columns; `rounded`: it adds rounded numbers."""

    text: str
    predict: Predict
    fix: str = ""
    operand: str = ""
    rounded: bool = False


def product_of(inputs: Mapping[str, Numbers], wanted: Numbers) -> Product | None:
    """Return the product that `wanted` has as a part, where exactly one pair of inputs has it."""
    finite = np.isfinite(wanted)
    if wanted.ndim != 2 or not finite.any():
        return None
    found = []
    for a, b in permutations(inputs, 2):
        rows, columns = inputs[a], inputs[b]
        if rows.ndim != 2 or columns.ndim != 2 or rows.shape[1] != columns.shape[1]:
            continue
        if (rows.shape[0], columns.shape[0]) != wanted.shape:
            continue
        if wanted.size * rows.shape[1] > _MOST_PRODUCTS:
            continue
        with np.errstate(all="ignore"):
            values = (rows.astype(np.float32) @ columns.astype(np.float32).T).astype(np.float64)
        # If it is a part of the output, what is left without it varies less.
        if not np.isfinite(values).all():
            continue
        left = wanted[finite] - values[finite]
        if np.var(left) < 0.5 * np.var(wanted[finite]):
            found.append(Product(a, b, values, rows, columns))
    return found[0] if len(found) == 1 else None


def place_of_wrong(rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> str:
    """Return ` in rows 0 to 127, columns 64 to 127` where all wrong elements are in such a part.

    `rows` and `columns` say of each whether it holds a wrong element.
    """
    parts = []
    for name, lines in (("row", rows), ("column", columns)):
        at = np.flatnonzero(lines)
        low, high = int(at[0]), int(at[-1])
        if high - low + 1 < len(lines):
            parts.append(f"{name} {low}" if low == high else f"{name}s {low} to {high}")
    return f" in {', '.join(parts)}" if parts else ""


def pattern_of(output: Output, product: Product | None) -> Pattern | None:
    """Return what most of the wrong elements are; None where no hypothesis holds."""
    if output.got.ndim != 2:
        return None
    rows, columns = np.nonzero(~output.right)
    rng = np.random.default_rng(0)
    some = rng.permutation(len(rows))[:_SAMPLE]
    few = some[:_GLANCE]
    most, best = 0, None
    for tried in _hypotheses(output, product):
        if _fits(output, tried, rows[few], columns[few]) < SHARE * 0.85 * len(few):
            continue
        if _fits(output, tried, rows[some], columns[some]) < SHARE * 0.95 * len(some):
            continue
        if (count := _fits(output, tried, rows, columns)) > most:
            most, best = count, tried
    if best is None or most < SHARE * len(rows):
        return None
    of = "all of them" if most == len(rows) else f"{most} of them"
    return Pattern(f"in {of} {best.text}", best.operand, best.fix)


def _fits(output: Output, tried: _Hypothesis, rows: Index, columns: Index) -> int:
    with np.errstate(invalid="ignore"):
        predicted, got = tried.predict(rows, columns), output.got[rows, columns]
        bound = output.max_abs + output.max_rel * np.abs(predicted)
        if tried.rounded:
            bound = bound + 2 * output.epsilon * np.abs(predicted)
        return int(((np.abs(got - predicted) <= bound) | (got == predicted)).sum())


def _hypotheses(output: Output, product: Product | None) -> Iterator[_Hypothesis]:
    wanted = output.wanted
    yield _Hypothesis("the element is 0", _plus(np.zeros((1, 1)), lambda r, c: (r * 0, c * 0)))
    if (constant := _constant(output)) is not None:
        text = f"the difference is {constant:+g}"
        yield _Hypothesis(text, _plus(wanted, _moved(0, 0), constant))
    for by in _shifts(output, wanted):
        text = f"row r holds the expected row r {_sign(by)}"
        yield _Hypothesis(text, _plus(wanted, _moved(by, 0)))
        text = f"column c holds the expected column c {_sign(by)}"
        yield _Hypothesis(text, _plus(wanted, _moved(0, by)))
    yield from _exchanges(output)
    if product is not None:
        yield from _of_product(product, wanted, output)
        yield from _of_steps(product, wanted)
        yield from _of_units(product, wanted)


def _constant(output: Output) -> float | None:
    """Return the most frequent difference of the wrong elements."""
    wrong = ~output.right & np.isfinite(output.got) & np.isfinite(output.wanted)
    difference = output.got[wrong] - output.wanted[wrong]
    values, counts = np.unique(difference, return_counts=True)
    return float(values[counts.argmax()]) if len(values) else None


def _exchanges(output: Output) -> Iterator[_Hypothesis]:
    """Yield hypotheses of elements that changed places: by XOR, a swizzle, a transposition."""
    wanted, unit = output.wanted, max(16 // output.bytes_each, 1)
    for bit in _BITS:
        text = f"row r holds the expected row r XOR {bit}"
        yield _Hypothesis(text, _plus(wanted, _exchanged(bit, 0)))
        text = f"column c holds the expected column c XOR {bit}"
        yield _Hypothesis(text, _plus(wanted, _exchanged(0, bit)))
    for span, shift, units in _SWIZZLES:
        yield _Hypothesis(
            f"16-byte units are permuted by the row as {span} swizzle does",
            _plus(wanted, _swizzled(shift, units, unit)),
            fix="write shared memory with the swizzle that the tensor map or descriptor has",
        )
    for lanes in range(32, _LANES, 32):
        text = f"the rows of each {_LANES} are rotated by {lanes}"
        fix = "give each warp the lanes of tensor memory of its quarter: (warp % 4) << 21"
        yield _Hypothesis(text, _plus(wanted, _rotated(lanes)), fix=fix)
    for n in _BLOCKS:
        text = f"blocks of {n} x {n} are transposed"
        yield _Hypothesis(text, _plus(wanted, _transposed(n)))


def _shifts(output: Output, wanted: Numbers, less: Numbers | None = None) -> tuple[int, ...]:
    """Return the usual shifts of rows, and the one by which a row of wrong elements is found.

    `less` is taken from what is there: what is left of it is to be a row of `wanted`.
    """
    if wanted.size > _MOST_SEARCHED:
        return _SHIFTS
    row = int((~output.right).sum(1).argmax())
    columns = np.flatnonzero(~output.right[row])[:_SAMPLE]
    here = output.got[row, columns] - (0 if less is None else less[row, columns])
    with np.errstate(invalid="ignore"):
        near = output.max_abs + 2 * output.epsilon * np.abs(output.got[row, columns])
        fits = (np.abs(wanted[:, columns] - here) <= near).mean(1)
    by = int(fits.argmax()) - row
    return (*_SHIFTS, by) if by and fits.max() >= SHARE and by not in _SHIFTS else _SHIFTS


def _of_steps(product: Product, wanted: Numbers) -> Iterator[_Hypothesis]:
    """Yield hypotheses of a part of K that is missing or counted twice, and of all of it."""
    depth = product.a.shape[1]
    yield _Hypothesis(
        f"the product of {product.rows} and {product.columns} is counted twice",
        _sum(_plus(wanted, _moved(0, 0)), _plus(product.values, _moved(0, 0))),
        fix="let the first product of a tile not add to the accumulator",
        rounded=True,
    )
    for step in _K_STEPS:
        if step >= depth or depth // step > _MOST_K_STEPS:
            continue
        for first in range(0, depth, step):
            for sign, what in ((-1, "are missing"), (1, "are counted twice")):
                yield _Hypothesis(
                    f"the products of K {first} to {min(first + step, depth) - 1} {what}",
                    _with_part(product, wanted, slice(first, first + step), sign),
                    fix="check the count of K steps, and the descriptors and stage of that one",
                    rounded=True,
                )


def _with_part(product: Product, wanted: Numbers, part: slice, sign: int) -> Predict:
    a, b = product.a[:, part], product.b[:, part]

    def predict(rows: Index, columns: Index) -> Numbers:
        products: Numbers = np.einsum("nk,nk->n", a[rows], b[columns])
        return wanted[rows, columns] + sign * products

    return predict


def _of_units(product: Product, wanted: Numbers) -> Iterator[_Hypothesis]:
    """Yield hypotheses of an operand whose 16-byte units another swizzle permutes along K."""
    depth = product.a.shape[1]
    added = wanted - product.values
    for span, shift, units in _SWIZZLES:
        for unit in (16, 8, 4):  # elements of 1, 2 and 4 bytes
            if depth % (units * unit):
                continue
            for name, of_rows in ((product.rows, True), (product.columns, False)):
                yield _Hypothesis(
                    f"16-byte units of {name}, of {16 // unit}-byte elements, are permuted along K"
                    f" by the row as {span} swizzle does",
                    _permuted(product, added, (shift, units, unit), of_rows=of_rows),
                    fix=f"read {name} with the swizzle that it was written with",
                    operand=name,
                    rounded=True,
                )


def _permuted(
    product: Product, added: Numbers, swizzle: tuple[int, int, int], *, of_rows: bool
) -> Predict:
    shift, units, unit = swizzle
    one, other = (product.a, product.b) if of_rows else (product.b, product.a)
    along = np.arange(one.shape[1])

    def predict(rows: Index, columns: Index) -> Numbers:
        lines, against = (rows, columns) if of_rows else (columns, rows)
        at = along ^ ((lines >> shift) % units * unit)[:, None]
        products: Numbers = np.einsum("nk,nk->n", one[lines[:, None], at], other[against])
        return products + added[rows, columns]

    return predict


def _of_product(product: Product, wanted: Numbers, output: Output) -> Iterator[_Hypothesis]:
    """Yield hypotheses of another row of an operand, or of another row of what is added.

    Rows of an operand beyond its end are zero: so a tensor map fills them.
    """
    values, added, here = product.values, wanted - product.values, _moved(0, 0)
    for by in _shifts(output, added, values):
        for name, line, move in (
            (product.rows, "row r", _moved(by, 0)),
            (product.columns, "column c", _moved(0, by)),
        ):
            yield _Hypothesis(
                f"{line} is computed from row {line[-1]} {_sign(by)} of {name}",
                _sum(_plus(values, move, outside=0), _plus(added, here)),
                fix=f"check the row at which {name} is loaded, and where its descriptors start",
                operand=name,
                rounded=True,
            )
            yield _Hypothesis(
                f"the product of {product.rows} and {product.columns} is right, and {line} adds"
                f" what belongs to {line} {_sign(by)}",
                _sum(_plus(values, here), _plus(added, move)),
                fix="correct the index into what is added to the product",
                rounded=True,
            )


def _moved(down: int, across: int) -> Move:
    return lambda rows, columns: (rows + down, columns + across)


def _rotated(lanes: int) -> Move:
    return lambda rows, columns: (
        rows // _LANES * _LANES + (rows % _LANES + lanes) % _LANES,
        columns,
    )


def _exchanged(down: int, across: int) -> Move:
    return lambda rows, columns: (rows ^ down, columns ^ across)


def _swizzled(shift: int, units: int, unit: int) -> Move:
    return lambda rows, columns: (rows, columns ^ (((rows >> shift) % units) * unit))


def _transposed(n: int) -> Move:
    return lambda rows, columns: (rows // n * n + columns % n, columns // n * n + rows % n)


def _plus(values: Numbers, move: Move, constant: float = 0.0, outside: float = np.nan) -> Predict:
    return lambda rows, columns: _at(values, *move(rows, columns), outside) + constant


def _sum(one: Predict, other: Predict) -> Predict:
    return lambda rows, columns: one(rows, columns) + other(rows, columns)


def _at(values: Numbers, rows: Index, columns: Index, outside: float) -> Numbers:
    """Return elements of `values`; `outside` where there is none."""
    height, width = values.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    found = values[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.where(inside, found, outside)


def _sign(by: int) -> str:
    return f"{'+' if by > 0 else '-'} {abs(by)}"
