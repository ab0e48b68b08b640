"""The records that flow from step to step, and the verdicts they carry.

Everything here is frozen: a step returns a new record, it never edits one. Records that are written
to disk carry `schema`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Literal

SCHEMA = 1


class Outcome(StrEnum):
    """PASS and FAIL speak of the kernel, ERROR of us or the host, SKIP says why it was not run."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"


class DeviceKind(StrEnum):
    """What executed the kernel; every label in every report derives from it."""

    GPU = "gpu"
    EMULATOR = "emulator"
    CPU = "cpu"  # a level-0 program without CUDA; never a remote's device


class StageKind(StrEnum):
    PREFLIGHT = "preflight"
    CHECKSUM = "checksum"
    SANITIZER = "sanitizer"
    TIMING = "timing"
    PROFILE = "profile"


class Pattern(StrEnum):
    """How the inputs are filled (the values and their reasons: ci.inputs)."""

    CONSTANT = "constant"
    INTEGER = "integer"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement and what it rests on; `evidence` are short lines a person can check.

    An error whose cause is a tool's answer that nobody can read (garbled, cut, summary missing)
    says `unreadable`: the task then exits 5, for any other error 4 (ci.report.verdict).
    """

    outcome: Outcome
    summary: str
    evidence: tuple[str, ...] = ()
    unreadable: bool = False


def combine(verdicts: Iterable[Verdict]) -> Outcome:
    """Join verdicts: any fail wins, then any error; nothing at all is an error, never a pass."""
    outcomes = {v.outcome for v in verdicts}
    for outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.PASS, Outcome.SKIP):
        if outcome in outcomes:
            return outcome
    return Outcome.ERROR


# --- configuration -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remote:
    """A host we run on: `ssh` a box with sshd, `embedded` this machine through our own SSH host."""

    name: str
    arch: str
    kind: Literal["ssh", "embedded"] = "ssh"
    host: str = ""
    user: str = ""
    port: int = 0
    identity_file: str = ""
    host_key: str = ""
    jump: str = ""
    workdir: str = "~/.kernelrig"
    device: Literal[DeviceKind.GPU, DeviceKind.EMULATOR] = DeviceKind.GPU
    gpu: str = ""
    tools: Literal["box", "ship"] = "box"
    python: str = "python3"
    connect_timeout_s: float = 15.0
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to compile a kernel; `defines` are -D names with their values."""

    name: str
    program: str
    defines: dict[str, str | int | float] = field(default_factory=dict)
    nvcc_flags: tuple[str, ...] = ()
    libs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A problem size: `images` x 196 rows; `ctas` caps the grid, 0 = every SM."""

    name: str
    images: int
    ctas: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most a build may use; None = not limited."""

    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The product behind a case, for napkin figures: rows per image, N, K."""

    rows_per_image: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class AcceptedFinding:
    """A reviewed sanitizer finding that is not the kernel's fault, until `expires`."""

    tool: str
    fingerprint: str
    tool_version: str
    reason: str
    expires: date


@dataclass(frozen=True, slots=True)
class Kernel:
    """What we build. Level 1 speaks kernel-binary's command line; level 0 is any program."""

    name: str
    sources: dict[str, str]
    variants: dict[str, Variant]
    level: Literal[0, 1] = 1
    kernel_regex: str = ""
    label: str = ""
    baseline: bool = False
    cases: dict[str, Case] = field(default_factory=dict)
    accum_tol: dict[str, float] = field(default_factory=dict)
    shape: Shape | None = None
    budgets: dict[str, Budget] = field(default_factory=dict)
    accepted: tuple[AcceptedFinding, ...] = ()
    args: tuple[str, ...] = ()
    expected_lines: tuple[str, ...] = ()
    cuda: bool = True


@dataclass(frozen=True, slots=True)
class Stage:
    """One step on the box as the plan words it; limits hold for each command of the stage."""

    name: str
    kind: StageKind
    case: str = ""
    patterns: tuple[Pattern, ...] = ()
    seeds: tuple[int, ...] = (0,)
    tool: Literal["", "memcheck", "racecheck", "initcheck", "synccheck"] = ""
    needs: tuple[str, ...] = ()
    time_s: float = 60.0
    output_mb: int = 64
    disk_mb: int = 1024
    warmup_s: float = 1.0
    samples: int = 200


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    stages: tuple[Stage, ...]


# --- toolchain and build -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The CUDA tools chosen, and why. `root` is a CUDA_HOME; versions as the tools print them."""

    root: Path
    nvcc: Path
    cuobjdump: Path
    nvdisasm: Path
    host_compiler: Path
    version: str
    cuobjdump_version: str
    nvdisasm_version: str
    host_compiler_version: str
    origin: Literal["wheels", "system"]
    reason: str


@dataclass(frozen=True, slots=True)
class FunctionResources:
    """What ptxas gave one kernel function; bytes are per thread, shared memory per CTA."""

    name: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Build:
    """A finished entry of artifacts/builds; `files` maps each file's name to its SHA-256."""

    kernel: str
    arch: str
    variant: str
    key: str
    folder: Path
    program: str
    command: tuple[str, ...]
    toolchain_version: str
    resources: tuple[FunctionResources, ...]
    glibc: str
    min_driver: str
    inputs: dict[str, str]
    files: dict[str, str]
    compile_s: float
    reused: bool = False
    schema: int = SCHEMA

    @property
    def binary(self) -> Path:
        return self.folder / self.program


# --- what the box is asked to do, and what it says ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """One program start on the box. The agent gates on `ok_exit` alone; verdicts come later, here.

    `once` names work whose good result is kept on the box and reused (a tool's self-test).
    `core_dump` starts the program so that a hang can be dumped before it is killed.
    `stdout` names the file for its standard output where that is a result, not a log.
    """

    name: str
    argv: tuple[str, ...]
    time_s: float
    ok_exit: tuple[int, ...] = (0,)
    env: dict[str, str] = field(default_factory=dict)
    once: str = ""
    core_dump: bool = False
    stdout: str = ""


@dataclass(frozen=True, slots=True)
class StageJob:
    """A stage as the agent runs it: all its commands in order, whatever each of them exits with.

    After a command that was ended at its time limit the stage's others are not started. It is not
    run behind a stage in `needs` that did not pass, nor behind one in `needs_end` that had a
    command ended at its time limit: after a hang, hanging again costs rented minutes.
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
    LOST = "lost"  # the agent vanished while it ran: nobody knows


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What the journal says of one command; its files lie in the stage's folder.

    stdout and stderr are `<name>.stdout.log` and `<name>.stderr.log` there. `exit_code` is None
    unless ended_by is EXIT. `reused_from` is the UTC stamp of the run of a reused `once` command.
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
    """What the journal says of one stage: its commands, or why it never started."""

    name: str
    commands: tuple[CommandResult, ...] = ()
    not_run: str = ""
    gpu_healthy_after: bool | None = None


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a tool complained of; `fingerprint` survives a rerun and a moved line."""

    tool: str
    kind: str
    message: str
    kernel: str = ""
    file: str = ""
    line: int = 0
    threads: str = ""
    count: int = 1
    fingerprint: str = ""
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One JUnit case: a question, its verdict, the findings behind it. Facts are label -> value."""

    name: str
    verdict: Verdict
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A stage's whole answer. `machine` is the device's own name, never what was asked for."""

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


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on the box (or shipped to it): where, which version, which options --help lists."""

    path: str
    version: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Box:
    """What the probe saw on the host, before anything was shipped. Empty strings: not found."""

    hostname: str
    python: str
    glibc: str
    workdir: str
    free_bytes: int
    driver: str = ""
    gpus: tuple[dict[str, str], ...] = ()
    gpu_processes: tuple[str, ...] = ()
    gpu_counters_admin_only: bool | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def visible_gpu(remote: Remote, box: Box | None) -> dict[str, str]:
    """Return what the box says of the GPU that a program takes there, empty if there is none.

    The first of the box, or the first that the remote's CUDA_VISIBLE_DEVICES names, by its index in
    PCI order or by the beginning of its UUID.
    """
    gpus = box.gpus if box else ()
    named = remote.env.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return gpus[0] if gpus else {}
    word = named.split(",")[0].strip()
    if word.isdecimal():
        return gpus[int(word)] if int(word) < len(gpus) else {}
    fitting = [g for g in gpus if word and g.get("uuid", "").startswith(word)]
    return fitting[0] if len(fitting) == 1 else {}


def executor(kernel: Kernel, remote: Remote, box: Box | None) -> tuple[DeviceKind, str]:
    """Return what executes `kernel` there and its own name, never the one that was asked for."""
    if not kernel.cuda:
        return DeviceKind.CPU, box.hostname if box else ""
    return remote.device, visible_gpu(remote, box).get("name", "")


@dataclass(frozen=True, slots=True)
class Shipped:
    """What travelled to the box; `resent` counts blobs found corrupted there or on the way."""

    blobs: int
    blobs_sent: int
    bytes_sent: int
    seconds: float
    resent: int = 0


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a run comes from: enough to make it again."""

    commit: str
    dirty_sha256: str
    kernelrig_version: str
    command_line: str
    host: str
    builds: dict[str, str]
    toolchain: str


@dataclass(frozen=True, slots=True)
class Run:
    """The whole story: run.json exists before the first connection, complete when results are."""

    id: str
    kernel: Kernel
    variant: str
    arch: str
    remote: Remote
    plan: Plan
    provenance: Provenance
    started_utc: str
    state: Literal["prepared", "launched", "finished", "incomplete"]
    jobs: tuple[StageJob, ...] = ()
    box: Box | None = None
    shipped: Shipped | None = None
    stages: tuple[StageRecord, ...] = ()
    missing: tuple[str, ...] = ()
    finished_utc: str = ""
    schema: int = SCHEMA
