"""Work items in processes of this machine: forked, so that a task's module is there already."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from types import FrameType

from kernelrig.engines.task_registry import decode, encode, perform
from kernelrig.engines.work import ATTEMPTS, LIMIT_S, Engine, WorkItem, WorkResult, distinct
from kernelrig.proc import end_processes
from kernelrig.proc.workers import Died, Lost, Worker, raised_at

GRACE_S = 2.0
"""How long a worker may take to end the processes that it started."""
LOOK_S = 0.5
"""A signal that comes just before this process waits is heard when the wait ends."""


@dataclass(slots=True)
class _Running:
    """A worker, and the item that it runs until `end_s`, if any."""

    worker: Worker[str, str]
    item: WorkItem | None = None
    attempt: int = 0
    end_s: float = field(default=float("inf"))


class LocalEngine(Engine):
    """Up to `count` processes: by default as many as this process may use CPUs."""

    label = "local"

    def __init__(self, count: int = 0, *, limit_s: float = LIMIT_S) -> None:
        self.count = count or len(os.sched_getaffinity(0))
        self._limit_s = limit_s
        self._running: list[_Running] = []
        # Of the workers' temporary files nothing is left, even of one that is killed.
        self._folder = tempfile.TemporaryDirectory(prefix="kernelrig-", ignore_cleanup_errors=True)

    def run(self, items: Iterable[WorkItem]) -> Generator[WorkResult, None, None]:
        source = distinct(items)
        again: deque[tuple[WorkItem, int]] = deque()
        try:
            self._fill(source, again)
            while busy := {r.worker.connection: r for r in self._running if r.item}:
                ready = wait(busy, LOOK_S)
                ended = [busy[connection] for connection in ready]  # type: ignore[index]
                now = time.monotonic()
                late = [r for r in busy.values() if r.end_s <= now and r not in ended]
                results = [self._take(running, again) for running in ended]
                results += [self._too_long(running) for running in late]
                self._fill(source, again)  # before the caller has the results: no worker idles
                yield from (result for result in results if result)
        finally:
            self._end([r for r in self._running if r.item])

    def close(self) -> None:
        self._end(list(self._running))
        self._folder.cleanup()

    def _end(self, these: Sequence[_Running]) -> None:
        for running in these:
            running.worker.request_end()
        for running in these:
            running.worker.end(GRACE_S)
            self._running.remove(running)

    def _fill(self, source: Iterator[WorkItem], again: deque[tuple[WorkItem, int]]) -> None:
        """Give an item to every worker without one, and start workers while there are items."""
        idle = [r for r in self._running if not r.item]
        while idle or len(self._running) < self.count:
            try:
                item, attempt = again.popleft() if again else (next(source), 1)
            except StopIteration:
                return
            order = encode(item)
            if not idle:
                running = _Running(Worker(self._perform))
                self._running.append(running)  # known before: Ctrl-C may come as it starts
                running.worker.start()
                idle.append(running)
            running = idle.pop()
            running.item, running.attempt = item, attempt
            running.end_s = time.monotonic() + self._limit_s
            running.worker.give(attempt, order)

    def _take(self, running: _Running, again: deque[tuple[WorkItem, int]]) -> WorkResult | None:
        """Return the result of an item, or None where it is to be run again."""
        item, attempt = running.item, running.attempt
        assert item is not None, "only workers with an item are waited for"
        running.item, running.end_s = None, float("inf")
        taken = running.worker.take()
        if not isinstance(taken, Lost):
            return decode(taken, item, attempt)
        error = taken.error
        if not isinstance(error, Died):
            text = f"{type(error).__name__} at {raised_at(error)}: {error}"
            return WorkResult(item.key, error=text, attempts=attempt, where=self.label)
        self._running.remove(running)
        running.worker.end()
        if attempt < ATTEMPTS:
            again.append((item, attempt + 1))
            return None
        how = f"signal {signal.Signals(error.signal).name}" if error.signal else ""
        text = f"its worker died {attempt} times, of {how or f'exit code {error.exit_code}'}"
        return WorkResult(item.key, error=text, attempts=attempt, where=self.label)

    def _too_long(self, running: _Running) -> WorkResult:
        item = running.item
        assert item is not None, "only workers with an item have a limit"
        self._end([running])
        return WorkResult(
            item.key,
            error=f"it did not end within {self._limit_s:g} s",
            attempts=running.attempt,
            seconds=self._limit_s,
            where=self.label,
        )

    def _perform(self, order: str) -> str:
        """Run an item, in a worker."""
        tempfile.tempdir = self._folder.name
        os.environ["TMPDIR"] = self._folder.name
        signal.signal(signal.SIGTERM, _end_here)
        return perform(order)


def _end_here(_: int, __: FrameType | None) -> None:
    """End the processes that this worker started, and it."""
    end_processes()
    os._exit(128 + signal.SIGTERM)
