"""A condition over values with a spread is decided only if every value within says the same."""

from __future__ import annotations

import random

import pytest
from kernelrig.config.expression import parse_condition
from kernelrig.errors import ProtocolError
from kernelrig.notebook.spread import Spread, decide

VALUES = {
    "time_ms": Spread(0.93, 0.921, 0.934),
    "baseline.time_ms": Spread(0.949, 0.948, 0.95),
    "noisy": Spread(0.95, 0.935, 0.958),
    "registers": Spread(168),
    "unknown": Spread(-2, float("-inf"), float("inf")),
}


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("time_ms < baseline.time_ms", True),
        ("time_ms < 0.99 * baseline.time_ms", True),
        ("time_ms / baseline.time_ms < 0.975", None),
        ("time_ms / baseline.time_ms < 0.95", False),
        ("noisy < baseline.time_ms", None),
        ("noisy - baseline.time_ms > -0.02", True),
        ("registers <= 168 and registers == 168", True),
        ("registers != 168", False),
        ("noisy == 0.95", None),
        ("noisy == 0.9", False),
        ("unknown < -1", None),
        ("unknown * 0 == 0", True),
        ("1 / (noisy - 0.95) > 0", None),
        ("-noisy < -0.9 and not noisy > 0.96", True),
        # What is open decides nothing where another part does, in either order.
        ("noisy < 0.95 or registers > 100", True),
        ("registers > 100 or noisy < 0.95", True),
        ("noisy < 0.95 and registers > 200", False),
        ("noisy < 0.95 and time_ms < 0.95", None),
        ("min(noisy, 0.94) < 0.96", True),
        ("max(noisy, 0.94) < 0.95", None),
        ("max(noisy, 0.94) < 0.96", True),
        ("1 < 2 if noisy < 0.95 else 2 > 1", True),
    ],
)
def test_a_condition(text: str, decided: bool | None) -> None:
    assert decide(parse_condition(text), VALUES) is decided


def test_what_is_decided_holds_of_every_value_between_the_ends() -> None:
    """The same expressions over 20,000 points: none contradicts a decision."""
    rng = random.Random(13)
    texts = (
        "a * b - c / d < a + 1",
        "min(a, b) < c or not (b - c) * d > 2 and a / d < 3",
        "max(a * c, b) / (d + 3) >= min(b, d) if a < b else c > d",
    )
    decided = 0
    for text in texts:
        condition = parse_condition(text)
        for _ in range(400):
            ends = {n: (at := rng.uniform(-3, 3), at + rng.uniform(0, 0.5)) for n in "abcd"}
            spreads = {n: Spread(sum(e) / 2, *e) for n, e in ends.items()}
            said = decide(condition, spreads)
            decided += said is not None
            for _ in range(20):
                point = {n: rng.uniform(*e) for n, e in ends.items()}
                holds = condition.evaluate(point)
                assert said is None or said == holds, (text, ends, point)
    assert decided > 300


def test_a_missing_value_is_exit_code_5() -> None:
    with pytest.raises(ProtocolError, match="there is no number for 'nope'") as caught:
        decide(parse_condition("registers < 1 or nope < 1"), VALUES)
    assert caught.value.exit_code == 5


def test_only_a_divisor_that_is_zero_divides_by_zero() -> None:
    with pytest.raises(ProtocolError, match="divides by zero"):
        decide(parse_condition("1 / (registers - 168) > 0"), VALUES)


def test_a_spread_by_itself_answers_no_open_comparison() -> None:
    with pytest.raises(ValueError, match="two spreads overlap"):
        _ = VALUES["noisy"] < VALUES["baseline.time_ms"]
