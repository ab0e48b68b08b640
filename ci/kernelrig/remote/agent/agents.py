"""Who tells whether the agent of a run lives, and ends it: the processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from .daemon import agent_of, seconds_since_beat
from .process_table import GRACE_S, KILL_WAIT_S, POLL_S, is_alive
from .workdir import Workdir

STOPPED_S = 15.0  # without a heartbeat, of which there is one per second


class HostAgents:
    """The agents of a workdir as processes of this machine."""

    def __init__(self, workdir: Workdir) -> None:
        self.workdir = workdir

    def alive(self, run: Path) -> bool:
        return agent_of(run) is not None

    def process(self, run: Path) -> int:
        """Return the agent's number on this machine, 0 for none."""
        agent = agent_of(run)
        return agent[0] if agent else 0

    def quiet_s(self, run: Path) -> float:
        """Return the seconds since the agent's last sign of life."""
        return seconds_since_beat(run)

    def waits(self, _: Path) -> str:
        """Return why the run waits to be started, empty if it does not."""
        return ""

    def named(self, run: Path) -> str:
        agent = agent_of(run)
        return f"process {agent[0]}" if agent else "its process"

    def finalize(self, run: Path) -> str:
        """Kill the processes that the dead agent left; return a sentence about it for the client.

        An empty one: the end is in the journal.
        """
        left = self.workdir.end_orphans()
        ended = f"; {left} processes that it left behind were ended" if left else ""
        return f"the agent of run {run.name} died{ended}"

    def cancel(self, run: Path) -> bool:
        """End a run and all its processes; false if it was over already, or does not end.

        An agent that is stopped, or hangs, is killed: what it did not record is unknown then.
        """
        agent = agent_of(run)
        if agent is None:
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent[0], number)
            limit = time.monotonic() + 2 * (GRACE_S + KILL_WAIT_S)
            while is_alive(*agent) and time.monotonic() < limit:
                if number == signal.SIGTERM and seconds_since_beat(run) > STOPPED_S:
                    break
                time.sleep(POLL_S)
        self.workdir.end_orphans()
        return not is_alive(*agent)
