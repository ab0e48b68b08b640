"""Progress for people, on stderr: one line an event, stamped with the seconds since the start."""

from __future__ import annotations

import sys
import time

_BEGAN = time.monotonic()


def say(line: str) -> None:
    """Print one line of progress. Results never go here: stdout and files carry those."""
    # One write: builds speak from several threads, and print writes the end of a line apart.
    sys.stderr.write(f"[{time.monotonic() - _BEGAN:7.1f}] {line}\n")
    sys.stderr.flush()
