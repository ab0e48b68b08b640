"""Forked processes that run one task at a time, and what is known of one that dies.

A worker is forked with what it runs in it, so that this need not be pickled. It gets one task
after the other through a pipe and answers with the result, or the exception. Whatever ends it
instead (a fault in native code, the kernel of a system that is out of memory) ends no more than it.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, TypeVar

from kernelrig.proc.deferral import signals_deferred
from kernelrig.proc.interrupts import forget_signals
from kernelrig.proc.process import forget_processes

Task = TypeVar("Task")
Result = TypeVar("Result")

PR_SET_PDEATHSIG = 1
CONTEXT = multiprocessing.get_context("fork")


class Died(Exception):
    """A worker ended without an answer: by `signal`, or, where that is 0, with `exit_code`."""

    def __init__(self, ended: int) -> None:
        super().__init__(f"it ended its process: {ended}")
        self.signal, self.exit_code = max(-ended, 0), max(ended, 0)


class Failed(Exception):
    """An exception that cannot be pickled ended a task; the text is its traceback."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A task without a result: what ended it."""

    error: Exception


class Worker(Generic[Task, Result]):
    """A process that runs one task at a time, once it is started.

    `number` is that of its task, -1 for none.
    """

    def __init__(self, run: Callable[[Task], Result]) -> None:
        self.number = -1
        self.began = 0.0
        self.connection, self._theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_serve, args=(self._theirs, self.connection, run, os.getpid())
        )

    def start(self) -> None:
        with signals_deferred():
            self._process.start()
        self._theirs.close()

    def give(self, number: int, task: Task) -> None:
        self.number, self.began = number, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has died: `take` says of what
            self.connection.send(task)

    def take(self) -> Result | Lost:
        """Return the result of the task, or what it ended with instead."""
        self.number = -1
        try:
            ended, value = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            return Lost(Died(self._process.exitcode or 0))
        return value if ended else Lost(value)

    @property
    def ended(self) -> bool:
        return self._process.exitcode is not None

    def request_end(self) -> None:
        """Send it SIGTERM, if it was started: a task may have a handler that cleans up."""
        if self._process.pid is not None:
            self._process.terminate()

    def end(self, grace_s: float = 0.0) -> None:
        """End the process, if it was started: one of an interrupted `start` ends with the pipe."""
        if self._process.pid is not None:
            if grace_s:
                self._process.join(grace_s)
            self._process.kill()
            self._process.join()
        self.connection.close()


def _serve(
    connection: Connection, parents: Connection, run: Callable[[Task], Result], parent: int
) -> None:
    """Run tasks until the parent closes the pipe, or dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Ctrl-C is for the parent, which ends its workers; its own handlers are not for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    forget_signals()
    forget_processes()
    parents.close()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, object] = (True, run(task))
        except Exception as e:
            answer = (False, _portable(e))
        try:
            connection.send(answer)
        except MemoryError:
            connection.send((False, MemoryError("for what it found")))


def _portable(error: Exception) -> Exception:
    """Return an exception that can be sent, with the place that raised it as a note."""
    if isinstance(error, MemoryError):
        return MemoryError(str(error))
    error.add_note(raised_at(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its own methods raise
        return Failed("".join(traceback.format_exception(error)))
    return error


def raised_at(error: BaseException) -> str:
    """Return `file:line` of what raised it, in another process too."""
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[-1]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"
