"""Read what the agent's journal says of each stage, also when the agent did not live to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ci.errors import ProtocolError
from ci.model import Command, CommandResult, EndedBy, StageJob, StageResult

Event: TypeAlias = dict[str, Any]

LOST = "the agent on the box was lost before it came to this"


def read_journal(path: Path, jobs: Sequence[StageJob]) -> tuple[StageResult, ...]:
    """Return a result for every job, in order; what the journal does not tell of was not run."""
    events = list(read_events(path))
    ending = next((e for e in reversed(events) if e["event"] in ("finished", "agent_error")), None)
    reason = LOST if ending is None else str(ending.get("reason") or ending.get("detail"))
    if not path.is_file():
        reason = "the run left no journal"
    try:
        return tuple(_stage(job, _about(events, job.name), reason) for job in jobs)
    except (KeyError, TypeError, ValueError) as e:
        raise ProtocolError(f"{path}: an event lacks what it should say: {e!r}") from e


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


def _about(events: Sequence[Event], stage: str) -> dict[str, list[Event]]:
    """Sort a stage's events by their kind."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.get("stage") == stage:
            found.setdefault(event["event"], []).append(event)
    return found


def _stage(job: StageJob, events: dict[str, list[Event]], reason: str) -> StageResult:
    if "stage_started" not in events:
        told = events.get("stage_not_run", [])
        return StageResult(job.name, not_run=told[-1]["reason"] if told else reason)
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
        return CommandResult(
            command.name,
            EndedBy(ended["ended_by"]),
            exit_code=ended["exit"],
            signal=ended["signal"],
            started_utc=ended["started_utc"],
            seconds=ended["seconds"],
            detail=ended["detail"],
            reused_from=ended["reused_from"],
        )
    if started is not None:
        detail = "the agent on the box was lost while it ran"
        return CommandResult(command.name, EndedBy.LOST, started_utc=started["utc"], detail=detail)
    return CommandResult(command.name, EndedBy.NOT_STARTED, detail=reason)
