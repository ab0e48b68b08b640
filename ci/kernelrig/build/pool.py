"""Run compilers in parallel: on all cores, every job to its end, none left running."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kernelrig.proc import end_processes

T = TypeVar("T")


def run_jobs(jobs: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Run every job, whatever fails; each result or exception is in its future, all are done.

    An exception in the caller (Ctrl-C) ends the compilers too.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            futures = [pool.submit(job) for job in jobs]
            for future in futures:
                future.exception()
        except BaseException:
            # Leaving the block waits for the compilers, which may take minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            end_processes()
            raise
    return futures
