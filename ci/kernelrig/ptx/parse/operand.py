"""Operands, every name of theirs resolved."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.ptx.operands import (
    Address,
    Arguments,
    Component,
    Float,
    Integer,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from kernelrig.ptx.parse.constant import parse_constant, parse_integer, starts_constant
from kernelrig.ptx.parse.declaration import signed_offset
from kernelrig.ptx.parse.lexer import NUMBER, WORD, Tokens
from kernelrig.ptx.parse.names import Names
from kernelrig.ptx.types import PARTS, is_special

_SINK = Sink()
_Single = Register | Component | Special | Sink | Symbol | Integer | Float


class Operands:
    """The reader of one function's operands."""

    __slots__ = ("_names", "_tokens")

    def __init__(self, tokens: Tokens, names: Names) -> None:
        self._tokens = tokens
        self._names = names

    def read(self) -> Operand:
        tokens = self._tokens
        text = tokens.texts[tokens.at]
        if tokens.kinds[tokens.at] == WORD and text != "WARP_SZ":
            found = self._named()
            return self._pair(found) if tokens.texts[tokens.at] == "|" else found
        if text == "[":
            return self._bracket()
        if text == "{":
            return self._vector()
        if text in ("!", "-") and tokens.kinds[tokens.at + 1] == WORD:
            return self._negated(text)
        if starts_constant(tokens):
            return parse_constant(tokens)
        raise tokens.wanted("an operand")

    def register(self) -> Register:
        """Read the register of a guard."""
        at = self._tokens.at
        found = self._names.find(self._tokens.word("a register"))
        if isinstance(found, Register):
            return found
        raise self._tokens.error(f"no register '{self._tokens.texts[at]}' is declared", at)

    def arguments(self) -> Arguments:
        """Read the `(a, b)` of a call."""
        self._tokens.expect("(")
        return Arguments(self._list(")", self.read))

    def _named(self) -> Operand:
        tokens, at = self._tokens, self._tokens.at
        text = tokens.texts[at]
        tokens.at += 1
        found = self._names.find(text)
        if isinstance(found, Register):
            return found
        if text == "_":
            return _SINK
        if isinstance(found, Variable | Symbol):
            return self._symbol(found)
        if found is not None:
            return found
        name, _, part = text.partition(".")
        base = self._names.find(name) if part else None
        if isinstance(base, Register) and part in PARTS:
            return Component(base, part)
        if name[0] == "%" and is_special(name[1:], part):
            return Special(name[1:], part)
        if part and base is not None:
            raise tokens.error(f"'{name}' has no part '.{part}'", at)
        raise tokens.error(f"no '{text}' is declared", at)

    def _symbol(self, found: Variable | Symbol) -> Symbol | Address:
        if isinstance(found, Symbol):
            return found
        if self._tokens.take("["):
            # `ld.global.u32 r, a[2];`: the second element behind the first, no bytes.
            index = parse_integer(self._tokens, "the number of an element")
            self._tokens.expect("]")
            return Address(Symbol(found.name, found), index * found.element_bytes * found.lanes)
        return Symbol(found.name, found, signed_offset(self._tokens))

    def _pair(self, first: Operand) -> Pair:
        tokens = self._tokens
        if not isinstance(first, Register | Sink):
            raise tokens.error("expected a register or _ before '|'")
        tokens.at += 1
        at = tokens.at
        second = self._named() if tokens.kind == WORD else None
        if not isinstance(second, Register | Sink):
            raise tokens.error("expected a register or _ behind '|'", at)
        return Pair(first, second)

    def _negated(self, sign: str) -> Operand:
        tokens, at = self._tokens, self._tokens.at
        if tokens.texts[at + 1] == "WARP_SZ":
            return parse_constant(tokens)
        tokens.at += 1
        operand = self._named()
        if isinstance(operand, Register | Component):
            return Negated(sign, operand)
        raise tokens.error(f"expected a register behind '{sign}'", at)

    def _vector(self) -> Vector:
        self._tokens.expect("{")
        return Vector(self._list("}", self._single))

    def _single(self) -> Operand:
        tokens, at = self._tokens, self._tokens.at
        if tokens.text in ("{", "["):
            raise tokens.wanted("a register or a constant")
        operand = self.read()
        if isinstance(operand, _Single):
            return operand
        raise tokens.error(f"expected a register or a constant, not '{operand}'", at)

    def _list(self, end: str, read: Callable[[], Operand]) -> tuple[Operand, ...]:
        tokens = self._tokens
        items: list[Operand] = []
        while tokens.text != end:
            if items:
                tokens.expect(",")
            items.append(read())
        tokens.at += 1
        return tuple(items)

    def _bracket(self) -> Address | TensorAddress:
        tokens = self._tokens
        tokens.at += 1
        base = self._base()
        offset = signed_offset(tokens)
        if tokens.take("]"):
            if isinstance(base, Symbol):
                return Address(Symbol(base.name, base.variable), base.offset + offset)
            return Address(base, offset)
        if offset or isinstance(base, Integer):
            raise tokens.wanted("']'")
        items: list[Operand] = [base]
        while tokens.take(","):
            items.append(self._vector() if tokens.text == "{" else self._single())
        tokens.expect("]")
        return TensorAddress(tuple(items))

    def _base(self) -> Register | Component | Symbol | Integer:
        tokens, at = self._tokens, self._tokens.at
        if tokens.kind == NUMBER or tokens.text in ("-", "("):
            return Integer(parse_integer(tokens, "an address"))
        if tokens.kind != WORD:
            raise tokens.wanted("an address")
        operand = self._named()
        if isinstance(operand, Register | Component | Symbol):
            return operand
        raise tokens.error(f"'{tokens.texts[at]}' is not an address", at)
