"""A job for the agent on the host: commands and stages, and their results from its journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelrig.model.verdict import StageKind


@dataclass(frozen=True, slots=True)
class Command:
    """One program start on the host. The agent decides by `ok_exit` alone; the client judges later.

    `cache_key`: a good result is cached on the host under this key and reused (tool self-tests).
    `core_dump` starts the program so that a hang can be dumped before it is killed.
    `stdout` names the file for its standard output where that is a result, not a log.
    """

    name: str
    argv: tuple[str, ...]
    time_s: float
    ok_exit: tuple[int, ...] = (0,)
    env: dict[str, str] = field(default_factory=dict)
    cache_key: str = ""
    core_dump: bool = False
    stdout: str = ""


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage as the agent runs it: all its commands in order, whatever each of them exits with.

    After a command that was ended at its time limit the stage's other commands are not started.
    The stage is not run if one in `needs` did not pass, nor if one in `needs_end` had a command
    ended at its time limit: hanging once more would only cost rented minutes.
    """

    name: str
    kind: StageKind
    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    needs_end: tuple[str, ...] = ()
    output_bytes: int = 64 << 20
    disk_bytes: int = 1 << 30


class EndedBy(StrEnum):
    """Why a command is no longer running."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIME_LIMIT = "time limit"
    OUTPUT_LIMIT = "output limit"
    DISK_LIMIT = "disk limit"
    DISK_FULL = "disk full"
    NOT_STARTED = "not started"
    LOST = "lost"  # the agent vanished while it ran: status unknown


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What the journal says of one command; its files lie in the stage's folder.

    stdout and stderr are `<name>.stdout.log` and `<name>.stderr.log` there. `exit_code` is None
    unless ended_by is EXIT. `reused_from` is the UTC stamp of the run that the cached result is of.
    """

    name: str
    ended_by: EndedBy
    exit_code: int | None = None
    signal: int | None = None
    started_utc: str = ""
    seconds: float = 0.0
    detail: str = ""
    reused_from: str = ""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What the journal says of one stage: its commands, or why it never started.

    `changed` names a file that a program changed on the host, so that nothing of the stage counts.
    """

    name: str
    commands: tuple[CommandResult, ...] = ()
    not_run: str = ""
    gpu_healthy_after: bool | None = None
    changed: str = ""
