"""After Ctrl-C: whether the run on the host goes on, which it does, or is cancelled."""

from __future__ import annotations

from kernelrig.errors import INTERRUPTED
from kernelrig.proc import signals_seen
from kernelrig.run.store import OnHost, RunDirectory
from kernelrig.terminal.prompt import agrees

ANSWER_S = 10.0
"""How long a person has to say that the run is to be cancelled; another Ctrl-C ends the wait."""


def wants_cancel(directory: RunDirectory, reason: str) -> bool:
    """Ask whoever pressed Ctrl-C at a terminal; detach is what happens without an answer."""
    run = directory.run
    if reason != f"{INTERRUPTED} the user" or run.remote is None:
        return False
    if directory.on_host not in (OnHost.ASKED, OnHost.RUNS):
        return False
    seen = signals_seen()
    question = f"Enter: detach, and leave it to {run.remote.name}; c: cancel it there"
    return agrees(question, "c", ANSWER_S, lambda: signals_seen() > seen)
