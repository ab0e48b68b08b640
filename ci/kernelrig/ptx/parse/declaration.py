"""Declarations: what is declared, its type and alignment, names, sizes and first values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelrig.ptx.operands import Initial, Integer, Register, Symbol, Variable
from kernelrig.ptx.parse.constant import parse_constant, parse_integer, starts_constant
from kernelrig.ptx.parse.lexer import DOTTED, WORD, Tokens
from kernelrig.ptx.parse.names import Names, Range
from kernelrig.ptx.types import BYTES, LINKAGE, SPACES

UNNAMED = -1
"""The index of a register parameter that a prototype gives no name."""
_DEEPEST = 16
_LANES = {".v2": 2, ".v4": 4, ".v8": 8}
_MOST_BYTES = 2**40
_OPAQUE = frozenset({"texref", "samplerref", "surfref"})


@dataclass(slots=True)
class Head:
    """What stands before the names, and holds for all of them."""

    line: int
    space: str = ""
    type: str = ""
    lanes: int = 1
    align: int = 0
    linkage: frozenset[str] = frozenset()
    attributes: list[str] = field(default_factory=list)
    pointee: tuple[str, int] | None = None


def starts_declaration(text: str) -> bool:
    return text[:1] == "." and (text[1:] in SPACES or text[1:] in LINKAGE)


def declare(tokens: Tokens, names: Names, linkage: frozenset[str]) -> list[Variable]:
    """Read a declaration to its `;` and make its names known; registers are known by `names`."""
    head = _head(tokens, linkage)
    declared = []
    while True:
        at = tokens.at
        name = tokens.word("a name")
        if tokens.text == "<":
            _declare_range(tokens, names, head, name, at)
        elif head.space == "reg":
            names.declare_register(name, head.type, head.lanes, at)
        else:
            variable = _variable(tokens, names, head, name)
            names.declare(name, variable, at)
            declared.append(variable)
        if not tokens.take(","):
            break
    tokens.expect(";")
    return declared


def parameters(tokens: Tokens, names: Names) -> tuple[Variable | Register, ...]:
    """Read `( .param .b32 a, .reg .b32 b )`; of a prototype, whose names may all be `_`, too."""
    tokens.expect("(")
    found: list[Variable | Register] = []
    while tokens.text != ")":
        if found:
            tokens.expect(",")
        head = _head(tokens, frozenset())
        at = tokens.at
        name = tokens.word("a parameter's name")
        if head.space != "reg":
            variable = _variable(tokens, names, head, name)
            found.append(variable)
            if name != "_":
                names.declare(name, variable, at)
        elif name == "_":
            found.append(Register(name, head.type, UNNAMED, head.lanes))
        else:
            found.append(names.declare_register(name, head.type, head.lanes, at))
    tokens.expect(")")
    return tuple(found)


def _head(tokens: Tokens, linkage: frozenset[str]) -> Head:
    head = Head(tokens.line(), linkage=linkage)
    at = tokens.at
    if tokens.kind != DOTTED:
        raise tokens.wanted("a declaration")
    for text in _dotted(tokens):
        if text[1:] in SPACES and not head.space:
            head.space = text[1:]
        elif text[1:] in BYTES and not head.type:
            head.type = text[1:]
        elif text in _LANES and head.lanes == 1:
            head.lanes = _LANES[text]
        elif text == ".align":
            head.align = _alignment(tokens)
        elif text == ".ptr":
            head.pointee = _pointee(tokens)
        elif text == ".attribute":
            head.attributes += attribute(tokens)
        else:
            raise tokens.error(f"'{text}' is not allowed in a declaration", tokens.at - 1)
    if not head.space:
        raise tokens.error("the declaration names no state space", at)
    if not head.type:
        raise tokens.error("the declaration names no type", at)
    if head.type == "pred" and head.space != "reg":
        raise tokens.error("a predicate lives in a register, not in ." + head.space, at)
    return head


def _dotted(tokens: Tokens) -> Iterator[str]:
    while tokens.kind == DOTTED:
        tokens.at += 1
        yield tokens.texts[tokens.at - 1]


def _alignment(tokens: Tokens) -> int:
    at = tokens.at
    align = parse_integer(tokens, "an alignment")
    if align < 1 or align & (align - 1):
        raise tokens.error(f"an alignment is a power of two, not {align}", at)
    return align


def _pointee(tokens: Tokens) -> tuple[str, int]:
    space, align = "generic", 4
    if tokens.text[1:] in SPACES:
        space = tokens.text[1:]
        tokens.at += 1
    if tokens.take(".align"):
        align = _alignment(tokens)
    return space, align


def attribute(tokens: Tokens) -> list[str]:
    """Read what stands behind `.attribute`: `(.managed)`, `(.unified(19, 95))`."""
    tokens.expect("(")
    found = []
    while tokens.kind == DOTTED:
        text = tokens.text
        tokens.at += 1
        if tokens.take("("):
            numbers = [parse_integer(tokens, "a number")]
            while tokens.take(","):
                numbers.append(parse_integer(tokens, "a number"))
            tokens.expect(")")
            text += f"({', '.join(map(str, numbers))})"
        found.append(text)
        tokens.take(",")
    tokens.expect(")")
    return found


def _declare_range(tokens: Tokens, names: Names, head: Head, prefix: str, at: int) -> None:
    if head.space != "reg":
        raise tokens.error(f"only registers come in ranges, not .{head.space}", at)
    tokens.expect("<")
    # No constant expression: `>` ends the range.
    if not tokens.text.isdigit() or len(tokens.text) > 9:
        raise tokens.wanted("how many registers")
    count = int(tokens.text)
    tokens.at += 1
    tokens.expect(">")
    names.declare_range(prefix, Range(count, head.type, head.lanes), at)


def _variable(tokens: Tokens, names: Names, head: Head, name: str) -> Variable:
    at = tokens.at - 1
    element = BYTES[head.type]
    dimensions: list[int] = []
    while tokens.take("["):
        # Only the first may be left open: what follows it says how far elements are apart.
        open_end = tokens.text == "]" and not dimensions
        dimensions.append(0 if open_end else _count(tokens))
        tokens.expect("]")
    initial = None
    if tokens.take("="):
        initial = _options(tokens) if head.type in _OPAQUE else _initial(tokens, names, 0)
        if dimensions and dimensions[0] == 0 and isinstance(initial, tuple):
            dimensions[0] = len(initial)
    variable = Variable(
        names.scope.unique(name),
        head.space,
        head.type,
        head.line,
        head.align or max(element * head.lanes, 1),
        head.lanes,
        tuple(dimensions),
        head.linkage,
        initial,
        tuple(head.attributes),
        head.pointee,
        element,
    )
    if variable.size > _MOST_BYTES:
        raise tokens.error(f"'{name}' takes {variable.size} bytes", at)
    return variable


def _count(tokens: Tokens) -> int:
    at = tokens.at
    count = parse_integer(tokens, "a number of elements")
    if not 0 < count < _MOST_BYTES:
        raise tokens.error(f"an array has 1 element at least, not {count}", at)
    return count


def _initial(tokens: Tokens, names: Names, depth: int) -> Initial:
    if depth > _DEEPEST:
        raise tokens.error(f"the initialiser is nested more than {_DEEPEST} deep")
    if tokens.take("{"):
        items: list[Initial] = []
        while tokens.text != "}":
            items.append(_initial(tokens, names, depth + 1))
            if not tokens.take(","):
                break
        tokens.expect("}")
        return tuple(items)
    if tokens.kind == WORD and tokens.text != "WARP_SZ":
        return _symbol(tokens, names)
    if not starts_constant(tokens):
        raise tokens.wanted("a value")
    value = parse_constant(tokens)
    if isinstance(value, Integer) and tokens.take("("):
        symbol = _symbol(tokens, names)
        tokens.expect(")")
        return Symbol(symbol.name, symbol.variable, symbol.offset, symbol.generic, value.value)
    return value


def _symbol(tokens: Tokens, names: Names) -> Symbol:
    generic = tokens.text == "generic" and tokens.texts[tokens.at + 1] == "("
    if generic:
        tokens.at += 2
    symbol = find_symbol(tokens, names)
    if generic:
        tokens.expect(")")
    offset = signed_offset(tokens)
    return Symbol(symbol.name, symbol.variable, symbol.offset + offset, generic)


def find_symbol(tokens: Tokens, names: Names) -> Symbol:
    """Read the name of a variable or a function."""
    at = tokens.at
    name = tokens.word("the name of a variable or a function")
    found = names.find(name)
    if isinstance(found, Variable):
        return Symbol(found.name, found)
    if isinstance(found, Symbol):
        return found
    raise tokens.error(f"no variable or function '{name}' is declared", at)


def signed_offset(tokens: Tokens) -> int:
    """Read `+16` or `-4` behind a base, if it is there; `+-4` is what nvcc writes."""
    if tokens.text not in ("+", "-"):
        return 0
    if tokens.text == "+":
        tokens.at += 1
    return parse_integer(tokens, "an offset")


def _options(tokens: Tokens) -> Initial:
    """Step over the `{ addr_mode_0 = clamp_to_border, ... }` of a sampler."""
    tokens.expect("{")
    while not tokens.take("}"):
        if tokens.kind != WORD and tokens.text not in (",", "=") and not starts_constant(tokens):
            raise tokens.wanted("the options of a sampler")
        tokens.at += 1
    return ()
