"""Numbers that are known to lie between two ends, and what a condition over them comes to.

A rule that compares 0.93 to 0.96 with 0.95 has no answer: whichever it gave would be chance. So a
comparison of spreads that overlap is both true and false, and the condition is decided only if
every combination of such answers leads to the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextvars import ContextVar

from kernelrig.config.expression import Expression

_MOST_PATHS = 256
"""Of combinations that are tried: eight comparisons that are open."""


class Spread(float):
    """A value with its ends; arithmetic is that of intervals, so that no true value is lost."""

    __slots__ = ("high", "low")

    low: float
    high: float

    def __new__(cls, value: float, low: float | None = None, high: float | None = None) -> Spread:
        made = super().__new__(cls, value)
        made.low = value if low is None else low
        made.high = value if high is None else high
        return made

    def __add__(self, other: float) -> Spread:
        b = _spread(other)
        return Spread(float(self) + float(b), self.low + b.low, self.high + b.high)

    def __neg__(self) -> Spread:
        return Spread(-float(self), -self.high, -self.low)

    def __sub__(self, other: float) -> Spread:
        return self + -_spread(other)

    def __mul__(self, other: float) -> Spread:
        b = _spread(other)
        ends = [_product(x, y) for x in (self.low, self.high) for y in (b.low, b.high)]
        return Spread(float(self) * float(b), min(ends), max(ends))

    def __truediv__(self, other: float) -> Spread:
        b = _spread(other)
        if b.low < 0 < b.high or (b.low == 0) != (b.high == 0):
            return Spread(0.0, -math.inf, math.inf)  # the divisor may be as small as it likes
        return self * Spread(1 / float(b), 1 / b.high, 1 / b.low)

    def __radd__(self, other: float) -> Spread:
        return _spread(other) + self

    def __rsub__(self, other: float) -> Spread:
        return _spread(other) - self

    def __rmul__(self, other: float) -> Spread:
        return _spread(other) * self

    def __rtruediv__(self, other: float) -> Spread:
        return _spread(other) / self

    def __lt__(self, other: float) -> bool:
        b = _spread(other)
        return _answer(self.high < b.low, self.low >= b.high)

    def __le__(self, other: float) -> bool:
        b = _spread(other)
        return _answer(self.high <= b.low, self.low > b.high)

    def __gt__(self, other: float) -> bool:
        return _spread(other) < self

    def __ge__(self, other: float) -> bool:
        return _spread(other) <= self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float | int):
            return NotImplemented
        b = _spread(other)
        apart = self.high < b.low or b.high < self.low
        return _answer(self.low == self.high == b.low == b.high, apart)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((float(self), self.low, self.high))


class _Answers:
    """The answers to open comparisons on one path: those given, then True for each further one."""

    def __init__(self, given: tuple[bool, ...]) -> None:
        self.given = given
        self.asked = 0

    def next(self) -> bool:
        self.asked += 1
        return self.given[self.asked - 1] if self.asked <= len(self.given) else True


_answers: ContextVar[_Answers | None] = ContextVar("answers", default=None)


def decide(condition: Expression, values: Mapping[str, Spread]) -> bool | None:
    """Return whether a condition holds of all values between their ends, None where it depends.

    ProtocolError where a value is missing, as for `Expression.evaluate`.
    """
    found: set[bool] = set()
    paths: list[tuple[bool, ...]] = [()]
    for tried, given in enumerate(paths):
        if tried >= _MOST_PATHS:
            return None
        answers = _Answers(given)
        token = _answers.set(answers)
        try:
            found.add(bool(condition.evaluate(values)))
        finally:
            _answers.reset(token)
        if len(found) > 1:
            return None
        # What was asked beyond `given` was answered True: the other answer is a path of its own.
        for more in range(answers.asked - len(given)):
            paths.append((*given, *(True,) * more, False))
    return found.pop()


def _answer(yes: bool, no: bool) -> bool:
    if yes or no:
        return yes
    answers = _answers.get()
    if answers is None:
        raise ValueError("two spreads overlap: `decide` says what a condition over them comes to")
    return answers.next()


def _spread(number: float) -> Spread:
    return number if isinstance(number, Spread) else Spread(number)


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b  # 0 * inf: the end itself is not reached
