"""Results: checks, stage records, and the run that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelrig.model.bench import Bench
from kernelrig.model.configuration import Emulation, Fault, Kernel, Plan
from kernelrig.model.finding import Finding
from kernelrig.model.host import GpuBusy, Host, RecordedRemote, Shipped
from kernelrig.model.job import CommandResult, StageJob, StageResult
from kernelrig.model.profile import Profiling
from kernelrig.model.verdict import (
    DeviceKind,
    Outcome,
    Purpose,
    StageKind,
    Verdict,
    broken,
    combine,
    passed,
)

STOPPED_SCHEDULES = "stopped schedules"
"""The fact of an emulated check that judged schedules which did not reach the launch's end."""


@dataclass(frozen=True, slots=True)
class WrongTiles:
    """Where an output is wrong: how many elements of each tile of C [rows, columns].

    `counts` are by rows of tiles; a tile has `tile_rows` x `tile_columns` elements, the last less.
    """

    rows: int
    columns: int
    tile_rows: int
    tile_columns: int
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One JUnit case: a check, its verdict and its findings. `facts` are label -> value.

    `wrong` is None where no output was wrong, or it is not known where. `warning`: what to do about
    something that is not as it should be, and does not keep the check from passing.
    """

    name: str
    verdict: Verdict
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    wrong: WrongTiles | None = None
    warning: str = ""


@dataclass(frozen=True, slots=True)
class StageRecord:
    """The result of a stage. `machine` is the name that the device itself reports.

    `variant` is that of the build which the stage used: the run's, or one of the stage's own. Where
    a check was done, `build` is that build's key, and `standard` identifies it (run.standards).
    `reused_from` is the id of the run that its result is of; empty = it is of this one. `gpu` is
    the UUID of the GPU that it ran on, empty in older records.
    """

    name: str
    kind: StageKind
    device: DeviceKind
    machine: str
    verdict: Verdict
    checks: tuple[Check, ...]
    commands: tuple[CommandResult, ...] = ()
    notes: tuple[str, ...] = ()
    started_utc: str = ""
    seconds: float = 0.0
    variant: str = ""
    build: str = ""
    standard: str = ""
    reused_from: str = ""
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class Reused:
    """A stage's result that an earlier run has, with what that run asked and its journal said.

    `folder` holds its files, by the earlier run's own folder; `seed` is what the plan's seeds stood
    for there.
    """

    run: str
    finished_utc: str
    folder: str
    job: StageJob
    result: StageResult
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run comes from: enough to reproduce it; `no_commit` is why there is no commit.

    `not_in_commit` are the files that went into its builds and are not as they were committed,
    `files` the SHA-256 of each input file of a plain program by its path in the project.
    """

    commit: str
    dirty_sha256: str
    kernelrig_version: str
    command_line: str
    host: str
    builds: dict[str, str]
    toolchain: str
    no_commit: str = ""
    not_in_commit: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """run.json: written before the first connection, and again when results arrive.

    `state` is `launched` from before the host is asked until all files are here, and `collected`
    until these are judged. `gate_percent` is how much slower than the baseline a time may be; None
    = no limit. `require_device` is the name of the one GPU that may execute it; empty = any. `seed`
    is what the seeds of the plan stand for (model.seed); None = themselves. `purpose` is the task
    that made it, `only` the stages that --only left of its plan; empty = all of them. `emulation`
    is how `emulate` carried it out; None for other tasks, and in older records. `profiling` is what
    its profile stage measures; None without one, and in older records. `held_s` is how long this
    client held the host, from its first connection to the last file; None where it went away.
    `cancelled`: somebody ended it on the host before all of its stages had run.
    `stage_keys` identify what the result of a stage depends on, by its name; `reused` are the
    stages that were not run again. `gpu_busy` is None where no GPU ran, and in older records.
    `journal_key` seals the journal of the agent that it was given to; empty where none was, and in
    older records.
    """

    id: str
    kernel: Kernel
    variant: str
    arch: str
    remote: RecordedRemote | None
    plan: Plan
    provenance: Provenance
    started_utc: str
    state: Literal["prepared", "launched", "collected", "finished", "incomplete"]
    jobs: tuple[StageJob, ...] = ()
    host: Host | None = None
    shipped: Shipped | None = None
    stages: tuple[StageRecord, ...] = ()
    missing: tuple[str, ...] = ()
    finished_utc: str = ""
    bench: Bench | None = None
    gate_percent: float | None = None
    require_device: str = ""
    fault: Fault | None = None
    seed: int | None = None
    purpose: Purpose = Purpose.TEST
    only: tuple[str, ...] = ()
    emulation: Emulation | None = None
    profiling: Profiling | None = None
    price_per_hour: float | None = None
    held_s: float | None = None
    cancelled: bool = False
    stage_keys: dict[str, str] = field(default_factory=dict)
    reused: dict[str, Reused] = field(default_factory=dict)
    gpu_busy: GpuBusy | None = None
    journal_key: str = ""
    schema: int = 3


def join_checks(checks: Sequence[Check]) -> Verdict:
    """Return the verdict of all checks; its summary is the first decisive check's own."""
    outcome = combine(c.verdict for c in checks)
    decisive = [c for c in checks if c.verdict.outcome is outcome]
    if not decisive:
        return broken("the stage has no checks: nothing was established")
    if outcome is Outcome.PASS:
        accepted = sum(1 for c in checks for f in c.findings if f.accepted)
        note = f" ({accepted} accepted)" if accepted else ""
        if len(decisive) == 1:
            return passed(decisive[0].verdict.summary + note)
        return passed(f"{len(decisive)} checks passed{note}")
    first = decisive[0].verdict
    more = f" (and {len(decisive) - 1} more)" if len(decisive) > 1 else ""
    return replace(first, summary=first.summary + more)
