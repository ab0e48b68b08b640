"""Constant expressions: 64-bit integers, signed unless a `U` or their size says otherwise (4.6)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass

from kernelrig.ptx.operands import Float, Integer
from kernelrig.ptx.parse.lexer import DOTTED, NUMBER, WORD, Tokens

_DEEPEST = 64
_WARP_SIZE = 32
_BASES = {"0x": 16, "0X": 16, "0b": 2, "0B": 2}
_BITS = {"0f": 32, "0F": 32, "0d": 64, "0D": 64}

_ENDS = ([","], [";"], ["]"], ["}"])

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""The binary operators, loosest first."""

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_FLOAT: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True, slots=True)
class _Number:
    """An integer of 64 bits, wrapped to the range of its sign."""

    value: int
    unsigned: bool = False

    @staticmethod
    def of(value: int, unsigned: bool) -> _Number:
        value &= 2**64 - 1
        return _Number(value if unsigned or value < 2**63 else value - 2**64, unsigned)


_Value = _Number | float


def starts_constant(tokens: Tokens) -> bool:
    return tokens.kind == NUMBER or tokens.text in ("-", "+", "~", "!", "(", "WARP_SZ")


def parse_constant(tokens: Tokens) -> Integer | Float:
    """Read a constant expression."""
    if tokens.kind == NUMBER and (width := _BITS.get(tokens.text[:2])):
        tokens.at += 1
        return Float(int(tokens.texts[tokens.at - 1][2:], 16), width)
    value: _Value | None = _plain_integer(tokens)
    if value is None:
        value = _ternary(tokens, 0)
    if isinstance(value, float):
        return Float(struct.unpack("<Q", struct.pack("<d", value))[0], 64)
    return Integer(value.value)


def _plain_integer(tokens: Tokens) -> _Number | None:
    """Read what nearly all constants are, `16` or `-16`, without a look at every operator."""
    at = tokens.at + (tokens.text == "-")
    digits = tokens.texts[at]
    if tokens.texts[at + 1 : at + 2] not in _ENDS or not digits.isdigit() or len(digits) > 18:
        return None
    if digits[0] == "0" and digits != "0":
        return None
    value = int(digits) if at == tokens.at else -int(digits)
    tokens.at = at + 1
    return _Number(value)


def parse_integer(tokens: Tokens, what: str) -> int:
    at = tokens.at
    if not starts_constant(tokens):
        raise tokens.wanted(what)
    constant = parse_constant(tokens)
    if isinstance(constant, Float):
        raise tokens.error(f"expected {what}, not '{tokens.texts[at]}'", at)
    return constant.value


def _ternary(tokens: Tokens, depth: int) -> _Value:
    if depth > _DEEPEST:
        raise tokens.error(f"the expression is nested more than {_DEEPEST} deep")
    condition = _binary(tokens, 0, depth)
    if not tokens.take("?"):
        return condition
    first = _ternary(tokens, depth + 1)
    tokens.expect(":")
    second = _ternary(tokens, depth + 1)
    return first if _plain(condition) else second


def _binary(tokens: Tokens, level: int, depth: int) -> _Value:
    if level == len(_LEVELS):
        return _unary(tokens, depth)
    left = _binary(tokens, level + 1, depth)
    while tokens.text in _LEVELS[level]:
        at = tokens.at
        tokens.at += 1
        right = _binary(tokens, level + 1, depth)
        left = _apply(tokens, at, left, right)
    return left


def _apply(tokens: Tokens, at: int, left: _Value, right: _Value) -> _Value:
    """Apply the operator that stands at `at`."""
    sign = tokens.texts[at]
    if sign in _COMPARE:
        return _Number(int(_COMPARE[sign](*_common(left, right))))
    if sign in "/%" and not _plain(right):
        raise tokens.error("a constant is divided by zero", at)
    if isinstance(left, float) or isinstance(right, float):
        if sign not in _FLOAT:
            raise tokens.error(f"'{sign}' takes no floating-point constant", at)
        try:
            return _FLOAT[sign](float(_plain(left)), float(_plain(right)))
        except OverflowError:
            raise tokens.error("the constant is out of range", at) from None
    if sign in ("<<", ">>"):
        count = min(right.value & (2**64 - 1), 64)
        moved = left.value << count if sign == "<<" else left.value >> count
        return _Number.of(moved, left.unsigned)
    if sign == "%":
        # Of unsigned numbers, whatever the operands are: -7 % 3 is 0 to ptxas.
        remainder = left.value % 2**64 % (right.value % 2**64)
        return _Number.of(remainder, True)
    unsigned = left.unsigned or right.unsigned
    a, b = (int(v) for v in _common(left, right))
    if sign == "/":
        # Toward zero, as in C.
        return _Number.of(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), unsigned)
    return _Number.of(_INTEGER[sign](a, b), unsigned)


def _common(left: _Value, right: _Value) -> tuple[float, float]:
    """Return both sides as they are compared: one unsigned integer makes the other so."""
    if isinstance(left, _Number) and isinstance(right, _Number):
        unsigned = left.unsigned or right.unsigned
        return _Number.of(left.value, unsigned).value, _Number.of(right.value, unsigned).value
    return _plain(left), _plain(right)


def _plain(value: _Value) -> float:
    return value if isinstance(value, float) else value.value


def _unary(tokens: Tokens, depth: int) -> _Value:
    sign = tokens.text
    if sign in ("-", "+", "~", "!"):
        tokens.at += 1
        if depth > _DEEPEST:
            raise tokens.error(f"the expression is nested more than {_DEEPEST} deep")
        value = _unary(tokens, depth + 1)
        if sign == "!":
            return _Number(int(not _plain(value)))
        if isinstance(value, float):
            if sign == "~":
                raise tokens.error("'~' takes no floating-point constant")
            return -value if sign == "-" else value
        sign_of = {"-": -value.value, "+": value.value, "~": ~value.value}
        return _Number.of(sign_of[sign], value.unsigned)
    if tokens.take("("):
        if tokens.kind == DOTTED:
            return _cast(tokens, depth)
        value = _ternary(tokens, depth + 1)
        tokens.expect(")")
        return value
    return _number(tokens)


def _cast(tokens: Tokens, depth: int) -> _Value:
    cast = tokens.text
    if cast not in (".s64", ".u64"):
        raise tokens.wanted("the cast .s64 or .u64")
    tokens.at += 1
    tokens.expect(")")
    value = _unary(tokens, depth + 1)
    if isinstance(value, float):
        raise tokens.error(f"'({cast})' takes no floating-point constant")
    return _Number.of(value.value, cast == ".u64")


def _number(tokens: Tokens) -> _Value:
    text = tokens.text
    if tokens.kind == WORD and text == "WARP_SZ":
        tokens.at += 1
        return _Number(_WARP_SIZE)
    if tokens.kind != NUMBER or text[:2] in _BITS:
        raise tokens.wanted("a constant")
    tokens.at += 1
    digits = text.removesuffix("U")
    base = _BASES.get(text[:2], 10)
    if base == 10 and any(c in digits for c in ".eE"):
        return float(digits)
    if base == 10 and len(digits) > 1 and digits[0] == "0":
        base = 8
    if len(digits) > 80:
        raise tokens.error(f"the constant {digits[:20]}... does not fit 64 bits", tokens.at - 1)
    try:
        value = int(digits, base)
    except ValueError:
        raise tokens.error(f"'{text}' is not an octal number", tokens.at - 1) from None
    if value >= 2**64:
        raise tokens.error(f"the constant {text} does not fit 64 bits", tokens.at - 1)
    return _Number(value, text[-1] == "U" or value >= 2**63)
