"""Many compilers at once: all cores, every job to its end, and no compiler left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kernelrig.proc import end_processes

T = TypeVar("T")


def run_jobs(jobs: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Run every job, whatever fails; each answer or exception is in its future, all of them done.

    What ends the caller (Ctrl-C) ends the compilers at once.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            futures = [pool.submit(job) for job in jobs]
            for future in futures:
                future.exception()
        except BaseException:
            # Leaving the block waits for the compilers: for minutes, were they let go on.
            pool.shutdown(wait=False, cancel_futures=True)
            end_processes()
            raise
    return futures
