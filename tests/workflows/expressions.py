"""Expressions of GitHub Actions as far as our workflows use them; anything else is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Contexts = Mapping[str, Any]
Functions = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^']|'')*')|(?P<number>\d+(?:\.\d+)?)|(?P<op>==|!=|&&|\|\||[!().,])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*))"
)
_LITERALS = {"true": True, "false": False, "null": None}


class Unsupported(Exception):
    """An expression that this model does not know; GitHub may."""


def evaluate(text: str, contexts: Contexts, functions: Functions) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of the inside of `${{ }}`, or of an `if`."""
    parser = _Parser(text, contexts, functions)
    value = parser.either()
    if parser.position != len(parser.tokens):
        raise Unsupported(f"'{text}' goes on after its end")
    return value


def fill_in(text: str, contexts: Contexts, functions: Functions) -> str:
    """Replace each `${{ }}` in a text by its value."""
    return re.sub(
        r"\$\{\{(.*?)\}\}",
        lambda found: _text(evaluate(found[1], contexts, functions)),
        text,
        flags=re.DOTALL,
    )


def is_true(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return value not in (None, "", False, 0)


def calls_status(text: str) -> bool:
    """Say whether an `if` asks for the status itself, instead of the success() that is implied."""
    return re.search(r"\b(?:always|cancelled|failure|success)\(", text) is not None


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


class _Parser:
    def __init__(self, text: str, contexts: Contexts, functions: Functions) -> None:
        self.contexts, self.functions = contexts, functions
        self.tokens: list[tuple[str, str]] = []
        self.position = 0
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if not found:
                raise Unsupported(f"'{text}' at '{text[at:]}'")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()

    def either(self) -> Any:  # noqa: ANN401 - any JSON
        value = self.both()
        while self._take("||"):
            other = self.both()
            value = value if is_true(value) else other
        return value

    def both(self) -> Any:  # noqa: ANN401 - any JSON
        value = self.equality()
        while self._take("&&"):
            other = self.equality()
            value = other if is_true(value) else value
        return value

    def equality(self) -> Any:  # noqa: ANN401 - any JSON
        value = self.negation()
        for operator in ("==", "!="):
            if self._take(operator):
                return _equal(value, self.negation()) == (operator == "==")
        return value

    def negation(self) -> Any:  # noqa: ANN401 - any JSON
        if self._take("!"):
            return not is_true(self.negation())
        if self._take("("):
            value = self.either()
            self._expect(")")
            return value
        return self._value()

    def _value(self) -> Any:  # noqa: ANN401 - any JSON
        kind, word = self._next()
        if kind == "string":
            return word[1:-1].replace("''", "'")
        if kind == "number":
            return float(word)
        if kind != "name":
            raise Unsupported(f"'{word}' where a value was expected")
        if self._take("("):
            arguments = []
            while not self._take(")"):
                arguments.append(self.either())
                self._take(",")
            if word not in self.functions:
                raise Unsupported(f"function {word}()")
            return self.functions[word](*arguments)
        if word in _LITERALS:
            return _LITERALS[word]
        if word not in self.contexts:
            raise Unsupported(f"context '{word}'")
        value = self.contexts[word]
        while self._take("."):
            key = self._next()[1]
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _next(self) -> tuple[str, str]:
        if self.position == len(self.tokens):
            raise Unsupported("an expression that ends too early")
        self.position += 1
        return self.tokens[self.position - 1]

    def _take(self, operator: str) -> bool:
        if self.tokens[self.position : self.position + 1] == [("op", operator)]:
            self.position += 1
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._take(operator):
            raise Unsupported(f"'{operator}' is missing")


def _equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON
    """Compare as GitHub does: letters of either case are equal, other types compare as numbers."""
    if isinstance(one, str) and isinstance(other, str):
        return one.lower() == other.lower()
    if type(one) is type(other):
        return bool(one == other)
    return _number(one) == _number(other)


def _number(value: Any) -> float:  # noqa: ANN401 - any JSON
    if value in (None, "", False):
        return 0.0
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
