"""A wrong output of which the elements are right ones in wrong places is named as what it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernelrig.emu.launch.mismatch_pattern import (
    Numbers,
    Output,
    Pattern,
    pattern_of,
    place_of_wrong,
    product_of,
)

ROWS, COLUMNS, DEPTH = 64, 96, 48
RNG = np.random.default_rng(1)
A = RNG.integers(-4, 5, (ROWS, DEPTH)).astype(np.float64)
B = RNG.integers(-4, 5, (COLUMNS, DEPTH)).astype(np.float64)
ADDED = RNG.integers(-9, 10, (ROWS, COLUMNS)).astype(np.float64)
WANTED = A @ B.T + ADDED
ROW, COLUMN = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None, :]


def output(got: Numbers) -> Output:
    return Output(got, WANTED, got == WANTED, 0.0, 0.0, 2, 2**-8)


def found(got: Numbers) -> Pattern:
    pattern = pattern_of(output(got), product_of({"A": A, "B": B}, WANTED))
    assert pattern is not None
    return pattern


def transposed(n: int) -> Numbers:
    blocks = WANTED.reshape(ROWS // n, n, COLUMNS // n, n)
    return blocks.transpose(0, 3, 2, 1).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (np.zeros_like(WANTED), "the element is 0"),
        (WANTED + 3, "the difference is +3"),
        (np.roll(WANTED, -1, 0), "row r holds the expected row r + 1"),
        (np.roll(WANTED, 2, 1), "column c holds the expected column c - 2"),
        (WANTED[ROW[:, 0] ^ 1], "row r holds the expected row r XOR 1"),
        (WANTED[:, COLUMN[0] ^ 8], "column c holds the expected column c XOR 8"),
        (
            WANTED[ROW, COLUMN ^ (ROW >> 1) % 4 * 8],
            "16-byte units are permuted by the row as 64B swizzle does",
        ),
        (transposed(16), "blocks of 16 x 16 are transposed"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_elements_of_other_places_are_named(got: Numbers, text: str) -> None:
    pattern = found(got)
    assert pattern.text.endswith(f"of them {text}")
    assert pattern.operand == ""


@pytest.mark.parametrize(
    ("got", "text", "operand"),
    [
        (np.roll(A, -1, 0) @ B.T + ADDED, "row r is computed from row r + 1 of A", "A"),
        (A @ np.roll(B, 3, 0).T + ADDED, "column c is computed from row c - 3 of B", "B"),
        (
            A @ B.T + np.roll(ADDED, -1, 0),
            "the product of A and B is right, and row r adds what belongs to row r + 1",
            "",
        ),
    ],
)
def test_rows_of_an_operand_are_named_by_the_product(got: Numbers, text: str, operand: str) -> None:
    pattern = found(got)
    assert pattern.text.endswith(text)
    assert (pattern.operand, bool(pattern.fix)) == (operand, True)


def without(part: slice, sign: int = -1) -> Numbers:
    return WANTED + sign * (A[:, part] @ B[:, part].T)


def later(values: Numbers, by: int) -> Numbers:
    """Each row from `by` on holds the row `by` before it."""
    return np.concatenate([values[:by], values[:-by]])


def test_rows_that_are_rotated_by_the_lanes_of_a_warp_are_named() -> None:
    wanted = RNG.integers(-99, 99, (256, 8)).astype(np.float64)
    got = np.concatenate([np.roll(half, -32, 0) for half in (wanted[:128], wanted[128:])])
    made = Output(got, wanted, got == wanted, 0.0, 0.0, 2, 2**-8)
    pattern = pattern_of(made, None)
    assert pattern is not None
    assert pattern.text.endswith("the rows of each 128 are rotated by 32")


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (without(slice(16, 32)), "the products of K 16 to 31 are missing"),
        (without(slice(40, 48)), "the products of K 40 to 47 are missing"),
        (without(slice(32, 48), 1), "the products of K 32 to 47 are counted twice"),
        (without(slice(0, DEPTH), 1), "the product of A and B is counted twice"),
        (
            A[ROW, np.arange(DEPTH) ^ (ROW >> 2) % 2 * 8] @ B.T + ADDED,
            "16-byte units of A, of 2-byte elements, are permuted along K by the row as 32B"
            " swizzle does",
        ),
        (
            A @ B[COLUMN.T, np.arange(DEPTH) ^ (COLUMN.T >> 1) % 4 * 4].T + ADDED,
            "16-byte units of B, of 4-byte elements, are permuted along K by the row as 64B"
            " swizzle does",
        ),
        (
            A @ B.T + later(ADDED, 21),
            "the product of A and B is right, and row r adds what belongs to row r - 21",
        ),
    ],
)
def test_parts_of_a_product_are_named(got: Numbers, text: str) -> None:
    pattern = found(got)
    assert text in pattern.text
    assert pattern.fix


def test_a_row_of_another_image_is_found_wherever_that_is() -> None:
    assert found(later(WANTED, 19)).text.endswith("row r holds the expected row r - 19")


def test_the_pattern_is_that_of_the_wrong_elements_and_counts_those_that_fit() -> None:
    got = WANTED.copy()
    got[:32] = np.roll(WANTED, -1, 0)[:32]
    got[0, 0] = 10**6
    made = output(got)
    wrong = int((~made.right).sum())
    pattern = pattern_of(made, None)
    assert pattern is not None
    assert pattern.text == f"in {wrong - 1} of them row r holds the expected row r + 1"
    rows = np.array([not right.all() for right in made.right])
    columns = np.array([not right.all() for right in made.right.T])
    assert place_of_wrong(rows, columns) == " in rows 0 to 31"


def test_where_fewer_than_95_percent_fit_nothing_is_said() -> None:
    got = np.roll(WANTED, -1, 0)
    got[:8] = RNG.integers(500, 900, (8, COLUMNS))
    assert pattern_of(output(got), None) is None
    assert pattern_of(output(RNG.permuted(WANTED)), product_of({"A": A, "B": B}, WANTED)) is None


def test_operands_follow_from_shapes_and_from_the_output_or_are_unknown() -> None:
    product = product_of({"A": A, "B": B}, WANTED)
    assert product is not None
    assert (product.rows, product.columns) == ("A", "B")
    assert product_of({"A": A, "B": B, "B2": B.copy()}, WANTED) is None
    assert product_of({"A": A, "B": RNG.permuted(B)}, WANTED) is None
    assert product_of({"A": A[:, :-1], "B": B}, WANTED) is None


def test_rounding_of_a_sum_is_allowed_for_and_no_more() -> None:
    got = (np.roll(A, -1, 0) @ B.T + ADDED) * (1 + 2**-9)
    made = replace(output(got), max_rel=0.0)
    product = product_of({"A": A, "B": B}, WANTED)
    pattern = pattern_of(made, product)
    assert pattern is not None
    assert pattern.operand == "A"
    assert pattern_of(replace(made, got=got * 1.2), product) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_elements_that_are_not_finite_have_no_pattern_and_disturb_none(value: float) -> None:
    wanted = WANTED.copy()
    wanted[3, :] = value
    got = np.roll(wanted, -1, 0)
    right = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    made = replace(output(got), wanted=wanted, right=right)
    pattern = pattern_of(made, product_of({"A": A, "B": B}, wanted))
    assert pattern is not None
    assert pattern.text.endswith("row r holds the expected row r + 1")
    nothing = np.full_like(WANTED, value)
    assert product_of({"A": A, "B": B}, nothing) is None
    assert pattern_of(replace(made, got=nothing, right=nothing == WANTED), None) is None
