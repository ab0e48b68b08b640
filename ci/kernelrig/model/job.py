"""A job for the agent on the host: commands and stages, and their results from its journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kernelrig.model.verdict import StageKind


@dataclass(frozen=True, slots=True)
class Inspection:
    """When a command that runs too long is inspected, and where its warps may wait for ever.

    `waits` are byte offsets in a section of the program's code, first and last inclusive. Measured
    on an H200, a look takes 1 s; between two of them a phase of a barrier has ended many times.
    """

    after_s: float
    waits: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    look_s: float = 20.0
    between_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Command:
    """One program start on the host. The agent decides by `ok_exit` alone; the client judges later.

    `cache_key`: a good result is cached on the host under this key and reused (tool self-tests).
    `core_dump` starts the program so that a hang can be dumped before it is killed.
    `stdout` names the file for its standard output where that is a result, not a log.
    `inspection`: good runs are known to take much less than `time_s`.
    """

    name: str
    argv: tuple[str, ...]
    time_s: float
    ok_exit: tuple[int, ...] = (0,)
    env: dict[str, str] = field(default_factory=dict)
    cache_key: str = ""
    core_dump: bool = False
    stdout: str = ""
    inspection: Inspection | None = None


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage as the agent runs it: all its commands in order, whatever each of them exits with.

    After a command that was ended at its time limit, or as a hang, the stage's other commands are
    not started. The stage is not run if one in `needs` did not pass, nor if one in `needs_end` had
    a command ended so: hanging once more would only cost rented minutes.
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
    HANG = "hang"  # inspected twice: every warp waits for a barrier, and nothing has changed
    OUTPUT_LIMIT = "output limit"
    DISK_LIMIT = "disk limit"
    DISK_FULL = "disk full"
    CANCELLED = "cancelled"
    NOT_STARTED = "not started"
    HELD_BACK = "held back"  # not started for what ended an earlier command of its stage
    LOST = "lost"  # the agent vanished while it ran: status unknown


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What the journal says of one command; its files lie in the stage's folder.

    stdout and stderr are `<name>.stdout.log` and `<name>.stderr.log` there. `exit_code` is None
    unless ended_by is EXIT. `reused_from` is the UTC stamp of the run that the cached result is of.
    `looks` counts how often it was inspected while it ran; `disturbed`: such a look did not end.
    """

    name: str
    ended_by: EndedBy
    exit_code: int | None = None
    signal: int | None = None
    started_utc: str = ""
    seconds: float = 0.0
    detail: str = ""
    reused_from: str = ""
    looks: int = 0
    disturbed: bool = False


@dataclass(frozen=True, slots=True)
class StageResult:
    """What the journal says of one stage: its commands, or why it never started.

    `changed` says why nothing of the stage counts: which file a program changed on the host, or
    that the process which ran it there was lost. `uncompared` says why a pass does not: its agent
    was gone before it had compared what the run rests on.
    `cancelled`: it is not complete, as somebody ended the run. `interrupted` says of each earlier
    attempt at the stage what ended it: a preempted job runs it again. `gpu` is the UUID of the one
    that it ran on, as its agent recorded it.
    """

    name: str
    commands: tuple[CommandResult, ...] = ()
    not_run: str = ""
    gpu_healthy_after: bool | None = None
    changed: str = ""
    uncompared: str = ""
    cancelled: bool = False
    interrupted: tuple[str, ...] = ()
    gpu: str = ""
