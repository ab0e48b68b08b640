"""What only the agent may know, the key of a run's journal, is not read from its memory.

Programs of a run are started by the same user, who may read the memory of his processes and stop
them by ptrace: not of one that says so here. What it starts with exec is as any other. A program of
root's reads all there is.
"""

from __future__ import annotations

import ctypes

PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Let no other process of this user read this one, nor those that are forked from it."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
