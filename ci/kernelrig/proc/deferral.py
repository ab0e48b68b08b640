"""Signals that wait while a process or a thread is being started."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP wait: their handlers are called at the end of the block.

    What a handler raises while a process is being started is lost in what Python calls after a
    fork, or leaves a process that nobody knows of yet. Signals without a handler of Python's are
    left alone: one that is ignored stays ignored in the process that is started.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    over = False
    handlers = {
        number: handler for number in _DEFERRED if callable(handler := signal.getsignal(number))
    }

    def later(number: int, frame: FrameType | None) -> None:
        if over:
            handlers[signal.Signals(number)](number, frame)
        else:
            asked.append(number)

    try:
        for number in handlers:
            signal.signal(number, later)
        yield
    finally:
        over = True  # first: what a handler raises from here on may keep others from being put back
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _raise_each(asked)


def _raise_each(numbers: list[int]) -> None:
    """Call the handler of each, whatever the ones before raise."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _raise_each(numbers[1:])
