"""Signals that wait while a process is being started."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

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
    handlers = {
        number: handler for number in _DEFERRED if callable(handler := signal.getsignal(number))
    }
    for number in handlers:
        signal.signal(number, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late in asked:
        signal.raise_signal(late)
