"""One function of many values on all cores, in forked processes: what Python computes is shared.

What a child learns stays in it but for its results, which are pickled; so what all values have in
common is computed before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import TypeVar

from kernelrig.proc.workers import Died, Lost, Worker

Value = TypeVar("Value")
Result = TypeVar("Result")

LOOK_S = 0.2
MOST_PROCESSES = 8
"""To fork a client that has NumPy in it takes 10 ms."""
LEAST_VALUES = 4
"""Fewer are computed here."""


def forked_map(run: Callable[[Value], Result], values: Sequence[Value]) -> list[Result]:
    """Return what `run` returns of each value, in their order; its exception is raised here.

    Where this process has other threads, of which a fork is not whole, all is computed in it; so is
    what a child had to do that something has killed.
    """
    count = min(MOST_PROCESSES, len(os.sched_getaffinity(0)), len(values) // 2)
    if len(values) < LEAST_VALUES or count < 2 or threading.active_count() > 1:
        return [run(value) for value in values]
    shares = [values[number::count] for number in range(count)]
    found = _in_children(lambda share: [run(value) for value in share], shares)
    return [found[place % count][place // count] for place in range(len(values))]


def _in_children(
    run: Callable[[Sequence[Value]], list[Result]], shares: Sequence[Sequence[Value]]
) -> list[list[Result]]:
    workers: list[Worker[Sequence[Value], list[Result]]] = []
    found: list[list[Result]] = []
    try:
        for share in shares:  # one after the other: a child holds the pipes that there are
            workers.append(Worker(run))
            workers[-1].start()
            workers[-1].give(0, share)
        for worker, share in zip(workers, shares, strict=True):
            while not wait([worker.connection], LOOK_S):
                pass  # a signal is looked at
            ended = worker.take()
            if not isinstance(ended, Lost):
                found.append(ended)
            elif isinstance(ended.error, Died):
                found.append(run(share))
            else:
                raise ended.error
    finally:
        for worker in workers:
            worker.end()
    return found
