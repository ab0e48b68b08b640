"""Threads that run processes in parallel, and leave none running."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import ParamSpec, TypeVar

from kernelrig.proc.deferral import signals_deferred
from kernelrig.proc.process import STARTER, Starter

T = TypeVar("T")
P = ParamSpec("P")
LOOK_S = 0.2
"""A signal that comes just before a thread waits does not wake it: Python calls the handler when
the wait ends, of a compiler maybe minutes later. On a loaded machine that is not rare."""


class _Threads(ThreadPoolExecutor):
    """It knows each of its threads: one whose start a signal interrupts would not be waited for."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with signals_deferred():
            return super().submit(fn, *args, **kwargs)


@contextlib.contextmanager
def process_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads; leaving the block waits for them.

    An exception in the block (Ctrl-C is heard by the main thread alone) ends their processes.
    """
    starter = Starter()
    with _Threads(count, initializer=STARTER.set, initargs=(starter,)) as pool:
        try:
            yield pool
        except BaseException:
            # Otherwise leaving the block would wait for the processes, which may take minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            starter.end()
            raise


def run_jobs(jobs: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Run every job on all cores, whatever fails; each result or exception is in its future, all
    are done."""
    with process_threads(os.cpu_count() or 1) as pool:
        futures = [pool.submit(job) for job in jobs]
        while wait(futures, LOOK_S).not_done:
            pass
    return futures
