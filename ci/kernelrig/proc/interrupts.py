"""SIGINT, SIGTERM and SIGHUP: all three end a task as Ctrl-C does.

The first raises Interrupted in the main thread, or, inside `held_back`, where that next lets it
through: a run's records and reports are never left half written. A second one is noted, so that the
clean-up goes on: CI runners send SIGINT and, seconds later, SIGTERM. A third ends the process at
once, by that signal. A closed terminal sends SIGHUP more than once, which never counts twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from kernelrig.errors import INTERRUPTED, Interrupted
from kernelrig.proc.process import end_processes

_TEXTS = {
    signal.SIGINT: f"{INTERRUPTED} the user",
    signal.SIGTERM: f"{INTERRUPTED} SIGTERM",
    signal.SIGHUP: f"{INTERRUPTED} SIGHUP, as the terminal was closed",
}
_NOTED = b"still cleaning up and writing the reports; a third signal ends it at once\n"


@dataclass(slots=True)
class _State:
    """`cause` is the first signal, `raised` whether it was; `before` has the earlier handlers."""

    held: bool = False
    count: int = 0
    cause: Interrupted | None = None
    raised: bool = False
    before: dict[int, Any] = field(default_factory=dict)

    def handle(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP and self.count:
            return
        self.count += 1
        if self.count == 1:
            self.cause = Interrupted(_TEXTS[signal.Signals(number)])
            self.raise_pending()
        elif self.count == 2:
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, _NOTED)
        else:
            end_processes()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def raise_pending(self) -> None:
        if self.cause is not None and not self.raised and not self.held:
            self.raised = True
            raise self.cause


_state: _State | None = None


@contextlib.contextmanager
def catch_signals() -> Iterator[None]:
    """Handle the signals until the block ends; nothing to do inside another such block.

    What is ignored stays ignored: SIGHUP under nohup, SIGINT in a shell's background job.
    """
    global _state
    if _state is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _state = state = _State()
    try:
        for number in _TEXTS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                state.before[number] = signal.signal(number, state.handle)
        yield
    finally:
        for caught, handler in state.before.items():
            signal.signal(caught, handler)
        _state = None


def forget_signals() -> None:
    """Know of no handlers: in a fork, those of the parent are not this process's."""
    global _state
    _state = None


def signals_seen() -> int:
    """Return how many signals have come since they are caught."""
    return _state.count if _state is not None else 0


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Raise nothing until the block ends, except where `let_through` says so."""
    with _holding(True):
        yield


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Raise what was held back, and what comes until the block ends."""
    with _holding(False):
        yield


@contextlib.contextmanager
def _holding(held: bool) -> Iterator[None]:
    state = _state
    if state is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = state.held
    try:
        state.held = held
        state.raise_pending()
        yield
    finally:
        state.held = before
