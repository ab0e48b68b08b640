"""Progress on stderr; results go to stdout and to files.

One line per event, with the seconds since the start. On a terminal each step in progress is shown
below these lines with its elapsed and its expected time, and is removed when it ends. Elsewhere, in
the log of a CI job, a step that takes long says every half minute that it goes on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelrig.terminal.command_name import as_typed
from kernelrig.terminal.text import log_text, one_line, times, workflow_command

if TYPE_CHECKING:
    from kernelrig.terminal.live import Live

_BEGAN = time.monotonic()
_LOCK = threading.RLock()
_masked: set[str] = set()
_live: Live | None = None
_label = ""
REMIND_S = 30.0
"""Seconds between two lines about one step where there is no terminal."""


def label(text: str) -> None:
    """Begin each line of this process with `text`: it is one of several that share the log."""
    global _label
    _label = f"{text}: " if text else ""


def say(line: str) -> None:
    """Print one line of progress."""
    stamped = log_text(f"[{time.monotonic() - _BEGAN:7.1f}] {_label}{as_typed(line)}\n")
    # One write: several threads call this, and print() writes text and newline separately.
    # A terminal that was closed, a full disk: progress ends, and the run goes on without it.
    with _LOCK, contextlib.suppress(OSError):
        if _live is not None:
            _live.write(stamped)
        else:
            sys.stderr.write(stamped)
            sys.stderr.flush()


def mask(values: Iterable[str]) -> None:
    """Have GitHub Actions show `***` for these values in the job's log, from here on.

    It does so by itself for a whole secret, and not for a part of it, as the host of USER@HOST is.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    with _LOCK:
        for value in values:
            if value and value not in _masked:
                _masked.add(value)
                sys.stderr.write(workflow_command("add-mask", value) + "\n")
        sys.stderr.flush()


@contextmanager
def working(text: str, expected_s: float = 0.0) -> Iterator[None]:
    """Print `text`, and show it as in progress until the block ends; `expected_s` 0 = unknown."""
    say(text)
    end = begin(text, expected_s)
    try:
        yield
    finally:
        end()


def begin(text: str, expected_s: float = 0.0) -> Callable[[], None]:
    """Show `text` as in progress until the returned function is called.

    Steps in progress in several threads are shown together.
    """
    global _live
    if not is_terminal():
        ended = threading.Event()
        threading.Thread(target=_remind, args=(text, expected_s, ended), daemon=True).start()
        return ended.set
    with _LOCK:
        if _live is None:
            from kernelrig.terminal.live import Live

            try:
                _live = Live()
            except OSError:
                return lambda: None
        shown = _live.add(one_line(text), expected_s)

    def end() -> None:
        global _live
        with _LOCK, contextlib.suppress(OSError):
            if _live is not None and not _live.remove(shown):
                _live = None

    return end


def _remind(text: str, expected_s: float, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(REMIND_S):
        say(f"{text}: goes on, {times(time.monotonic() - began, expected_s)}")


def is_terminal() -> bool:
    """Return whether stderr is a terminal on which lines can be rewritten, by us alone."""
    return not _label and sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
