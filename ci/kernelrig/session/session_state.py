"""How far a session has got, from its log alone: the same events give the same next step.

begun, run      an entry was taken to a host; `run` names one that was opened for it
ended           its verdict; it counts as long as what the entry depends on is what it was
left            it was not carried out, or not to its end, and is to be tried again
again           somebody asked for it once more
renting, given_back   a host that this session rents
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernelrig.files.event_log import Event
from kernelrig.model import Outcome, SessionCase


@dataclass(slots=True)
class EntryState:
    """`runs` are the events of open ones, by their remote: what has begun goes on there, also where
    the entry has changed since. `remote` was the last.

    `minutes` and `cost` are of all that was done for the entry, with whatever inputs.
    """

    ended: Event | None = None
    runs: dict[str, Event] = field(default_factory=dict)
    remote: str = ""
    why: str = ""
    minutes: float = 0.0
    cost: float | None = None


@dataclass(slots=True)
class SessionState:
    """`rented` are the hosts that are rented, and since when; `billed` for how many seconds those
    were that were given back, by remote.
    """

    entries: dict[str, EntryState]
    rented: dict[str, datetime] = field(default_factory=dict)
    billed: Counter[str] = field(default_factory=Counter)

    def billed_minutes(self, now: datetime) -> dict[str, float]:
        """Return for how long each remote was rented for this session, until now if it still is."""
        seconds = self.billed + Counter({n: _seconds(s, now) for n, s in self.rented.items()})
        return {name: s / 60 for name, s in seconds.items()}

    @property
    def minutes(self) -> float:
        return sum(e.minutes for e in self.entries.values())

    @property
    def cost(self) -> float:
        return sum(e.cost or 0.0 for e in self.entries.values())


def read_state(events: Iterable[Event], inputs: Mapping[str, str]) -> SessionState:
    """Return the state of the entries in `inputs`, which has what each depends on now."""
    state = SessionState({name: EntryState() for name in inputs})
    for event in events:
        kind = event["event"]
        if kind == "renting":
            since = datetime.fromisoformat(str(event["utc"]))
            state.rented.setdefault(str(event["remote"]), since)
        elif kind == "given_back":
            name, until = str(event["remote"]), datetime.fromisoformat(str(event["utc"]))
            state.billed[name] += _seconds(state.rented.pop(name, until), until)
        elif kind in ("begun", "run", "ended", "left", "again"):
            name = str(event["entry"])
            _note(state.entries[name], event, inputs[name])
    return state


def _seconds(since: datetime, until: datetime) -> int:
    return max(0, round((until - since).total_seconds()))


def _note(entry: EntryState, event: Event, inputs: str) -> None:
    kind = event["event"]
    if kind == "again":  # also of a run whose host does not come back
        entry.ended = None
        entry.runs.clear()
        return
    remote = str(event["remote"])
    current = event["inputs"] == inputs
    if current:
        entry.remote = remote
    if kind == "run":
        entry.runs[remote] = event
    if kind in ("ended", "left"):
        if remote in entry.runs and entry.runs[remote]["run"] in event["runs"]:
            del entry.runs[remote]
        entry.minutes += float(event["minutes"])
        if event["cost"] is not None:
            entry.cost = (entry.cost or 0.0) + float(event["cost"])
    if kind == "ended" and current:
        entry.ended, entry.why = event, ""
    if kind == "left" and current:
        entry.why = str(event["why"])


def cases_of(event: Mapping[str, Any]) -> tuple[SessionCase, ...]:
    return tuple(
        SessionCase(str(name), Outcome(word), str(summary), float(seconds))
        for name, word, summary, seconds in event["cases"]
    )
