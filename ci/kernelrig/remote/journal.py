"""Read what the agent's journal says of each stage, also when the agent did not live to its end.

The agent writes each event once, in order, for one run: a journal of another run, or one that tells
of a thing twice, is damaged, and nothing in it is believed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kernelrig.errors import ProtocolError
from kernelrig.files.validation import convert
from kernelrig.model import Command, CommandResult, EndedBy, StageJob, StageResult

Event: TypeAlias = dict[str, Any]

LOST = "the agent on the host was lost before it came to this"
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ONCE = ("run_started", "stage_started", "stage_not_run", "command_started", "command_ended")
"""Kinds of events that tell of each run, stage or command once."""


def read_journal(path: Path, jobs: Sequence[StageJob], run_id: str) -> tuple[StageResult, ...]:
    """Return a result for every job, in order; what the journal does not tell of was not run.

    Raises ProtocolError for a journal that is garbled, contradicts itself or is another run's.
    """
    events = list(read_events(path))
    if fault := _find_fault(events, run_id):
        raise ProtocolError(f"{path}: {fault}")
    ending = next((e for e in reversed(events) if e["event"] in ("finished", "agent_error")), None)
    reason = LOST if ending is None else str(ending.get("reason") or ending.get("detail"))
    if not path.is_file():
        reason = "the run left no journal"
    try:
        return tuple(
            _stage(job, index, _about(events, job.name), reason)
            for index, job in enumerate(jobs, start=1)
        )
    except (KeyError, TypeError, ValueError) as e:
        what = f"lacks {e}" if isinstance(e, KeyError) else f"says what it cannot: {e}"
        raise ProtocolError(f"{path}: an event {what}") from e


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a journal; a torn last line, which a killed agent leaves, is dropped."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError as e:
            if number == len(lines):
                return
            raise ProtocolError(f"{path}:{number}: no JSON: {line[:80]!r}") from e
        if not isinstance(event, dict) or "event" not in event:
            raise ProtocolError(f"{path}:{number}: no event: {line[:80]!r}")
        yield event


def _find_fault(events: Sequence[Event], run_id: str) -> str:
    """Return what shows that this is not the story of the run, empty if nothing does."""
    told = Counter((e["event"], str(e.get("stage")), str(e.get("command"))) for e in events)
    for (kind, stage, command), times in told.items():
        if kind in _ONCE and times > 1:
            return f"{kind} stands there {times} times for stage {stage}, command {command}"
        if kind == "stage_started" and told["stage_not_run", stage, command]:
            return f"{stage} was started, and not run"
    if events and (events[0]["event"], events[0].get("run")) != ("run_started", run_id):
        return f"it is not the journal of {run_id}: it begins with {json.dumps(events[0])[:80]}"
    return ""


def _about(events: Sequence[Event], stage: str) -> dict[str, list[Event]]:
    """Sort a stage's events by their kind."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.get("stage") == stage:
            found.setdefault(event["event"], []).append(event)
    return found


def _stage(job: StageJob, index: int, events: dict[str, list[Event]], reason: str) -> StageResult:
    if "stage_started" not in events:
        told = events.get("stage_not_run", [])
        return StageResult(job.name, not_run=told[-1]["reason"] if told else reason)
    (start,) = events["stage_started"]
    if start["index"] != index:  # its files lie in a folder of that number
        raise ValueError(f"{job.name} was started as stage {start['index']}, it is stage {index}")
    started = {e["command"]: e for e in events.get("command_started", [])}
    ended = {e["command"]: e for e in events.get("command_ended", [])}
    health = events.get("health", [])
    return StageResult(
        job.name,
        tuple(_command(c, started.get(c.name), ended.get(c.name), reason) for c in job.commands),
        gpu_healthy_after=health[-1]["healthy"] if health else None,
    )


def _command(
    command: Command, started: Event | None, ended: Event | None, reason: str
) -> CommandResult:
    if ended is not None:
        return _ended(command, ended)
    if started is not None:
        detail = "the agent on the host was lost while it ran"
        return CommandResult(command.name, EndedBy.LOST, started_utc=started["utc"], detail=detail)
    return CommandResult(command.name, EndedBy.NOT_STARTED, detail=reason)


def _ended(command: Command, event: Event) -> CommandResult:
    """Return how the command ended; ValueError for an end that no command of ours can have."""
    told = {
        "name": command.name,
        "exit_code": event["exit"],
        **{k: event[k] for k in ("ended_by", "signal", "started_utc", "seconds")},
        **{k: event[k] for k in ("detail", "reused_from")},
    }
    result, complaints = convert(CommandResult, told)
    if result is None:
        raise ValueError(f"command_ended of {command.name}: {complaints[0].text}")
    if strange := _find_strange(command, result, event["ok"]):
        raise ValueError(f"command_ended of {command.name}: {strange}")
    return result


def _find_strange(command: Command, ended: CommandResult, ok: object) -> str:
    """Return what about an end contradicts itself or its command, empty if nothing does."""
    by_exit = ended.ended_by is EndedBy.EXIT
    if by_exit != (ended.exit_code is not None) or (by_exit and ended.signal is not None):
        return f"ended by {ended.ended_by}, exit {ended.exit_code}, signal {ended.signal}"
    if ok is not (by_exit and ended.exit_code in command.ok_exit):
        return f"exit {ended.exit_code} is called {'good' if ok else 'bad'}"
    if ended.reused_from and not command.cache_key:
        return f"reused from {ended.reused_from}, but it has no cache key"
    if not 0 <= ended.seconds < math.inf:
        return f"it took {ended.seconds} s"
    return "" if _UTC.fullmatch(ended.started_utc) else f"it started at '{ended.started_utc}'"
