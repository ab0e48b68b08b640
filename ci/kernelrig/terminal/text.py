"""Text from a tool or a host, made safe for the place where a report shows it.

Every escape is here: of what a terminal acts on, of letters that hide or turn others around, of
commands that a CI's runner reads in a log, of Markdown, HTML, XML and JSON.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

_MARKDOWN = re.compile(r"[\\`*<\[\]]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_MARKUP = re.compile(
    r"[\\`*\[\]$]|~|www\.|<[^\s<]|&#?\w+;|^[>#@]|://|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
)
"""What may be markup inside a word; `a < b` is none."""

_PUNCTUATED = re.compile(r"([(\"']*)(.*?)([)\"'.,;:!?]*)")


_BLANK = (
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0",
    *map(chr, range(0xFE00, 0xFE10)),
    *map(chr, range(0xE0100, 0xE01F0)),
)
"""Letters and marks that show nothing: what Unicode ignores by default, and is no format character.

Format characters (zero width, directions: U+200B, U+202E, U+2066) are not printable in Python.
"""

_UNSEEN = frozenset(("\ufffe", "\uffff", *_BLANK))

_RUNNERS = (
    "add-mask|add-matcher|add-path|debug|echo|endgroup|error|group|notice|remove-matcher|save-state"
    "|set-env|set-output|stop-commands|warning"
)
_KNOWN_COMMAND = re.compile(rf"(?<![\w\\])(?=::(?:{_RUNNERS})\b[^\n]*::)")
_ANY_COMMAND = re.compile(r"^([ \t]*)(?=::)", re.MULTILINE)
"""GitHub's runner trims a line, and reads a command where it then begins with `::`. One that has a
name that it knows is escaped anywhere: ` ::error::` is one, `std::error` is none."""

_OLD_COMMAND = re.compile(r"#(?=#\w*\[)")
"""`##[command]` of GitHub, `##vso[...]` of Azure, `##teamcity[...]`: read anywhere in a line."""


def log_text(text: str) -> str:
    """Return text for stdout or stderr: it is what it shows, and no runner of a CI obeys it."""
    shown = _ANY_COMMAND.sub(r"\1\\", _KNOWN_COMMAND.sub(r"\\", printable(text)))
    return _OLD_COMMAND.sub(r"#\\", shown)


def log_json(document: str) -> str:
    """Return a JSON document for stdout, of the same value, in which all is escaped as in a log."""
    import json

    shown = "".join(c if c == "\n" or _is_plain(c) else json.dumps(c)[1:-1] for c in document)
    return _OLD_COMMAND.sub(r"\\u0023", shown)


def printable(text: str) -> str:
    """Escape what may not be in XML, controls a terminal or is not seen; newlines and tabs stay."""
    return "".join(c if c in "\n\t" or _is_plain(c) else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Join lines with ` / `: a field of a table, an attribute, never a line of its own."""
    lines = (line.strip() for line in printable(text).replace("\t", " ").splitlines())
    return " / ".join(line for line in lines if line)


def html_text(text: str) -> str:
    """Return `text` for an element or a quoted attribute of HTML, which shows it literally."""
    return html.escape(printable(text), quote=True)


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
    said = message if name == "add-mask" else printable(message)  # a secret is masked as it is
    return f"::{name}{' ' if words else ''}{words}::{_command_data(said)}"


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows under each other; the last column is as long as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def render_rows(rows: Sequence[tuple[str, ...]]) -> str:
    """Align a table whose cells may come from anywhere."""
    return columns([tuple(map(one_line, row)) for row in rows])


def _command_data(text: str, *, in_property: bool = False) -> str:
    text = printable(text) if in_property else text
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


def times(elapsed_s: float, expected_s: float) -> str:
    """`12 s`, or `12 s of about 25 s` where earlier ones are known."""
    elapsed = f"{elapsed_s:.0f} s"
    return f"{elapsed} of about {expected_s:.0f} s" if expected_s >= 0.5 else elapsed


def _is_plain(c: str) -> bool:
    # isprintable() is false for controls, lone surrogates, unassigned code points and every
    # separator but the space; of what is left, these are not allowed in XML 1.0.
    return c.isprintable() and c not in _UNSEEN


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")
