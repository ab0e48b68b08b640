"""Expressions in a project's files: arithmetic over the tunables, conditions over metrics."""

from __future__ import annotations

import re

import pytest
from kernelrig.config.expression import (
    Kind,
    evaluate,
    parse,
    parse_condition,
    parse_number,
)
from kernelrig.errors import ConfigError, ProtocolError

TUNABLES = {"K_LOOP_UNROLL": 3, "BLOCK_N": 128}
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
METRICS = {
    DRAM: 82.5,
    "launch__registers_per_thread": 168.0,
    "sectors.sum": 0.0,
    "nan": float("nan"),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("24", 24),
        ("4 * K_LOOP_UNROLL", 12),
        ("-(BLOCK_N // 100) + 7 % 4", 2),
        ("2 - 3 - 4", -5),
        ("24 if K_LOOP_UNROLL == 6 else 4 * K_LOOP_UNROLL", 12),
        ("1 if K_LOOP_UNROLL else 2 if BLOCK_N else 3", 1),
        ("(BLOCK_N < 256) + (BLOCK_N >= 128)", 2),
    ],
)
def test_arithmetic_over_the_tunables(text: str, wanted: int) -> None:
    assert evaluate(text, TUNABLES) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4 * K_LOOP", "no tunable is called 'K_LOOP'; tunables: K_LOOP_UNROLL, BLOCK_N"),
        ("4 *", "a number or a name is missing at character 4 of '4 *'; allowed: whole numbers, "),
        ("", "a number or a name is missing at character 1 of ''; "),
        ("\0", "'\0' is not allowed at character 1 of '\0'; "),
        ("BLOCK_N // 0", "'BLOCK_N // 0' divides by zero"),
        ("2 ** 99999999", "'**' is not expected at character 3 of '2 ** 99999999'; "),
        ("BLOCK_N / 2", "'/' is not allowed at character 9 of 'BLOCK_N / 2'; "),
        ("1.5", "'1.5' is not allowed at character 1 of '1.5'; "),
        ("True", "no tunable is called 'True'; tunables: K_LOOP_UNROLL, BLOCK_N"),
        ("__import__('os')", "''os')' is not allowed at character 12 of '__import__('os')'; "),
        ("max(1, 2)", "there is no function 'max' at character 1 of 'max(1, 2)'; "),
        ("1 < 2 < 3", "two comparisons in a row: join them with `and` at character 7 of "),
        ("1 < 2 and 2", "'and' is not expected at character 7 of '1 < 2 and 2'; "),
        ("(" * 300, "an expression of 300 characters; at most 200"),
        ("(" * 150, "it is nested more than 40 deep at character 41 of '((((("),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate(text, TUNABLES)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{DRAM} > 80", True),
        (f"{DRAM} > 80 and launch__registers_per_thread < 100", False),
        (f"not {DRAM} > 90 or launch__registers_per_thread / 0 > 1", True),
        ("not not 1 == 1", True),
        ("1 > 2 or 2 > 1 and 1 > 2", False),
        ("(1 > 2 or 2 > 1) and not (1 > 2)", True),
        ("sectors.sum > 0 and 4 / sectors.sum > 1", False),
        ("max(1, min(5, 2.5e0)) == 2.5", True),
        ("(1 if 2 > 1 else 3) - -4 * 0.5 >= 3", True),
    ],
)
def test_conditions_over_metrics(text: str, wanted: bool) -> None:
    assert parse_condition(text).evaluate(METRICS) is wanted


def test_a_number_over_metrics() -> None:
    expression = parse_number(f"100 - {DRAM} / 2 + 0 * {DRAM}")
    assert expression.evaluate(METRICS) == 58.75
    assert expression.names == (DRAM,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("waves > 1", "there is no number for 'waves', which 'waves > 1' needs"),
        ("1 > 2 or waves > 1", "there is no number for 'waves', which "),
        ("waves > 1 or 1 > 0", "there is no number for 'waves', which "),
        ("1 if 2 > 1 and waves > 1 else 2", "there is no number for 'waves', which "),
        ("nan > 1", "there is no number for 'nan', which 'nan > 1' needs"),
        ("4 / sectors.sum > 1", "'4 / sectors.sum > 1' divides by zero"),
    ],
)
def test_what_was_not_measured_decides_nothing(text: str, said: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(text).evaluate(METRICS)
    assert str(caught.value).startswith(said)


def test_a_value_is_needed_only_where_the_rest_does_not_decide() -> None:
    guarded = parse_condition("sectors.sum > 0 and nan > 1")
    assert guarded.evaluate(METRICS) is False
    assert guarded.missing(METRICS) == ("nan",)
    assert parse_number("2 if sectors.sum == 0 else nan").evaluate(METRICS) == 2


def test_a_number_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"is inf, which is no number"):
        parse("1e308 * 10").evaluate({})
    with pytest.raises(ConfigError, match="'1e999' is too large"):
        parse("1e999")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DRAM, f"'{DRAM}' is a number, not true or false; compare with something, as in `x > 10`"),
        ("a > 1 and b", "'and' needs true or false, not a number, at character 7 of "),
        ("(a > 1) + 1 > 0", "'+' needs a number, not true or false, at character 9 of "),
        ("not a", "'not' needs true or false, not a number, at character 1 of "),
        ("a > 30%", "'%' is not allowed at character 7 of 'a > 30%'; allowed: numbers, names of "),
        ("a = 3", "'=' is not allowed at character 3"),
        ("a.b. > 1", "'.' is not allowed at character 4"),
        ("a > 1 if 2 else 3 > 1", "'if' needs true or false, not a number, at"),
        ("1 > 0 if a > 1 else 2", "'else' needs true or false, not a number, at"),
        ("abs(a) > 1", "there is no function 'abs' at character 1 of 'abs(a) > 1'; "),
        ("max(a, b, c) > 1", "max takes two numbers, not 3, at character 1 of "),
        ("a.__class__(1) > 1", "there is no function 'a.__class__' at character 1 of "),
        ("a[0] > 1", "'[0]' is not allowed at character 2 of "),
        ("lambda: 1", "':' is not allowed at character 7 of "),
        ("1_000 > a", "'1_000' is not allowed at character 1 of "),
        ("1and 2", "'1and' is not allowed at character 1 of "),
        ("a > 1 b", "'b' is not expected at character 7 of 'a > 1 b'; "),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}"):
        parse_condition(text)


@pytest.mark.parametrize("text", ["-" * 1998 + "1", "not " * 400 + "1 > 0", "0+" * 999 + "1"])
def test_a_long_row_of_operators_is_read_without_recursion(text: str) -> None:
    assert parse(text).evaluate({}) == 1.0


def test_a_condition_is_not_a_number() -> None:
    with pytest.raises(ConfigError, match="'a > 1' is true or false, not a number; write `1 if"):
        parse_number("a > 1")
    assert parse("a > 1").kind is Kind.TRUTH
