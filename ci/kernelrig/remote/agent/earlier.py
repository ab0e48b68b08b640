"""What earlier attempts at a job have left in its journal, and how that journal is closed.

A job of Slurm that is requeued runs the same agent again, in the same folder. Stages that had ended
are kept. One that its agent saw interrupted is run again; one whose agent was gone all at once is
not, as it may be why.
"""

from __future__ import annotations

import platform
from pathlib import Path

from .journal import Ending, Events, journal_events
from .refusal import Json


class Earlier:
    """The events of the attempts so far; `data` are their whole lines, all that counts."""

    def __init__(self, run: Path, job: Json) -> None:
        self.job = job
        self.events: list[Json] = []
        size = 0
        for event, size in journal_events(run / "journal.jsonl", 0):  # noqa: B007 - the last one
            self.events.append(event)
        path = run / "journal.jsonl"
        self.data = path.read_bytes()[:size] if size else b""
        self.attempts = sum(e["event"] in ("run_started", "resumed") for e in self.events)
        self.finished = any(e["event"] == "finished" for e in self.events)
        self.ended = {e["stage"]: bool(e["ok"]) for e in self.events if e["event"] == "stage_ended"}
        self.not_run = {e["stage"] for e in self.events if e["event"] == "stage_not_run"}
        self.node = next((e["node"] for e in reversed(self.events) if e.get("node")), "")
        started = [e["stage"] for e in self.events if e["event"] == "stage_started"]
        self.open = started[-1] if started and started[-1] not in self.ended else ""
        self.interrupted = bool(self.open) and self._last("interrupted") > self._last("resumed")
        self.seconds = _total(self.events)

    def _last(self, kind: str) -> int:
        places = [i for i, e in enumerate(self.events) if e["event"] == kind]
        return places[-1] if places else -1

    def commands(self, kind: str) -> dict[str, Json]:
        """Return the events of that kind of the open stage, since it was last started."""
        start = max(
            i
            for i, e in enumerate(self.events)
            if e["event"] == "stage_started" and e["stage"] == self.open
        )
        return {e["command"]: e for e in self.events[start:] if e["event"] == kind}

    def close_stage(self, journal: Events, detail: str) -> None:
        """Record of the open stage that it is over: its command was lost, the others held back."""
        (stage,) = [s for s in self.job["stages"] if s["name"] == self.open]
        started, ended = self.commands("command_started"), self.commands("command_ended")
        cut = any(e["ended_by"] != "exit" for e in ended.values())
        for command in stage["commands"]:
            name = command["name"]
            if name in ended:
                continue
            if name in started:
                ending, began = Ending("lost", detail), started[name]["utc"]
            else:
                ending = Ending("held back" if cut else "not started", detail)
                began = self.events[-1]["utc"]
            cut = cut or ending.ended_by != "not started"
            names = {"stage": self.open, "command": name}
            journal.write("command_ended", ok=False, started_utc=began, **names, **ending.fields())
        journal.write("stage_ended", stage=self.open, ok=False)

    def close(self, journal: Events, run: str, reason: str, *, cancelled: bool) -> None:
        """Record that the run is over, and why: no agent of it is left, or it never had one."""
        if not self.events:
            journal.write("run_started", run=run, python=platform.python_version())
        if self.open:
            self.close_stage(journal, reason)
        for index, stage in enumerate(self.job["stages"], 1):
            name = stage["name"]
            if name not in self.ended and name not in self.not_run and name != self.open:
                said = {"reason": reason, "cancelled": cancelled}
                journal.write("stage_not_run", stage=name, index=index, **said)
        journal.write("finished", reason=reason)


def _total(events: list[Json]) -> float:
    """Return the seconds that the attempts took: each counts from its own beginning."""
    total = latest = 0.0
    for event in events:
        now = event.get("t", latest)
        if event["event"] == "resumed" or now < latest:
            total += latest
        latest = now
    return total + latest
