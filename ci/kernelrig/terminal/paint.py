"""Plain text of a report as a terminal shows it: verdicts in colour, lines no wider than it is.

Reports return plain text, which files, pipes and tests get as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

_COLOURS = {
    "pass": "32",
    "fail": "31;1",
    "error": "35;1",
    "skip": "33",
    "incomplete": "35;1",
    "ok": "32",
    "missing": "31;1",
}
# A verdict is at the start of a line before a colon or two spaces, or alone in a cell of a table.
_VERDICT = re.compile(
    rf"(?:^|(?<=  ))({'|'.join(_COLOURS)})(?=(?: \(\d+ accepted\))?(?:, of .+? only)?(?::|  |$))",
    re.MULTILINE,
)
_LEAST_WIDTH = 40


def for_stdout(text: str) -> str:
    """Return `text` broken and coloured for stdout; unchanged if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return text
    text = fit(text, shutil.get_terminal_size().columns)
    return text if os.environ.get("NO_COLOR") else colour(text)


def colour(text: str) -> str:
    return _VERDICT.sub(lambda m: f"\x1b[{_COLOURS[m[1]]}m{m[1]}\x1b[0m", text)


def fit(text: str, width: int) -> str:
    """Break lines that are wider than `width`, below the start of their last column."""
    width = max(width, _LEAST_WIDTH)
    return "\n".join(_fit_line(line, width) for line in text.split("\n"))


def _fit_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    starts = [m.end() for m in re.finditer(r"\S {2,}(?=\S)|^ +(?=\S)", line)]
    # A last column that starts past the middle would leave it a few letters a line.
    start = max((start for start in starts if start <= width // 2), default=0)
    indent = start or 2
    rest = textwrap.wrap(
        line[start:], width - indent, break_long_words=False, break_on_hyphens=False
    )
    return line[:start] + f"\n{' ' * indent}".join(rest)
