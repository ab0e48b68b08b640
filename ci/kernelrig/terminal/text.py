"""Text from a tool or a host, made safe for the place where a report shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"[\\`*<\[\]]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_MARKUP = re.compile(
    r"[\\`*\[\]$]|~|www\.|<[^\s<]|&#?\w+;|^[>#@]|://|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
)
"""What may be markup inside a word; `a < b` is none."""

_PUNCTUATED = re.compile(r"([(\"']*)(.*?)([)\"'.,;:!?]*)")


def printable(text: str) -> str:
    """Escape what may not be in XML or would control a terminal; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or _is_plain(c) else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Join lines with ` / `: a field of a table, an attribute, never a line of its own."""
    lines = (line.strip() for line in printable(text).replace("\t", " ").splitlines())
    return " / ".join(line for line in lines if line)


def markdown(text: str) -> str:
    """Return `text` so that Markdown shows it literally: words with markup become code spans."""
    return " ".join(map(_markdown_word, one_line(text).split(" ")))


def markdown_cell(text: str) -> str:
    """Return `text` for a cell of a table, escaped: a `|` would end the cell in a code span too."""
    escaped = _MARKDOWN.sub(lambda m: "&lt;" if m[0] == "<" else "\\" + m[0], one_line(text))
    return escaped.replace("|", "\\|")


def markdown_code(text: str) -> str:
    """Return a code span, delimited by more backticks than `text` has in a row."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    inside = f" {text} " if text.startswith("`") or text.endswith("`") else text
    return f"{fence}{inside}{fence}" if text else ""


def workflow_command(name: str, message: str, **properties: str) -> str:
    """Return a command for the log of GitHub Actions; data can neither end it nor start another."""
    words = ",".join(f"{k}={_command_data(v, in_property=True)}" for k, v in properties.items())
    return f"::{name}{' ' if words else ''}{words}::{_command_data(message)}"


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows under each other; the last column is as long as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def render_rows(rows: Sequence[tuple[str, ...]]) -> str:
    """Align a table whose cells may come from anywhere."""
    return columns([tuple(map(one_line, row)) for row in rows])


def _command_data(text: str, *, in_property: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text


def _markdown_word(word: str) -> str:
    """Return a word, as a code span without the punctuation around it where it has markup."""
    if not _MARKUP.search(word):
        return word
    found = _PUNCTUATED.fullmatch(word)
    assert found is not None, "it matches any word"
    before, core, after = found.groups()
    while after.startswith(")") and core.count("(") > core.count(")"):
        core, after = core + ")", after[1:]
    return f"{before}{markdown_code(core)}{after}"


def _is_plain(c: str) -> bool:
    # isprintable() is false for controls, lone surrogates, unassigned code points and every
    # separator but the space; of what is left, these are not allowed in XML 1.0.
    return c.isprintable() and c not in "\ufffe\uffff"


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
