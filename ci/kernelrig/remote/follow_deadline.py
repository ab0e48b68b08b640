"""How long a run that is followed may be silent, and may go on: by its commands' time limits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kernelrig.errors import IncompleteError
from kernelrig.model import StageJob
from kernelrig.remote.protocol import Deadline

_Key: TypeAlias = tuple[object, object]


class FollowDeadline:
    """The deadline of the next event of a run; a host cannot move it on by sending more events.

    A command may be silent for its time limit, and for `slack_s` beside it: to end it, to read a
    core, to hash files. The whole run may take that of each command that was begun, counted once,
    and twice the slack: before the first command, and after the last. On a cluster, which `queues`,
    a run waits for as long as that says so, and a stage that is interrupted begins again.
    """

    def __init__(
        self, run_id: str, jobs: Sequence[StageJob], slack_s: float, *, queues: bool = False
    ) -> None:
        self._run_id = run_id
        self._slack_s = slack_s
        self._queues = queues
        self._ahead: dict[_Key, float] = {
            (j.name, c.name): c.time_s for j in jobs for c in j.commands
        }
        self._limits = dict(self._ahead)
        self._running: dict[_Key, float] = {}
        self.ended_stages: set[str] = set()
        self._began = time.monotonic()
        self._all_s = 2 * slack_s

    def heard(self, event: Mapping[str, Any]) -> None:
        """Take note of an event: which command runs now decides how long it may be silent."""
        key = str(event.get("stage")), str(event.get("command"))
        if self._queues and event["event"] == "queued":  # that is no time of the run's
            self._began = time.monotonic()
        elif self._queues and event["event"] == "interrupted":  # all of the stage begins again
            again = {k: limit for k, limit in self._limits.items() if k[0] == key[0]}
            self._running = {k: v for k, v in self._running.items() if k not in again}
            self._ahead.update(again)
        if event["event"] == "stage_ended":
            self.ended_stages.add(key[0])
        if event["event"] == "command_started" and key in self._ahead:
            self._running[key] = self._ahead.pop(key)
            self._all_s += self._running[key] + self._slack_s
        elif event["event"] == "command_ended":
            self._running.pop(key, None)
            if self._ahead.pop(key, None) is not None:  # an earlier result was copied
                self._all_s += self._slack_s

    def next(self) -> Deadline:
        """Return until when the next event must come."""
        quiet_s = max(self._running.values(), default=0.0) + self._slack_s
        said = f"no event of {self._run_id} for {quiet_s:g} s, although the connection is alive"
        return Deadline.after(quiet_s, said).sooner(self.whole())

    def whole(self) -> Deadline:
        """Return until when the run must be over, if no further command begins."""
        more = f"{self._all_s:g} s, more than its commands may take"
        return Deadline(self._began + self._all_s, f"{self._run_id} is not over after {more}")


def stopped_agent(remote: str, run_id: str, detail: str) -> IncompleteError:
    """Return the error for an agent that lives and gives no sign of it."""
    return IncompleteError(
        f"{remote}: the agent of {run_id} does not answer:"
        f" {detail} there is stopped, or waits for memory or its disk",
        f"once it goes on, `invoke collect {run_id}` brings the rest",
    )
