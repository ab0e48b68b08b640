"""Whole-number expressions over named values, as kernels.yaml writes them: `4 * K_LOOP_UNROLL`.

Python's own syntax, and of it only what a count needs; nothing is ever executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from kernelrig.errors import ConfigError

ALLOWED = "whole numbers, names, + - * // %, comparisons and `a if b else c`"
_MAX_LENGTH = 200

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(text: str, values: Mapping[str, int]) -> int:
    """Return the value of `text`; ConfigError for anything that is not such an expression."""
    if len(text) > _MAX_LENGTH:
        raise ConfigError(f"an expression of {len(text)} characters; at most {_MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _value(tree, values)
    except (SyntaxError, ValueError) as e:
        raise ConfigError(f"'{text}' is not an expression; allowed: {ALLOWED}") from e
    except ZeroDivisionError as e:
        raise ConfigError(f"'{text}' divides by zero") from e


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in values:
                known = ", ".join(values) or "there are none"
                raise ConfigError(f"no tunable is called '{name}'; tunables: {known}")
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, values), _value(right, values))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return int(_COMPARE[type(op)](_value(left, values), _value(right, values)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, values) else orelse, values)
    raise ConfigError(f"'{ast.unparse(node)}' is not allowed here; allowed: {ALLOWED}")
