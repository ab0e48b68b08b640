"""The words behind `--`: a program's own arguments, which no flag of ours is among."""

from __future__ import annotations

import sys
from collections.abc import Sequence

SEPARATOR = "--"
_taken: tuple[str, ...] | None = None


def split_rest(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words before the first `--`, and those behind it."""
    words = list(argv)
    if SEPARATOR not in words:
        return words, ()
    at = words.index(SEPARATOR)
    return words[:at], tuple(words[at + 1 :])


def use_rest(rest: tuple[str, ...]) -> None:
    """Set what `rest_of_command` returns."""
    global _taken
    _taken = rest


def rest_of_command() -> tuple[str, ...]:
    """Return the words behind `--`, of a command that Invoke itself read too: it joins them."""
    return split_rest(sys.argv)[1] if _taken is None else _taken
