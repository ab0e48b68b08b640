"""Processes that run schedules of one launch, and what is known of one that dies.

A worker is forked with the launch in it, which holds functions and cannot be pickled. It gets one
task after the other through a pipe and answers with the result, or the exception. Whatever ends it
instead (a fault in native code, the kernel of a system that is out of memory) ends no more than it:
the parent reads in `Progress` where it was.
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
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from kernelrig.emu.machine.progress import Progress
from kernelrig.proc.deferral import signals_deferred

Task = TypeVar("Task")
Result = TypeVar("Result")

PR_SET_PDEATHSIG = 1
CONTEXT = multiprocessing.get_context("fork")


class Died(Exception):
    """A worker ended without an answer: by `signal`, 0 if it exited, while it ran task `number`."""

    def __init__(self, number: int, signal_number: int, progress: Progress) -> None:
        super().__init__(f"task {number} ended its process, signal {signal_number}")
        self.number = number
        self.signal = signal_number
        self.progress = progress


class Failed(Exception):
    """An exception that cannot be pickled ended a task; the text is its traceback."""


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

    def take(self) -> Result:
        """Return the result of the task. Raises what ended it; Died, if the process ended."""
        number, self.number = self.number, -1
        try:
            ended, value = self.connection.recv()
        except (EOFError, OSError) as e:
            self._process.join()
            raise Died(number, max(-(self._process.exitcode or 0), 0), self.progress) from e
        if ended:
            result: Result = value
            return result
        raise value

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
        self, tasks: Sequence[Task], look: Callable[[int], None], look_s: float
    ) -> list[Result]:
        """Return the result of each task; `look` is called with how many are done, each `look_s`.

        What the first task to fail raises ends all. Raises Died for a worker that ended.
        """
        results: dict[int, Result] = {}
        left = list(enumerate(tasks))[::-1]
        while len(results) < len(tasks):
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
                if self._once:
                    self.workers.remove(worker)
                    worker.end()
            look(len(results))
        return [results[number] for number in range(len(tasks))]


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
        connection.send(answer)


def _portable(error: Exception) -> Exception:
    """Return an exception that can be sent, with the place that raised it as a note."""
    error.add_note(raised_at(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its own methods raise
        return Failed("".join(traceback.format_exception(error)))
    return error


def raised_at(error: BaseException) -> str:
    """Return `file:line` of what raised it, in another process too."""
    notes: list[str] = getattr(error, "__notes__", [])
    last = traceback.extract_tb(error.__traceback__)[-1]
    return notes[-1] if notes else f"{Path(last.filename).name}:{last.lineno}"
