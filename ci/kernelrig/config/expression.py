"""Expressions over named values, as files of a project write them; nothing is ever executed.

A count in kernels.yaml is of whole numbers (`4 * K_LOOP_UNROLL`), a rule over metrics of measured
ones (`dram__throughput.avg.pct_of_peak_sustained_elapsed > 80 and waves < 1`). Precedence is
Python's: `or`, `and`, `not`, comparisons, `+ -`, `* / // %`, `-x`; and `a if b else c` around them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from kernelrig.errors import ConfigError, ProtocolError

_DEEPEST = 40
_SHOWN = 60
_TOKEN = re.compile(
    r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![A-Za-z0-9_.])"
    r"|[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*"
    r"|//|\*\*|[<>=!]=|[-+*/%<>(),]"
)
_WORDS = ("and", "or", "not", "if", "else")

Values = Mapping[str, float]
_Evaluate = Callable[[Values], float]
_Operation = Callable[[float, float], float]


class Kind(Enum):
    """What an expression comes to."""

    NUMBER = "a number"
    TRUTH = "true or false"


@dataclass(frozen=True, slots=True)
class Language:
    """What a file may write. `truths`: a comparison is no number, and `and`, `or`, `not` join it.

    Without them a comparison counts as 1 or 0. `operand` is what a name stands for in messages.
    """

    allowed: str
    operand: str
    most_characters: int
    signs: frozenset[str]
    decimals: bool
    truths: bool


WHOLE = Language(
    allowed="whole numbers, names, + - * // %, comparisons and `a if b else c`",
    operand="tunable",
    most_characters=200,
    signs=frozenset(("+", "-", "*", "//", "%")),
    decimals=False,
    truths=False,
)
MEASURED = Language(
    allowed="numbers, names of metrics, + - * /, comparisons, and, or, not, "
    "min(a, b), max(a, b) and `a if b else c`",
    operand="value",
    most_characters=2000,
    signs=frozenset(("+", "-", "*", "/")),
    decimals=True,
    truths=True,
)

SIZE = replace(WHOLE, operand="number")
"""Over the numbers of a case: extents, bytes and FLOP of an operation."""

_SUMS: dict[str, _Operation] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, _Operation] = {
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS: dict[str, _Operation] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read; `names` are the values it needs, in the order of their use."""

    text: str
    kind: Kind
    names: tuple[str, ...]
    _evaluate: _Evaluate = field(repr=False, compare=False)

    def missing(self, values: Values) -> tuple[str, ...]:
        """Return the names for which there is no finite number."""
        return tuple(n for n in self.names if not math.isfinite(values.get(n, math.nan)))

    def evaluate(self, values: Values) -> float:
        """Return the number, or True or False; ProtocolError where `values` do not suffice.

        A value is needed where `and`, `or` and `if`, from left to right, have not decided without
        it: so what it comes to never depends on a value that was not measured.
        """
        try:
            found = self._evaluate(values)
        except _MissingError as e:
            raise ProtocolError(f"there is no number for '{e}', which {self!s} needs") from e
        except ZeroDivisionError as e:
            raise ProtocolError(f"{self!s} divides by zero") from e
        if not math.isfinite(found):
            raise ProtocolError(f"{self!s} is {found}, which is no number")
        return found

    def __str__(self) -> str:
        return _quoted(self.text)


def parse(text: str, language: Language = MEASURED) -> Expression:
    """Read an expression; ConfigError says where it is wrong, and what is allowed."""
    if len(text) > language.most_characters:
        most = language.most_characters
        raise ConfigError(f"an expression of {len(text)} characters; at most {most}")
    return _Parser(text.strip(), language).read()


def parse_condition(text: str) -> Expression:
    """Read an expression over metrics that is true or false."""
    return _of_kind(parse(text), Kind.TRUTH, "compare with something, as in `x > 10`")


def parse_number(text: str) -> Expression:
    """Read an expression over metrics that is a number."""
    return _of_kind(parse(text), Kind.NUMBER, "write `1 if ... else 0` for a number")


def evaluate(text: str, values: Mapping[str, int], language: Language = WHOLE) -> int:
    """Return the value of a whole-number expression; ConfigError where it has none."""
    expression = parse(text, language)
    if missing := expression.missing(values):
        known, operand = ", ".join(values) or "there are none", language.operand
        raise ConfigError(f"no {operand} is called '{missing[0]}'; {operand}s: {known}")
    try:
        return int(expression.evaluate(values))
    except ProtocolError as e:
        raise ConfigError(e.message) from e


def _of_kind(expression: Expression, kind: Kind, hint: str) -> Expression:
    if expression.kind is not kind:
        raise ConfigError(f"{expression!s} is {expression.kind.value}, not {kind.value}; {hint}")
    return expression


def _quoted(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}...'"


class _MissingError(Exception):
    """There is no number for the name."""


@dataclass(frozen=True, slots=True)
class _Term:
    kind: Kind
    evaluate: _Evaluate


class _Parser:
    """Recursive descent over the tokens; every part is read into a closure over the values."""

    def __init__(self, text: str, language: Language) -> None:
        self._text, self._language = text, language
        self._tokens = self._split()
        self._next = 0
        self._depth = 0
        self._names: dict[str, None] = {}

    def read(self) -> Expression:
        term = self._choice()
        if self._peek():
            raise self._error(f"'{self._peek()}' is not expected")
        return Expression(self._text, term.kind, tuple(self._names), term.evaluate)

    def _split(self) -> list[tuple[str, int]]:
        tokens, at = [], 0
        while at < len(self._text):
            at += len(self._text[at:]) - len(self._text[at:].lstrip())
            found = _TOKEN.match(self._text, at)
            if found is None:
                strange = self._text[at:].split()[0][:_SHOWN]
                raise self._refuse(f"'{strange}' is not allowed", at)
            tokens.append((found[0], at))
            at = found.end()
        return tokens

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """Take the next token if it is one of `wanted`, and return it; else an empty text."""
        token = self._peek()
        if token not in wanted:
            return ""
        self._next += 1
        return token

    def _take_word(self, word: str) -> str:
        return self._take(word) if self._language.truths else ""

    def _require(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._error(f"'{wanted}' is missing")

    def _error(self, problem: str, token: int | None = None) -> ConfigError:
        """Return the error of a problem at the next token, or at the one with that number."""
        places = (*(at for _, at in self._tokens), len(self._text))
        return self._refuse(problem, places[self._next if token is None else token])

    def _refuse(self, problem: str, at: int) -> ConfigError:
        return ConfigError(
            f"{problem} at character {at + 1} of {_quoted(self._text)};"
            f" allowed: {self._language.allowed}"
        )

    def _choice(self) -> _Term:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"it is nested more than {_DEEPEST} deep")
        then = self._either()
        first = self._next
        if self._take("if"):
            test = self._either()
            self._need(test, Kind.TRUTH if self._language.truths else Kind.NUMBER, first)
            second = self._next
            self._require("else")
            other = self._choice()
            self._need(other, then.kind, second)
            a, b, c = then.evaluate, test.evaluate, other.evaluate
            then = _Term(then.kind, lambda values: a(values) if b(values) else c(values))
        self._depth -= 1
        return then

    def _either(self) -> _Term:
        parts = self._row(self._both, "or")
        return parts[0] if len(parts) == 1 else _joined(parts, any)

    def _both(self) -> _Term:
        parts = self._row(self._negation, "and")
        return parts[0] if len(parts) == 1 else _joined(parts, all)

    def _row(self, part: Callable[[], _Term], word: str) -> list[_Term]:
        parts, at = [part()], self._next
        while self._take_word(word):
            parts.append(part())
            for term in parts[-2:]:
                self._need(term, Kind.TRUTH, at)
            at = self._next
        return parts

    def _negation(self) -> _Term:
        first = self._next
        while self._take_word("not"):
            pass
        count = self._next - first
        term = self._comparison()
        if count:
            self._need(term, Kind.TRUTH, first)
        if count % 2 == 0:
            return term
        return _Term(Kind.TRUTH, lambda values: not term.evaluate(values))

    def _comparison(self) -> _Term:
        left, at = self._sum(), self._next
        sign = self._take(*_COMPARISONS)
        if not sign:
            return left
        right = self._sum()
        if self._peek() in _COMPARISONS:
            raise self._error("two comparisons in a row: join them with `and`")
        a, b = self._numbers(left, right, at)
        compare = _COMPARISONS[sign]
        if self._language.truths:
            return _Term(Kind.TRUTH, lambda values: compare(a(values), b(values)))
        return _Term(Kind.NUMBER, lambda values: int(compare(a(values), b(values))))

    def _sum(self) -> _Term:
        return self._chain(self._product, _SUMS)

    def _product(self) -> _Term:
        return self._chain(self._signed, _PRODUCTS)

    def _chain(self, part: Callable[[], _Term], signs: Mapping[str, _Operation]) -> _Term:
        """Read a row of operations, each on the result of those before it."""
        first = part()
        steps: list[tuple[_Operation, _Evaluate]] = []
        while (sign := self._peek()) in signs:
            if sign not in self._language.signs:
                raise self._error(f"'{sign}' is not allowed")
            at = self._next
            self._next += 1
            _, right = self._numbers(first, part(), at)
            steps.append((signs[sign], right))
        if not steps:
            return first

        def in_order(values: Values) -> float:
            result = first.evaluate(values)
            for operation, right in steps:
                result = operation(result, right(values))
            return result

        return _Term(Kind.NUMBER, in_order)

    def _signed(self) -> _Term:
        first = self._next
        while self._take("-"):
            pass
        count = self._next - first
        term = self._atom()
        if count:
            self._need(term, Kind.NUMBER, first)
        if count % 2 == 0:
            return term
        return _Term(Kind.NUMBER, lambda values: -term.evaluate(values))

    def _atom(self) -> _Term:
        token = self._peek()
        if self._take("("):
            inner = self._choice()
            self._require(")")
            return inner
        if not token:
            raise self._error("a number or a name is missing")
        if token[0].isdigit():
            return self._number(token)
        if token in _WORDS or not (token[0].isalpha() or token[0] == "_"):
            raise self._error(f"'{token}' is not expected")
        self._next += 1
        if self._peek() == "(":
            return self._call(token)
        self._names[token] = None
        return _Term(Kind.NUMBER, lambda values: _number_of(token, values))

    def _number(self, token: str) -> _Term:
        if not self._language.decimals and not token.isdecimal():
            raise self._error(f"'{token}' is not allowed")
        number: float = float(token) if self._language.decimals else int(token)
        if not math.isfinite(number):
            raise self._error(f"'{token}' is too large")
        self._next += 1
        return _Term(Kind.NUMBER, lambda values: number)

    def _call(self, name: str) -> _Term:
        at = self._next - 1
        if not self._language.truths or name not in _FUNCTIONS:
            raise self._error(f"there is no function '{name}'", at)
        self._require("(")
        terms = [self._choice()]
        while self._take(","):
            terms.append(self._choice())
        self._require(")")
        if len(terms) != 2:
            raise self._error(f"{name} takes two numbers, not {len(terms)},", at)
        a, b = self._numbers(terms[0], terms[1], at)
        function = _FUNCTIONS[name]
        return _Term(Kind.NUMBER, lambda values: function(a(values), b(values)))

    def _numbers(self, left: _Term, right: _Term, at: int) -> tuple[_Evaluate, _Evaluate]:
        for term in (left, right):
            self._need(term, Kind.NUMBER, at)
        return left.evaluate, right.evaluate

    def _need(self, term: _Term, kind: Kind, at: int) -> None:
        if term.kind is not kind:
            joint = self._tokens[at][0]
            raise self._error(f"'{joint}' needs {kind.value}, not {term.kind.value},", at)


def _number_of(name: str, values: Values) -> float:
    if name not in values or not math.isfinite(values[name]):
        raise _MissingError(name)
    return values[name]


def _joined(parts: Sequence[_Term], join: Callable[[Iterable[float]], bool]) -> _Term:
    """Return the truth of several, of which only those are evaluated that decide it."""
    return _Term(Kind.TRUTH, lambda values: join(part.evaluate(values) for part in parts))
