"""Matrix products in one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Let libraries compute in one thread in this block.

    Our products are too small to share among threads: those would wait for one another longer than
    they compute; where other processes run, as long as a whole turn of the system's.
    """
    limited: AbstractContextManager[object] = libraries().limit(limits=1)
    return limited


@cache
def libraries() -> ThreadpoolController:
    """Return what sets the threads of the libraries that are loaded; to find them takes 10 ms.

    Who forks a process for each of many small products finds them once, before.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
