"""Counts in kernels.yaml are arithmetic over the tunables, and nothing else."""

from __future__ import annotations

import pytest
from kernelrig.config.expression import evaluate
from kernelrig.errors import ConfigError

VALUES = {"K_LOOP_UNROLL": 3, "BLOCK_N": 128}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("24", 24),
        ("4 * K_LOOP_UNROLL", 12),
        ("-(BLOCK_N // 100) + 7 % 4", 2),
        ("24 if K_LOOP_UNROLL == 6 else 4 * K_LOOP_UNROLL", 12),
        ("(BLOCK_N < 256) + (BLOCK_N >= 128)", 2),
    ],
)
def test_arithmetic_over_the_tunables(text: str, wanted: int) -> None:
    assert evaluate(text, VALUES) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4 * K_LOOP", "no tunable is called 'K_LOOP'; tunables: K_LOOP_UNROLL, BLOCK_N"),
        ("4 *", "'4 *' is not an expression; "),
        ("", "'' is not an expression; "),
        ("\0", "'\0' is not an expression; "),
        ("BLOCK_N // 0", "'BLOCK_N // 0' divides by zero"),
        ("2 ** 99999999", "'2 ** 99999999' is not allowed here; "),
        ("BLOCK_N / 2", "'BLOCK_N / 2' is not allowed here; "),
        ("1.5", "'1.5' is not allowed here; "),
        ("True", "'True' is not allowed here; "),
        ("__import__('os').system('x')", "'__import__('os').system('x')' is not allowed here; "),
        ("1 < 2 < 3", "'1 < 2 < 3' is not allowed here; "),
        ("(" * 300, "an expression of 300 characters; at most 200"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate(text, VALUES)
    assert str(caught.value).startswith(said)
