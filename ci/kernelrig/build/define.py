"""Quote -D values so that they reach the compiler as written.

nvcc takes an argument vector but hands it on through `sh -c`, and quotes wrongly: `$(...)` in a -D
value is executed, a comma splits it, a backslash before a quote is lost. So a value is written
with the few characters that survive: other characters of a string become octal escapes, which mean
the same to the compiler.
"""

from __future__ import annotations

import re

from kernelrig.errors import ConfigError

_SAFE_IN_TEXT = re.compile(r"[^\w .,:;+*/%&|~!<>=?(){}\[\]^#@-]", re.ASCII)
_PLAIN = re.compile(r"[\w .,:;+*/%&|~!<>=?(){}\[\]^-]*", re.ASCII)
_LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def c_string(text: str) -> str:
    """Return `text` as a C string literal."""
    return f'"{_octal(text)}"'


def define_value(name: str, value: str | int | float) -> str:
    """Return `value` as written after `-DNAME=`: strings unchanged, literals escaped."""
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str):
        return repr(value)
    written, end = [], 0
    for literal in _LITERAL.finditer(value):
        written += [_plain(name, value[end : literal.start()]), _safe_literal(literal[0])]
        end = literal.end()
    return "".join([*written, _plain(name, value[end:])])


def host_define(name: str, value: str) -> str:
    return f"-D{name}={value}"


def nvcc_define(name: str, value: str) -> str:
    """Return the flag for nvcc, which splits values at commas and strips a level of backslashes."""
    escaped = value.replace("\\", "\\\\").replace(",", "\\,")
    return f"-D{name}={escaped}"


def _octal(text: str) -> str:
    return _SAFE_IN_TEXT.sub(lambda c: "".join(f"\\{b:03o}" for b in c[0].encode()), text)


def _safe_literal(literal: str) -> str:
    """Keep the escapes a literal has (`\\n`, `\\033`); only quotes and backslashes turn octal."""
    quote, text = literal[0], literal[1:-1]
    parts, end = [], 0
    for escape in _ESCAPE.finditer(text):
        parts.append(_octal(text[end : escape.start()]))
        parts.append(escape[0] if escape[1].isalnum() else _octal(escape[1]))
        end = escape.end()
    return quote + "".join([*parts, _octal(text[end:])]) + quote


def _plain(name: str, text: str) -> str:
    if not _PLAIN.fullmatch(text):
        odd = "".join(sorted({c for c in text if not _PLAIN.fullmatch(c)}))
        raise ConfigError(
            f"define {name} holds {odd!r} outside a string literal",
            "write it inside double quotes, or put it in a header",
        )
    return text
