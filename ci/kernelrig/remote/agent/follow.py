"""Stream a run's events to the client, and cancel a run on request."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .daemon import agent_of, seconds_since_beat
from .journal import journal_events
from .process_table import GRACE_S, KILL_WAIT_S, POLL_S, is_alive
from .refusal import Json
from .wire import Wire
from .workdir import Workdir

LEAST_PAUSE_S = 0.002
STOPPED_S = 15.0  # without a heartbeat, of which there is one per second


class Journaled:
    """The events of a run from an offset on, also of a journal that the agent writes anew.

    A program of the run may append what it likes: the end of a run is its agent's end, so that
    `finished` counts once no agent of it lives.
    """

    def __init__(self, run: Path, offset: int) -> None:
        self.path = run / "journal.jsonl"
        self.offset = offset
        self.file = 0

    def read(self, *, alive: bool) -> Iterator[tuple[Json, int]]:
        """Yield each further event and the offset behind it; `alive` is whether an agent lives."""
        try:
            found = os.lstat(self.path).st_ino
        except FileNotFoundError:
            return
        if self.file not in (0, found):
            self.offset = 0
        self.file = found
        for event, behind in journal_events(self.path, self.offset):
            if alive and event["event"] == "finished":
                return
            self.offset = behind
            yield event, behind


def follow(
    wire: Wire,
    workdir: Workdir,
    run: Path,
    offset: int,
    quiet_s: float,
    give_up_s: float,
    pauses: Sequence[str] = (),
) -> Json:
    """Stream journal lines from a byte offset on, until the run's agent has ended.

    After a stage of `pauses` has ended the client is told, and may fetch its files meanwhile.

    Without a heartbeat, of which there is one per second, the client is told after `quiet_s`, and
    leaves after `give_up_s`: what is there is fetched, and the agent may continue later.
    """
    journal, noted, began, pause = Journaled(run, offset), False, time.monotonic(), LEAST_PAUSE_S
    while True:
        agent = agent_of(run)  # before reading: a dead agent's last lines are read then
        ended = False
        for event, behind in journal.read(alive=agent is not None):
            wire.send({"event": event, "offset": behind})
            if event["event"] == "finished":
                return {"end": "finished"}
            ended = ended or (event["event"] == "stage_ended" and event.get("stage") in pauses)
            pause = LEAST_PAUSE_S  # one event is soon followed by others
        if ended and agent is not None:
            return {"end": "paused"}
        if agent is None:
            return {"end": "lost", "detail": finalize_dead_run(workdir, run)}
        quiet = seconds_since_beat(run)
        # An agent that has just been continued has an old heartbeat, and renews it at once.
        if quiet > give_up_s and time.monotonic() - began > quiet_s:
            return {"end": "silent", "detail": f"{silence(quiet)}, process {agent[0]}"}
        if quiet > quiet_s and not noted:
            noted = True  # stopped, or in a system call that hangs
            note = {"event": "note", "text": silence(quiet)}
            wire.send({"event": note, "offset": journal.offset})
        if wire.interrupted(pause):
            return {"end": "interrupted"}
        pause = min(2 * pause, POLL_S)


def silence(quiet: float) -> str:
    return f"no heartbeat from the agent for {quiet:.0f} s"


def finalize_dead_run(workdir: Workdir, run: Path) -> str:
    """Kill the processes that the dead agent left; return a sentence about it for the client."""
    left = workdir.end_orphans()
    ended = f"; {left} processes that it left behind were ended" if left else ""
    return f"the agent of run {run.name} died{ended}"


def cancel(workdir: Workdir, run: Path) -> bool:
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
    workdir.end_orphans()
    return not is_alive(*agent)
