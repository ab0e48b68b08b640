"""What each function computes: in the header, in NumPy, and which wrong outputs are detected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernelrig.model import Function, Pattern
from kernelrig.proc import run_process
from kernelrig.reference.expected import addends_at, expected, recompute
from kernelrig.reference.inputs import bf16_bits, bf16_values, uniform_at

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/inputs/print_functions.cpp"
ROWS, COLUMNS = np.arange(500) * 7, np.arange(500) * 5 % 768
SHAPE = {"n": 768, "k": 768, "rows_per_image": 196}


def outputs(function: Function, pattern: Pattern) -> list[tuple[int, int, int]]:
    wanted = expected(
        ROWS, COLUMNS, pattern=pattern, seed=2, accum_tol=1e-5, function=function, **SHAPE
    )
    return [(int(r), int(c), int(b)) for r, c, b in zip(ROWS, COLUMNS, wanted.bits, strict=True)]


def test_the_header_and_numpy_compute_the_same_bits(tmp_path: Path) -> None:
    printed = run_process([compile_for_host(SOURCE, tmp_path / "print_functions")]).stdout
    indices = np.arange(20000)
    acc = uniform_at("acc", 0, indices, -32.0, 32.0).astype(np.float64)
    lines = []
    for function in Function:
        addends = addends_at(function, Pattern.RANDOM, 5, indices % 196, indices % 768, 768)
        largest = addends.largest_on_the_way(acc).astype(np.float32).view(np.uint32)
        pairs = zip(addends.output(acc), largest, strict=True)
        lines.append(f"{function} " + "".join(f"{o:04x}{bits:08x}" for o, bits in pairs) + "\n")
    lines.append("relative 0.00012207 0.00390625 0\n")  # a product that cancels to 0 is finite
    same = printed == "".join(lines)
    assert same, "pytest would compare a megabyte of hex for minutes"


def test_each_function_by_hand() -> None:
    """acc = 1 + 2^-8 is a tie, the bias 3 * 2^-9 and the table 2^-9 are less than a half of it."""
    one = np.ones(1, np.int64)
    acc = np.array([1.00390625])
    bias, table = (bf16_bits(np.array([x], np.float32)) for x in (0.005859375, 0.001953125))
    found = {}
    for function in Function:
        made = addends_at(function, Pattern.CONSTANT, 0, one, one, 768)
        addends = type(made)(function, bias, table)
        found[function] = float(bf16_values(addends.output(acc))[0])
    assert found == {
        "product": 1.0,  # the tie goes to even
        "round_then_add": 1.0,  # and the table is lost
        "bias_then_add": 1.0078125,  # 1.009765625 is nearer to this one
        "add_then_round": 1.0078125,  # past the tie before the only rounding
    }


def test_the_integer_pattern_is_exact_whatever_the_order() -> None:
    fused = outputs(Function.ROUND_THEN_ADD, Pattern.INTEGER)
    assert outputs(Function.BIAS_THEN_ADD, Pattern.INTEGER) == fused
    assert outputs(Function.ADD_THEN_ROUND, Pattern.INTEGER) == fused
    assert outputs(Function.PRODUCT, Pattern.INTEGER) != fused


def test_the_golden_case_is_the_same_for_all() -> None:
    golden = int(bf16_bits(np.array([1728.0], np.float32))[0])
    for function in Function:
        assert {bits for _, _, bits in outputs(function, Pattern.CONSTANT)} == {golden}


@pytest.mark.parametrize("function", Function)
def test_a_program_is_held_to_its_own_function(function: Function) -> None:
    """A table left out or added is seen; the order of roundings costs an ulp, and is not."""
    for computed in Function:
        wrong = recompute(
            outputs(computed, Pattern.RANDOM),
            pattern=Pattern.RANDOM,
            seed=2,
            accum_tol=1e-5,
            function=function,
            **SHAPE,
        )
        one_has_no_table = (function is Function.PRODUCT) != (computed is Function.PRODUCT)
        assert len(wrong) > 300 if one_has_no_table else not wrong
