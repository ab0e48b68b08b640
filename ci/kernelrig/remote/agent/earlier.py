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
        over = self.ended.keys() | self.not_run  # not run again, if it was interrupted
        self.open = [name for name in dict.fromkeys(started) if name not in over]
        self.interrupted = {name for name in self.open if self._was_interrupted(name)}
        self.seconds = _total(self.events)

    def _was_interrupted(self, stage: str) -> bool:
        """Return whether its agent saw the last start of a stage cut short."""
        kinds = [e["event"] for e in self.events if e.get("stage") == stage]
        return "interrupted" in kinds[_last(kinds, "stage_started") :]

    def commands(self, stage: str, kind: str) -> dict[str, Json]:
        """Return the events of that kind of a stage, since it was last started."""
        own = [e for e in self.events if e.get("stage") == stage]
        start = _last([e["event"] for e in own], "stage_started")
        return {e["command"]: e for e in own[start:] if e["event"] == kind}

    def close_stage(self, journal: Events, name: str, detail: str) -> None:
        """Record of an open stage that it is over: its command was lost, the others held back."""
        (stage,) = [s for s in self.job["stages"] if s["name"] == name]
        started, ended = (self.commands(name, f"command_{what}") for what in ("started", "ended"))
        cut = any(e["ended_by"] != "exit" for e in ended.values())
        for command in (c["name"] for c in stage["commands"]):
            if command in ended:
                continue
            if command in started:
                ending, began = Ending("lost", detail), started[command]["utc"]
            else:
                ending = Ending("held back" if cut else "not started", detail)
                began = self.events[-1]["utc"]
            cut = cut or ending.ended_by != "not started"
            names = {"stage": name, "command": command}
            journal.write("command_ended", ok=False, started_utc=began, **names, **ending.fields())
        journal.write("stage_ended", stage=name, ok=False, compared=False)

    def close(self, journal: Events, run: str, reason: str, *, cancelled: bool) -> None:
        """Record that the run is over, and why: no agent of it is left, or it never had one."""
        if not self.events:
            journal.write("run_started", run=run, python=platform.python_version())
        for name in self.open:
            self.close_stage(journal, name, reason)
        for index, stage in enumerate(self.job["stages"], 1):
            name = stage["name"]
            if name not in self.ended and name not in self.not_run and name not in self.open:
                said = {"reason": reason, "cancelled": cancelled}
                journal.write("stage_not_run", stage=name, index=index, **said)
        journal.write("finished", reason=reason, compared=False)


def _last(kinds: list[str], kind: str) -> int:
    return max(i for i, each in enumerate(kinds) if each == kind)


def _total(events: list[Json]) -> float:
    """Return the seconds that the attempts took: each counts from its own beginning."""
    total = latest = 0.0
    for event in events:
        now = event.get("t", latest)
        if event["event"] == "resumed" or now < latest:
            total += latest
        latest = now
    return total + latest
