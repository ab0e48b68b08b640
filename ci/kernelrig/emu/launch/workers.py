"""Processes that run schedules of one launch, and where in the kernel one was that dies.

A worker is forked with the launch in it, which holds functions and cannot be pickled. If it dies,
the parent reads in `Progress` where it was, and another process takes the tasks that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import TracebackType
from typing import Generic, TypeVar

from kernelrig.emu.machine.progress import AT, LAST, Progress
from kernelrig.errors import CiError
from kernelrig.proc import workers

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Loss:
    """A task without a result: what ended it, and the first and the last of the instructions that
    were being executed then, -1 for none."""

    error: Exception
    at: int
    last: int


class Worker(Generic[Task, Result]):
    """A process that runs one task at a time, and its progress."""

    def __init__(self, run: Callable[[Task, Progress], Result]) -> None:
        self.progress = progress = Progress()
        self.process = workers.Worker[Task, Result](lambda task: run(task, progress))

    def start(self) -> None:
        self.process.start()

    def give(self, number: int, task: Task) -> None:
        self.progress.restart()
        self.process.give(number, task)

    def take(self) -> Result | Loss:
        """Return the result of the task, or what it ended with instead. Raises CiError of it."""
        taken = self.process.take()
        if not isinstance(taken, workers.Lost):
            return taken
        if isinstance(taken.error, CiError):
            raise taken.error
        return Loss(taken.error, self.progress.cells[AT], self.progress.cells[LAST])

    @property
    def number(self) -> int:
        return self.process.number


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
            worker.process.end()

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
            busy = {w.process.connection: w for w in self.busy}
            starting = bool(left) and len(self.workers) < self.count
            for ready in wait(busy, 0.0 if starting else look_s):
                worker = busy[ready]  # type: ignore[index]  # no sockets or descriptors among them
                number = worker.number
                results[number] = worker.take()
                if self._once or worker.process.ended:
                    self.workers.remove(worker)
                    worker.process.end()
            look(len(results))
        return results
