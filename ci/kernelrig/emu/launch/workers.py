"""Processes that run schedules of one launch, and where in the kernel one was that dies.

A worker is forked with the launch in it, which holds functions and cannot be pickled. If it dies,
the parent reads in `Progress` where it was, and another process takes the tasks that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import TracebackType
from typing import Generic, TypeVar

from kernelrig.emu.machine.progress import AT, LAST, Progress
from kernelrig.errors import CiError
from kernelrig.proc import workers

Task = TypeVar("Task")
Result = TypeVar("Result")
MOST_STANDING = 8
"""Kernels that a program launches in turns."""
MOST_USES = 256
"""Launches of one worker: what it may lose of memory is given back then."""


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

    `once`: each of them runs one task, in the memory of this process as it is. `stay`: those that
    wait for a task when the block ends stay, for the next one, until `end`.
    """

    def __init__(
        self,
        run: Callable[[Task, Progress], Result],
        count: int,
        *,
        once: bool = False,
        stay: bool = False,
    ) -> None:
        self._run, self.count, self._once, self._stay = run, count, once, stay
        self.workers: list[Worker[Task, Result]] = []
        self.uses = 0

    def __enter__(self) -> Workers[Task, Result]:
        self.uses += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        if kind is not None or self.busy or not self._stay:
            self.end()

    def end(self) -> None:
        """Kill them."""
        for worker in self.workers:
            worker.process.end()
        self.workers = []

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


class StandingWorkers(Generic[Task, Result]):
    """A worker for each of the last few launches, which runs those that are like it as well.

    What a worker runs is in it since it was forked, but memory that processes share: `key` says all
    else that a launch depends on.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Workers[Task, Result]] = {}  # the one used last is the last

    def of(self, key: Hashable, run: Callable[[Task, Progress], Result]) -> Workers[Task, Result]:
        """Return the worker that runs launches of this key: a new one runs `run`."""
        kept = self._kept.pop(key, None)
        if kept is not None and kept.uses >= MOST_USES:
            kept.end()
            kept = None
        self._kept[key] = kept = kept or Workers(run, 1, stay=True)
        while len(self._kept) > MOST_STANDING:
            self._kept.pop(next(iter(self._kept))).end()
        return kept

    def end(self) -> None:
        """Kill them all."""
        for kept in self._kept.values():
            kept.end()
        self._kept.clear()
