"""Progress for people, on stderr: one line an event, stamped with the seconds since the start."""

from __future__ import annotations

import sys
import time

_BEGAN = time.monotonic()


def say(line: str) -> None:
    """Print one line of progress. Results never go here: stdout and files carry those."""
    print(f"[{time.monotonic() - _BEGAN:7.1f}] {line}", file=sys.stderr, flush=True)  # noqa: T201 - the one printer of progress
