"""Read each stage's results from the agent's journal, also when the agent died before its end.

The agent writes each event once, in order, for one run. A journal of another run, or one that
reports a thing twice, is damaged: the whole of it is rejected.
"""

from __future__ import annotations

import hmac
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.regular_file import read_regular
from kernelrig.files.validation import convert
from kernelrig.model import Command, CommandResult, EndedBy, StageJob, StageResult

Event: TypeAlias = dict[str, Any]

LOST = "the agent on the host was lost before it ran this"
_MOST_BYTES = 64 << 20
_LONGEST = 2000
_EXIT_CODES, _SIGNALS = 255, 64
_MOST_SECONDS = 1e8
"""Three years: an agent that was stopped counts on, and what is added up must stay a number."""

_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ONCE = ("run_started", "stage_started", "stage_not_run", "command_started", "command_ended")
"""Kinds of events that occur once per run, stage or command."""


def read_journal(
    path: Path, jobs: Sequence[StageJob], run_id: str, key: str = ""
) -> tuple[StageResult, ...]:
    """Return a result for every job, in order; what the journal does not mention was not run.

    Raises ProtocolError for a journal that is garbled, contradicts itself or is of another run, and
    where there is a `key` for one with a line that the run's agent has not sealed with it.
    """
    events, interrupted = _without_interrupted(list(read_events(path, key)))
    alone = {job.name for job in jobs if job.kind.measured}
    if fault := _find_fault(events, run_id) or _find_disorder(events, alone):
        raise ProtocolError(f"{path}: {fault}")
    ending = next((e for e in reversed(events) if e["event"] in ("finished", "agent_error")), None)
    reason = LOST if ending is None else _cut(str(ending.get("reason") or ending.get("detail")))
    failed = any(e["event"] == "agent_error" for e in events)
    if not path.is_file():
        reason = "the run left no journal"
    try:
        return tuple(
            replace(
                _stage(job, index, _about(events, job.name), reason, failed=failed),
                interrupted=tuple(interrupted.get(job.name, ())),
            )
            for index, job in enumerate(jobs, start=1)
        )
    except (KeyError, TypeError, ValueError) as e:
        what = f"lacks {e}" if isinstance(e, KeyError) else f"contradicts the job: {e}"
        raise ProtocolError(f"{path}: an event {what}") from e


def read_events(path: Path, key: str = "") -> Iterator[Event]:
    """Yield the events; an incomplete last line, as a killed agent leaves it, is dropped."""
    try:
        text = read_regular(path, _MOST_BYTES) if path.is_file() else b""
    except OSError as e:
        raise ProtocolError(f"{path}: {(e.strerror or str(e)).lower()}") from e
    *lines, _ = text.split(b"\n")
    seal = b""
    for number, line in enumerate(lines, 1):
        if key and not (seal := _seal_of(line, seal, bytes.fromhex(key))):
            who = "a program of the run, or its host, wrote it"
            raise ProtocolError(f"{path}:{number}: not sealed by the agent of the run: {who}")
        try:
            event = strict_json.loads(line)
        except ValueError as e:
            raise ProtocolError(f"{path}:{number}: not JSON: {line[:80]!r}: {e}") from e
        if not _is_event(event):
            raise ProtocolError(f"{path}:{number}: not an event: {line[:80]!r}")
        yield event


def _seal_of(line: bytes, before: bytes, key: bytes) -> bytes:
    """Return the seal of a line behind that of the line before it, empty if it has not the right
    one.
    """
    text, _, said = line.rpartition(b', "seal": "')
    seal = hmac.digest(key, before + text + b"}", "sha256")
    return seal if hmac.compare_digest(said, b'%s"}' % seal.hex().encode()) else b""


def told_event(frame: Mapping[str, Any]) -> tuple[Event, int]:
    """Return an event as the agent tells it, and the offset in the journal behind it."""
    event, offset = frame.get("event"), frame.get("offset")
    if not _is_event(event) or type(offset) is not int or offset < 0:
        raise ProtocolError(f"the host tells of no event: {ascii(frame)[:80]}")
    return event, offset


def _is_event(value: object) -> TypeGuard[Event]:
    return isinstance(value, dict) and isinstance(value.get("event"), str)


def _find_fault(events: Sequence[Event], run_id: str) -> str:
    """Return why this cannot be the journal of the run, empty if it can."""
    counts = Counter((e["event"], str(e.get("stage")), str(e.get("command"))) for e in events)
    for (kind, stage, command), times in counts.items():
        if kind in _ONCE and times > 1:
            return f"{kind} occurs {times} times for stage {stage}, command {command}"
        if kind == "stage_started" and counts["stage_not_run", stage, command]:
            return f"{stage} was started, and not run"
    if events and (events[0]["event"], events[0].get("run")) != ("run_started", run_id):
        return f"it is not the journal of {run_id}: it begins with {json.dumps(events[0])[:80]}"
    return ""


def _find_disorder(events: Sequence[Event], alone: Collection[str]) -> str:
    """Return which event cannot come where it does: a stage has its GPU, and one of `alone` the
    host, to itself; a command starts, ends.
    """
    running: dict[str, str] = {}  # stage -> its GPU
    ended: set[tuple[str, str]] = set()
    for event in events:
        kind, stage, command = event["event"], str(event.get("stage")), str(event.get("command"))
        if kind == "stage_started":
            gpu = str(event.get("gpu") or "")
            running = {s: g for s, g in running.items() if gpu and g and gpu != g}
            running[stage] = gpu
            if len(running) > 1 and (timed := next((s for s in running if s in alone), "")):
                return f"{timed} measures times, and {', '.join(sorted(running))} ran at once"
        elif kind in ("command_started", "command_ended", "stage_ended") and stage not in running:
            others = ", ".join(sorted(running)) or "no stage"
            return f"{kind} of stage {stage}, command {command}, while {others} was running"
        elif kind == "command_started" and (stage, command) in ended:
            return f"command {command} of stage {stage} ended before it was started"
        elif kind == "command_ended":
            ended.add((stage, command))
        elif kind == "stage_ended":
            del running[stage]
    return ""


_AFTERWARDS = {"stage_started": "run again", "stage_not_run": "not run again"}
"""What becomes of a stage that was interrupted, by the event that says so."""


def _without_interrupted(
    events: Sequence[Event],
) -> tuple[list[Event], dict[str, list[str]]]:
    """Leave out what a stage did before it was interrupted, and say so of it, once it is known
    whether it was run again.

    A job of Slurm that is preempted does that; each time is told, and the last one counts.
    """
    places: dict[str, list[int]] = {}  # by stage, of its events
    left_out: set[int] = set()
    notes: dict[str, list[str]] = {}
    cut: set[str] = set()
    for place, event in enumerate(events):
        kind, stage = event["event"], str(event.get("stage"))
        if kind == "interrupted":
            cut.add(stage)
            node, utc = (_cut(str(event.get(key, "?"))) for key in ("node", "utc"))
            said = f"{stage}: interrupted on node {node} at {utc}, as Slurm took its job away"
            notes.setdefault(stage, []).append(said)
        elif kind in _AFTERWARDS and stage in cut:
            left_out.update(places.pop(stage))
            notes[stage][-1] += f"; {_AFTERWARDS[kind]}"
            cut.remove(stage)
        places.setdefault(stage, []).append(place)
    return [e for place, e in enumerate(events) if place not in left_out], notes


def _about(events: Sequence[Event], stage: str) -> dict[str, list[Event]]:
    """Sort a stage's events by their kind."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.get("stage") == stage:
            found.setdefault(event["event"], []).append(event)
    return found


def _stage(
    job: StageJob, index: int, events: dict[str, list[Event]], reason: str, *, failed: bool
) -> StageResult:
    if "stage_started" not in events:
        given = events.get("stage_not_run", [])
        return StageResult(
            job.name,
            not_run=_text(given[-1], "reason") if given else reason,
            cancelled=bool(given) and given[-1].get("cancelled") is True,
        )
    (start,) = events["stage_started"]
    # The folder of its files has that number; in Python `true` is 1 too.
    if type(start["index"]) is not int or start["index"] != index:
        found = f"{start['index']!r:.80}"
        raise ValueError(f"{job.name} was started as stage {found}, it is stage {index}")
    started = {e["command"]: e for e in events.get("command_started", [])}
    ended = {e["command"]: e for e in events.get("command_ended", [])}
    health = [e["healthy"] for e in events.get("health", [])]
    if not all(healthy is None or isinstance(healthy, bool) for healthy in health):
        raise ValueError(f"the health of the GPU after {job.name} is {health[-1]!r:.80}")
    changed = events.get("changed", [])
    commands: list[CommandResult] = []
    for c in job.commands:
        cut = any(earlier.ended_by is not EndedBy.EXIT for earlier in commands)
        command = _command(c, started.get(c.name), ended.get(c.name), reason, cut=cut)
        if command.ended_by is EndedBy.HELD_BACK and not cut:
            raise ValueError(f"{c.name} was held back, and no command before it was cut short")
        commands.append(command)
    return StageResult(
        job.name,
        tuple(commands),
        gpu_healthy_after=False if False in health else (health or [None])[-1],
        changed=_cut(str(changed[0]["text"])) if changed else "",
        uncompared=_uncompared(job.name, events, failed=failed),
        cancelled=any(c.ended_by is EndedBy.CANCELLED for c in commands),
        gpu=_text(start, "gpu") if start.get("gpu") else "",
    )


def _uncompared(stage: str, events: dict[str, list[Event]], *, failed: bool) -> str:
    """Say that nobody compared what the run rests on after a stage, empty if its agent has.

    Of an agent that has failed it is not known what it still compared, also of earlier stages.
    """
    compared = [e for e in events.get("stage_ended", []) if e.get("compared") is not False]
    if compared and not failed:
        return ""
    how = "failed" if failed else "was lost"
    return f"the agent on the host {how} before it had compared what {stage} left"


def has_finished(path: Path) -> bool:
    """Return whether the run's agent lived to its end; not where the journal cannot be read.

    Of one that did not, nobody compared what its last program did to the files of earlier stages.
    """
    try:
        ends = [e for e in read_events(path) if e["event"] == "finished"]
    except ProtocolError:
        return False
    return any(e.get("compared") is not False for e in ends)


def _command(
    command: Command, started: Event | None, ended: Event | None, reason: str, *, cut: bool
) -> CommandResult:
    if ended is not None:
        return _ended(command, ended)
    if started is not None:
        detail = "the agent on the host was lost while it ran"
        return CommandResult(
            command.name, EndedBy.LOST, started_utc=_text(started, "utc"), detail=detail
        )
    ended_by = EndedBy.HELD_BACK if cut else EndedBy.NOT_STARTED
    return CommandResult(command.name, ended_by, detail=reason)


def _text(event: Event, key: str) -> str:
    if not isinstance(found := event[key], str):
        raise ValueError(f"'{key}' of {event['event']} is {found!r:.80}")  # noqa: TRY004 - as the rest
    return _cut(found)


def _cut(text: str) -> str:
    """Return a text of the host's as it is recorded, for each of the stages that it is about."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _ended(command: Command, event: Event) -> CommandResult:
    """Return how the command ended; ValueError for an end that contradicts the command."""
    value = {
        "name": command.name,
        "exit_code": event["exit"],
        **{k: event[k] for k in ("ended_by", "signal", "started_utc", "seconds")},
        **{k: event[k] for k in ("detail", "reused_from")},
        **{k: event[k] for k in ("looks", "disturbed") if k in event},  # not of older agents
    }
    result, complaints = convert(CommandResult, value)
    if result is None:
        raise ValueError(f"command_ended of {command.name}: {complaints[0].text}")
    if fault := _find_contradiction(command, result, event["ok"]):
        raise ValueError(f"command_ended of {command.name}: {fault}")
    return result


def _find_contradiction(command: Command, ended: CommandResult, ok: object) -> str:
    """Return what contradicts itself or the command, empty if nothing does."""
    by_exit = ended.ended_by is EndedBy.EXIT
    if by_exit != (ended.exit_code is not None) or (by_exit and ended.signal is not None):
        return f"ended by {ended.ended_by}, exit {ended.exit_code}, signal {ended.signal}"
    if ok is not (by_exit and ended.exit_code in command.ok_exit):
        return f"exit {ended.exit_code} is recorded as {'good' if ok else 'bad'}"
    if ended.reused_from and not command.cache_key:
        return f"reused from {ended.reused_from}, but it has no cache key"
    if not 0 <= (ended.exit_code or 0) <= _EXIT_CODES or not 1 <= (ended.signal or 1) <= _SIGNALS:
        return f"no program ends with exit {ended.exit_code} or signal {ended.signal}"
    if not 0 <= ended.seconds <= _MOST_SECONDS:
        return f"it took {ended.seconds} s"
    if not 0 <= ended.looks <= _MOST_SECONDS:
        return f"it was inspected {ended.looks} times"
    if max(len(ended.name), len(ended.detail), len(ended.reused_from)) > _LONGEST:
        return f"its texts have more than {_LONGEST} characters"
    return "" if _UTC.fullmatch(ended.started_utc) else f"it started at '{ended.started_utc}'"
