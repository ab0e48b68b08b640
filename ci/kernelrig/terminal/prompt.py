"""A question of one line, asked where a person is likely to see it; nobody has to answer."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable

_TICK_S = 0.1
_LONGEST = 1000


def agrees(question: str, letter: str, wait_s: float, give_up: Callable[[], bool]) -> bool:
    """Ask, and return whether the answer is `letter` or a word that begins with it.

    No terminal, no answer within `wait_s`, another answer, or `give_up`: false.
    """
    try:
        stdin = sys.stdin.fileno()
        if not (os.isatty(stdin) and sys.stderr.isatty()):
            return False
    except (OSError, ValueError, AttributeError):  # closed
        return False
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{question} ({wait_s:g} s): ")
        sys.stderr.flush()
        answer = _line(stdin, time.monotonic() + wait_s, give_up)
        if not answer.endswith(b"\n"):
            sys.stderr.write("\n")
        return answer.strip().lower().startswith(letter.encode())
    return False


def _line(stdin: int, deadline: float, give_up: Callable[[], bool]) -> bytes:
    while time.monotonic() < deadline and not give_up():
        if select.select([stdin], [], [], _TICK_S)[0]:
            return os.read(stdin, _LONGEST)  # a terminal gives whole lines
    return b""
