"""Stream a run's events to the client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .agents import HostAgents
from .journal import journal_events
from .process_table import POLL_S, opened_process
from .refusal import Json
from .wire import Wire

LEAST_PAUSE_S = 0.002
QUEUED_S = 60.0  # so often the client is told that a run still waits in a queue


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
    agents: HostAgents,
    run: Path,
    offset: int,
    quiet_s: float,
    give_up_s: float,
    pauses: Sequence[str] = (),
) -> Json:
    """Stream journal lines from a byte offset on, until the run's agent has ended.

    After a stage of `pauses` has ended the client is told, and may fetch its files meanwhile; not
    where what is measured is next, as it may be where stages run beside each other.

    Without a heartbeat, of which there is one per second, the client is told after `quiet_s`, and
    leaves after `give_up_s`: what is there is fetched, and the agent may continue later. Of a run
    that waits in a queue the client is told why, and again every QUEUED_S.
    """
    with opened_process(agents.process(run)) as exits:
        return follow_until(wire, agents, Journaled(run, offset), quiet_s, give_up_s, pauses, exits)


def follow_until(
    wire: Wire,
    agents: HostAgents,
    journal: Journaled,
    quiet_s: float,
    give_up_s: float,
    pauses: Sequence[str],
    exits: Sequence[int],
) -> Json:
    """Stream journal lines; `exits` is readable once the agent has ended, which is seen at once."""
    run, noted, began, pause = journal.path.parent, False, time.monotonic(), LEAST_PAUSE_S
    waited_for, told = "", 0.0
    while True:
        alive = agents.alive(run)  # before reading: a dead agent's last lines are read then
        ended = False
        for event, behind in journal.read(alive=alive):
            wire.send({"event": event, "offset": behind})
            if event["event"] == "finished":
                return {"end": "finished"}
            if event["event"] == "stage_ended":
                ended = (ended or event.get("stage") in pauses) and not event.get("timed_next")
            pause = LEAST_PAUSE_S  # one event is soon followed by others
        if ended and alive:
            return {"end": "paused"}
        if not alive:
            if detail := agents.finalize(run):
                return {"end": "lost", "detail": detail}
            continue
        waits = agents.waits(run)
        if waits != waited_for or (waits and time.monotonic() - told > QUEUED_S):
            waited_for, told = waits, time.monotonic()
            wire.send({"event": {"event": "queued", "text": waits}, "offset": journal.offset})
        quiet = agents.quiet_s(run)
        # An agent that has just been continued has an old heartbeat, and renews it at once.
        if quiet > give_up_s and time.monotonic() - began > quiet_s:
            return {"end": "silent", "detail": f"{silence(quiet)}, {agents.named(run)}"}
        if quiet > quiet_s and not noted:
            noted = True  # stopped, or in a system call that hangs
            note = {"event": "note", "text": silence(quiet)}
            wire.send({"event": note, "offset": journal.offset})
        if wire.interrupted(pause, exits):
            return {"end": "interrupted"}
        pause = min(2 * pause, POLL_S)


def silence(quiet: float) -> str:
    return f"no heartbeat from the agent for {quiet:.0f} s"
