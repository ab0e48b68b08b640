"""Processes that run schedules of one launch, and what is known of one that dies.

A worker is forked with the launch in it, which holds functions and cannot be pickled. It gets one
task after the other through a pipe and answers with the result, or the exception. Whatever ends it
instead (a fault in native code, the kernel of a system that is out of memory) ends no more than it:
the parent reads in `Progress` where it was, and another process takes the tasks that are left.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from kernelrig.emu.machine.progress import AT, LAST, Progress
from kernelrig.errors import CiError
from kernelrig.proc.deferral import signals_deferred

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
class Loss:
    """A task without a result: what ended it, and the first and the last of the instructions that
    were being executed then, -1 for none."""

    error: Exception
    at: int
    last: int


class Worker(Generic[Task, Result]):
    """A process that runs one task at a time, once it is started.

    `number` is that of its task, -1 for none.
    """

    def __init__(self, run: Callable[[Task, Progress], Result]) -> None:
        self.progress = Progress()
        self.number = -1
        self.began = 0.0
        self.connection, self._theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_serve, args=(self._theirs, self.connection, run, self.progress, os.getpid())
        )

    def start(self) -> None:
        with signals_deferred():
            self._process.start()
        self._theirs.close()

    def give(self, number: int, task: Task) -> None:
        self.number, self.began = number, time.monotonic()
        self.progress.restart()
        with contextlib.suppress(BrokenPipeError):  # it has died: `take` says of what
            self.connection.send(task)

    def take(self) -> Result | Loss:
        """Return the result of the task, or what it ended with instead. Raises CiError of it."""
        self.number = -1
        try:
            ended, value = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            return self._loss(Died(self._process.exitcode or 0))
        if ended:
            result: Result = value
            return result
        if isinstance(value, CiError):
            raise value
        return self._loss(value)

    def _loss(self, error: Exception) -> Loss:
        return Loss(error, self.progress.cells[AT], self.progress.cells[LAST])

    @property
    def ended(self) -> bool:
        return self._process.exitcode is not None

    def end(self) -> None:
        """End the process, if it was started: one of an interrupted `start` ends with the pipe."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self.connection.close()


class Workers(Generic[Task, Result]):
    """Up to `count` workers; those that are left when the block ends are killed.

    `once`: each of them runs one task, in the memory of this process as it is.
    """

    def __init__(
        self, run: Callable[[Task, Progress], Result], count: int, *, once: bool = False
    ) -> None:
        self._run, self.count, self._once = run, count, once
        self.workers: list[Worker[Task, Result]] = []

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.end()

    @property
    def busy(self) -> list[Worker[Task, Result]]:
        return [w for w in self.workers if w.number >= 0]

    def map(
        self,
        tasks: Sequence[Task],
        look: Callable[[int], None],
        look_s: float,
        hopeless: Callable[[Mapping[int, Result | Loss]], bool],
    ) -> dict[int, Result | Loss]:
        """Return what each task ended with, by its place.

        `look` is called with how many have ended, each `look_s`. A CiError of a task ends all;
        once those that have ended are `hopeless`, there is nothing of the others.
        """
        results: dict[int, Result | Loss] = {}
        left = list(enumerate(tasks))[::-1]
        while len(results) < len(tasks) and not hopeless(results):
            if left and len(self.workers) < self.count:
                self.workers.append(Worker(self._run))
                self.workers[-1].start()  # known before: Ctrl-C may come as it starts
            for worker in self.workers:
                if worker.number < 0 and left:
                    worker.give(*left.pop())
            busy = {w.connection: w for w in self.busy}
            starting = bool(left) and len(self.workers) < self.count
            for ready in wait(busy, 0.0 if starting else look_s):
                worker = busy[ready]  # type: ignore[index]  # no sockets or descriptors among them
                number = worker.number
                results[number] = worker.take()
                if self._once or worker.ended:
                    self.workers.remove(worker)
                    worker.end()
            look(len(results))
        return results


def _serve(
    connection: Connection,
    parents: Connection,
    run: Callable[[Task, Progress], Result],
    progress: Progress,
    parent: int,
) -> None:
    """Run tasks until the parent closes the pipe, or dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Ctrl-C is for the parent, which ends its workers; its own handlers are not for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    parents.close()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, object] = (True, run(task, progress))
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
