"""Matrix products in one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Let libraries compute in one thread in this block.

    Our products are too small to share among threads: those would wait for one another longer than
    they compute; where other processes run, as long as a whole turn of the system's.
    """
    return nullcontext() if stay_in_one_thread.cache_info().currsize else _limited()


@cache
def stay_in_one_thread() -> AbstractContextManager[object]:
    """Let libraries compute in one thread from now on: for a process that does nothing else.

    To set it, and set it back, takes as long as a short schedule of a kernel.
    """
    return _limited()


def _limited() -> AbstractContextManager[object]:
    limited: AbstractContextManager[object] = libraries().limit(limits=1)
    return limited


@cache
def libraries() -> ThreadpoolController:
    """Return what sets the threads of the libraries that are loaded; to find them takes 10 ms.

    Who forks a process for each of many small products finds them once, before.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
