"""A session from its first entry to its reports; it may end at any instant, and be called again.

here        builds, checks, emulations of all entries (local_phase), before the first connection
on hosts    a process for each remote, which gets the next entry that fits it (host_worker)
reports     made of the session's log, at any time again
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from kernelrig.files.event_log import EventLog, held_log
from kernelrig.model import Outcome, SessionResult
from kernelrig.proc.workers import Lost, Worker
from kernelrig.run.forecast import expected_minutes
from kernelrig.run.spec import RunSpec
from kernelrig.session.host_worker import Done, HostTask, HostWorker
from kernelrig.session.local_phase import Local, try_locally
from kernelrig.session.session_choice import (
    SESSIONS,
    Planned,
    Session,
    SessionRequest,
    prepare_session,
)
from kernelrig.session.session_forecast import forecast_lines, require_within_limits
from kernelrig.session.session_reports import session_result, write_session
from kernelrig.session.session_state import SessionState, read_state
from kernelrig.terminal.log import say

LOOK_S = 0.2
"""A signal does not wake who waits for a pipe: after so long it is looked at."""
LEAVE_S = 20.0
"""A worker that is told to end leaves its run to the host, and writes its record."""
WHAT = "session"


def run_session(root: Path, request: SessionRequest) -> SessionResult:
    """Carry out a session, or go on with it, and write its reports."""
    session = prepare_session(root, request)
    require_within_limits(session)
    folder = root / SESSIONS / session.name
    first = {"event": WHAT, "schema": 1, "name": session.name}
    with held_log(folder, first, WHAT) as events:
        log = EventLog(folder, events)
        say(f"session {session.name}: {len(session.planned)} entries")
        local = try_locally(session, log)
        inputs = {name: found.inputs for name, found in local.items()}
        for name in request.again:
            log.add("again", entry=name)
        before = session_result(session, read_state(log.events, inputs), local, {})
        judged = {row.name for row in before.rows if row.outcome is not None}
        for line in forecast_lines(session, judged):
            say(line)
        queue = EntryQueue(session, log, local, inputs)
        try:
            queue.run()
        finally:
            # Whatever ended it: the reports show what is known by then.
            log.read(WHAT)
            state = read_state(log.events, inputs)
            result = session_result(session, state, local, queue.stopped)
            write_session(session, folder, result)
    return result


@dataclass(slots=True)
class EntryQueue:
    """Gives entries to hosts. `lost` are those not used any more in this call, and why."""

    session: Session
    log: EventLog
    local: dict[str, Local]
    inputs: dict[str, str]
    workers: dict[str, Worker[HostTask, Done]] = field(default_factory=dict)
    given: dict[str, HostTask] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)
    stopped: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Carry out what can be, until no host has anything to do."""
        try:
            while True:
                self.log.read(WHAT)
                state = read_state(self.log.events, self.inputs)
                for remote in self.session.remotes:
                    if remote.name not in self.given and (task := self._next(remote.name, state)):
                        self._give(remote.name, task)
                if not self.given:
                    return
                self._hear()
        finally:
            self._end_workers()

    def _give(self, remote: str, task: HostTask) -> None:
        if remote not in self.workers:
            worker = HostWorker(self.session, remote, self.log)
            self.workers[remote] = Worker(worker)
            self.workers[remote].start()
        self.given[remote] = task
        self.workers[remote].give(0, task)

    def _hear(self) -> None:
        """Wait until a host is done with its task, or for a moment."""
        connections = {self.workers[remote].connection: remote for remote in self.given}
        for ready in wait(list(connections), LOOK_S):
            remote = connections[ready]  # type: ignore[index]
            task, done = self.given.pop(remote), self.workers[remote].take()
            if isinstance(done, Lost):
                self.workers.pop(remote).end()
                done = Done(lost=f"its process here ended: {done.error}")
            if done.lost:
                self.lost[remote] = done.lost
                say(f"{remote} is not used any more: {done.lost}")
            if done.refused:
                self.refused.add((task.entry, remote))
            if task.entry:
                self.stopped.pop(task.entry, None)
                if why := done.lost or done.refused:
                    self.stopped[task.entry] = f"{remote}: {why}"

    def _end_workers(self) -> None:
        """End them; one with a task is told to, and answers when its run is left to the host."""
        for remote in self.given:
            self.workers[remote].request_end()
        until = time.monotonic() + LEAVE_S
        for remote, worker in self.workers.items():
            if remote in self.given:
                wait([worker.connection], max(0.0, until - time.monotonic()))
            worker.end()

    def _next(self, remote: str, state: SessionState) -> HostTask | None:
        """Return what a free host is to do: what is open there, the next entry, or to be given
        back.
        """
        if remote not in self.lost:
            for planned in self.session.planned:
                begun = state.entries[planned.name].runs.get(remote)
                if begun and not self._busy(planned.name):
                    run, inputs = str(begun["run"]), str(begun["inputs"])
                    return HostTask("carry out", planned.name, run, inputs)
            for planned in self._ready(remote, state):
                most = self._most_minutes(state, remote)
                if most is None or self._fits(planned, remote, most):
                    inputs = self.inputs[planned.name]
                    return HostTask("carry out", planned.name, "", inputs, most)
        open_there = any(remote in entry.runs for entry in state.entries.values())
        asked = ("", remote) in self.refused
        if remote in state.rented and not open_there and not asked:
            self.refused.add(("", remote))  # once a call, unless it is rented again
            return HostTask("give back")
        return None

    def _ready(self, remote: str, state: SessionState) -> Iterator[Planned]:
        for planned in self.session.planned:
            entry, name = state.entries[planned.name], planned.name
            if (
                entry.ended is None
                and not entry.runs
                and self.local[name].ended is None
                and not self._busy(name)
                and (name, remote) not in self.refused
                and planned.way(remote) is not None
                and all(self._passed(need, state) for need in planned.entry.needs)
            ):
                yield planned

    def _busy(self, name: str) -> bool:
        return any(task.entry == name for task in self.given.values())

    def _passed(self, name: str, state: SessionState) -> bool:
        ended, here = state.entries[name].ended, self.local[name]
        if any(case.outcome is Outcome.ERROR for case in here.cases):
            return False
        return here.ended == 0 or (ended is not None and ended["exit_code"] == 0)

    def _most_minutes(self, state: SessionState, remote: str) -> float | None:
        """Return the minutes that an entry may have there; None = without a limit.

        What entries under way may still need is set aside, and what is left is shared by the hosts
        that are free: all together stay within the limits.
        """
        file, prices = self.session.file, {r.name: r.price_per_hour for r in self.session.remotes}
        free = [r.name for r in self.session.remotes if r.name not in (*self.given, *self.lost)]
        limits = []
        if file.max_minutes is not None:
            aside = sum(task.most_minutes or 0.0 for task in self.given.values())
            limits.append((file.max_minutes - state.minutes - aside) / max(1, len(free)))
        if file.max_cost is not None and (price := prices[remote]):
            aside = sum(
                (task.most_minutes or 0.0) * (prices[name] or 0.0) / 60
                for name, task in self.given.items()
            )
            left = (file.max_cost - state.cost - aside) / max(1, len(free))
            limits.append(60 * left / price)
        return min(limits, default=None)

    def _fits(self, planned: Planned, remote: str, most: float) -> bool:
        """Return whether an entry can be started within the minutes; say so where it cannot."""
        way = planned.way(remote)
        least = 0.0
        if way is not None and isinstance(way.spec, RunSpec):
            least = expected_minutes(self.session.root, way.spec).least
        if most > 0 and least <= most:
            return True
        what = f", and it took {least:.1f} at the least" if least else ""
        self.stopped[planned.name] = (
            f"the limits of the session leave {max(0.0, most):.1f} min on {remote}{what};"
            " raise max_minutes or max_cost"
        )
        return False
