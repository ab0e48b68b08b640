"""Text from a tool or a host, made safe for the place where a report shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"[\\`*<\[\]]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def printable(text: str) -> str:
    """Spell out what a terminal or an XML parser would choke on; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or _is_plain(c) else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Join lines with ` / `: a field of a table, an attribute, never a line of its own."""
    lines = (line.strip() for line in printable(text).replace("\t", " ").splitlines())
    return " / ".join(line for line in lines if line)


def markdown(text: str) -> str:
    """Show `text` literally in Markdown; `__global__` is no bold word."""
    return _MARKDOWN.sub(lambda m: "&lt;" if m[0] == "<" else "\\" + m[0], one_line(text))


def markdown_code(text: str) -> str:
    """A code span; a backtick inside would end it."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows under each other; the last column is as long as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def render_rows(rows: Sequence[tuple[str, ...]]) -> str:
    """Align a table whose cells may come from anywhere."""
    return columns([tuple(map(one_line, row)) for row in rows])


def _is_plain(c: str) -> bool:
    # isprintable() is false for controls, lone surrogates, unassigned code points and every
    # separator but the space; of what is left, these are not allowed in XML 1.0.
    return c.isprintable() and c not in "\ufffe\uffff"


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
