"""The word for an exit code, and counts in words: what every verdict of the emulator is made of."""

from __future__ import annotations

from kernelrig.errors import IncompleteError

_WORDS = {0: "pass", 1: "fail", IncompleteError.exit_code: "incomplete"}
_OTHER = "error"
"""What any other exit code is: nothing was established."""


def verdict_word(code: int, accepted: int = 0) -> str:
    """Return what an exit code says, as reports of runs do: `pass (1 accepted)`."""
    return _WORDS.get(code, _OTHER) + (f" ({accepted} accepted)" if accepted else "")


def counted(number: int, what: str) -> str:
    """Return `1 launch`, `2 launches`."""
    plural = "es" if what.endswith("ch") else "s"
    return f"{number} {what}{'' if number == 1 else plural}"
