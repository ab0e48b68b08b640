"""Stream a run's events to the client, and cancel a run on request."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .daemon import agent_of, seconds_since_beat
from .journal import journal_events
from .process_table import GRACE_S, KILL_WAIT_S, POLL_S, is_alive
from .refusal import Json
from .wire import Wire
from .workdir import Workdir

QUIET_S = 60.0  # without a heartbeat, of which there is one per second


def follow(wire: Wire, workdir: Workdir, run: Path, offset: int) -> Json:
    """Stream journal lines from a byte offset on, until the run has finished or its agent died."""
    noted = False
    while True:
        agent = agent_of(run)  # before reading: a dead agent's last lines are read then
        for event, behind in list(journal_events(run / "journal.jsonl", offset)):
            offset = behind
            wire.send({"event": event, "offset": offset})
            if event["event"] == "finished":
                return {"end": "finished"}
        if not agent:
            return {"end": "lost", "detail": finalize_dead_run(workdir, run)}
        quiet = seconds_since_beat(run)
        if quiet > QUIET_S and not noted:
            noted = True  # stopped, or in a system call that hangs
            event = {"event": "note", "text": f"no heartbeat from the agent for {quiet:.0f} s"}
            wire.send({"event": event, "offset": offset})
        if wire.interrupted(POLL_S):
            return {"end": "interrupted"}


def finalize_dead_run(workdir: Workdir, run: Path) -> str:
    """Kill the processes that the dead agent left; return a sentence about it for the client."""
    left = workdir.end_orphans()
    ended = f"; {left} processes that it left behind were ended" if left else ""
    return f"the agent of run {run.name} died{ended}"


def cancel(run: Path) -> bool:
    """End a run and all its processes; false if it was over already, or does not end."""
    agent = agent_of(run)
    if agent is None:
        return False
    os.kill(agent[0], signal.SIGTERM)
    limit = time.monotonic() + 2 * (GRACE_S + KILL_WAIT_S)
    while is_alive(*agent) and time.monotonic() < limit:
        time.sleep(POLL_S)
    return not is_alive(*agent)
