"""Runs made by hand: one for every way a run can end."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from kernelrig.model import (
    Check,
    Command,
    CommandResult,
    DeviceKind,
    EndedBy,
    Finding,
    Host,
    Kernel,
    Outcome,
    Plan,
    Provenance,
    Purpose,
    RecordedRemote,
    Run,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    Verdict,
    join_checks,
)

NASTY = "\x1b[31mred\x00 \ud800 \U0001f525 ü]]>&<b>%0A\n::error::x|`*_\ufffe"
"""Colours, NUL, a lone surrogate, CDATA's end, markup, a workflow command: all in one message."""

H200 = RecordedRemote(name="h200", arch="sm_90a", kind="embedded")
HOST = Host(
    hostname="host-17",
    python="3.12.3",
    glibc="2.39",
    free_bytes=1 << 36,
    driver="580.159.04",
    gpus=({"name": "NVIDIA H200", "uuid": "GPU-1"},),
)
KERNEL = Kernel(
    name="patch_embed",
    sources={"sm_90a": "cuda_patch_embed_fp8.cu"},
    variants={},
    label="stand-in on plain CUDA cores; its time is not the project's",
)
PROVENANCE = Provenance(
    commit="0123456789abcdef0123456789abcdef01234567",
    dirty_sha256="",
    kernelrig_version="0.1.0",
    command_line="invoke remote-test --remote h200",
    host="laptop Linux x86_64",
    builds={"patch_embed-sm_90a-production": "aabbccddeeff00112233445566778899"},
    toolchain="13.0.88",
)
OUT_OF_BOUNDS = Finding(
    tool="memcheck",
    kind="invalid write",
    message="Invalid __global__ write of size 2 bytes",
    kernel="patch_embed_gemm",
    file="kernel/cuda_patch_embed_fp8.cu",
    line=123,
    threads="(0,0,0) to (31,0,0) in block (3,0,0)",
    count=32,
    fingerprint="5e1f00d5",
)


def stage(
    name: str,
    kind: StageKind,
    *checks: Check,
    verdict: Verdict,
    seconds: float = 1.5,
    device: DeviceKind = DeviceKind.GPU,
    machine: str = "NVIDIA H200",
    notes: tuple[str, ...] = (),
) -> StageRecord:
    """Return a record; what was skipped or is judged from the probe started no command."""
    idle = kind is StageKind.PREFLIGHT or verdict.outcome is Outcome.SKIP
    return StageRecord(
        name=name,
        kind=kind,
        device=device,
        machine=machine,
        verdict=verdict,
        checks=checks,
        commands=() if idle else (CommandResult(name, EndedBy.EXIT, 0),),
        notes=notes,
        started_utc="2026-11-21T12:00:00Z",
        seconds=seconds,
    )


def passed(summary: str = "all 1053696 elements equal", *evidence: str) -> Verdict:
    return Verdict(Outcome.PASS, summary, evidence)


def failed(summary: str, *evidence: str) -> Verdict:
    return Verdict(Outcome.FAIL, summary, evidence)


def broken(summary: str, *, unreadable: bool = False) -> Verdict:
    return Verdict(Outcome.ERROR, summary, unreadable=unreadable)


def skipped(summary: str) -> Verdict:
    return Verdict(Outcome.SKIP, summary)


PREFLIGHT = stage(
    "preflight",
    StageKind.PREFLIGHT,
    Check("driver", passed("driver 580.159.04 is at least 580"), facts={"driver": "580.159.04"}),
    verdict=passed("1 check passed"),
    seconds=0.25,
)
CHECKSUM = stage(
    "checksum",
    StageKind.CHECKSUM,
    Check("integer", passed(), seconds=0.75, facts={"elements": "1053696", "pattern": "integer"}),
    verdict=passed(),
)
MEMCHECK = stage(
    "memcheck",
    StageKind.SANITIZER,
    Check("memcheck", passed("0 errors, and the kernel was seen"), seconds=9.0),
    verdict=passed("0 errors, and the kernel was seen"),
    seconds=1234.5,
    notes=("tensor memory not covered",),
)
TIMING = stage(
    "timing",
    StageKind.TIMING,
    Check(
        "timing",
        passed("median 5.300 ms of 200 samples"),
        seconds=3.0,
        facts={"median": "5.300 ms", "samples": "200", "regime": "steady after 1.0 s"},
    ),
    verdict=passed("median 5.300 ms of 200 samples"),
)
FAILED_MEMCHECK = stage(
    "memcheck",
    StageKind.SANITIZER,
    Check(
        "finding 5e1f00d5",
        failed("memcheck found an error", "ERROR SUMMARY: 32 errors"),
        seconds=9.0,
        findings=(OUT_OF_BOUNDS,),
    ),
    verdict=failed("memcheck found an error"),
    notes=("tensor memory not covered",),
)
SKIPPED_TIMING = stage(
    "timing", StageKind.TIMING, verdict=skipped("checksum did not pass"), seconds=0.0
)


def run(
    *stages: StageRecord,
    device: Literal[DeviceKind.GPU, DeviceKind.EMULATOR] = DeviceKind.GPU,
) -> Run:
    """A finished run of these stages, all of them planned."""
    return Run(
        id="20261121T120000Z-patch_embed-h200-beef",
        kernel=KERNEL,
        variant="production",
        arch="sm_90a",
        remote=replace(H200, device=device),
        plan=Plan("default", tuple(Stage(s.name, s.kind) for s in stages)),
        provenance=PROVENANCE,
        started_utc="2026-11-21T12:00:00Z",
        state="finished",
        jobs=tuple(
            StageJob(s.name, s.kind, (Command(s.name, ("../../build/siglip_vision",), 60.0),))
            for s in stages
            if s.kind is not StageKind.PREFLIGHT
        ),
        host=HOST,
        stages=stages,
        finished_utc="2026-11-21T12:03:20Z",
    )


def nasty_run() -> Run:
    """A run in which every word that came from elsewhere is out to break the report."""
    finding = replace(OUT_OF_BOUNDS, message=NASTY, kernel=NASTY, file=NASTY, threads=NASTY)
    check = Check(NASTY, failed(NASTY, NASTY), findings=(finding,), facts={NASTY: NASTY})
    record = stage("memcheck", StageKind.SANITIZER, check, verdict=failed(NASTY), machine=NASTY)
    return replace(
        run(record),
        host=replace(HOST, hostname=NASTY, driver=NASTY),
        provenance=replace(PROVENANCE, commit=NASTY, toolchain=NASTY),
        kernel=replace(KERNEL, label=NASTY),
    )


ACCEPTED_MEMCHECK = replace(
    MEMCHECK,
    checks=(
        Check(
            "finding 5e1f00d5",
            passed("accepted until 2027-01-01"),
            findings=(replace(OUT_OF_BOUNDS, accepted="the allocator pads, see issue 12"),),
        ),
    ),
    verdict=passed("accepted until 2027-01-01"),
)
PASS = run(PREFLIGHT, CHECKSUM, MEMCHECK, TIMING)
ACCEPTED = run(PREFLIGHT, ACCEPTED_MEMCHECK)
FAIL = run(PREFLIGHT, CHECKSUM, FAILED_MEMCHECK, SKIPPED_TIMING)
ERROR = run(
    stage(
        "preflight",
        StageKind.PREFLIGHT,
        verdict=broken("no python3 on the host"),
        machine="",
    ),
    SKIPPED_TIMING,
)
UNREADABLE = run(
    PREFLIGHT,
    stage(
        "memcheck",
        StageKind.SANITIZER,
        Check("memcheck", broken("memcheck printed no summary", unreadable=True)),
        verdict=broken("memcheck printed no summary"),
    ),
)
INCOMPLETE = replace(
    run(PREFLIGHT, CHECKSUM),
    state="incomplete",
    missing=("host-17 does not answer: connection refused",),
)
EMULATED = run(
    stage(
        "checksum",
        StageKind.CHECKSUM,
        Check("integer", passed()),
        verdict=passed(),
        device=DeviceKind.EMULATOR,
        machine="NVIDIA B200",
    ),
    replace(TIMING, device=DeviceKind.EMULATOR, machine="NVIDIA B200"),
    device=DeviceKind.EMULATOR,
)
NOTHING = run()
NARROWED = replace(run(PREFLIGHT, replace(CHECKSUM, name="smoke")), only=("smoke",))
UNJUDGED = run(PREFLIGHT)
SPILLS = Finding(
    tool="check",
    kind="local-memory",
    message="STL at 0x1230",
    kernel="patch_embed_gemm",
    file="kernel/sm100a_patch_embed_fp8.cu",
    line=415,
)


def static_run(*checks: Check, name: str = "sm_100a-production") -> Run:
    """A run that judged builds: no remote, no host, nothing was executed."""
    stage = StageRecord(
        name,
        StageKind.CHECK,
        DeviceKind.STATIC,
        "",
        join_checks(checks),
        checks,
        notes=("most live registers: 207 at sm100a_patch_embed_fp8.cu:505",),
        variant="production",
    )
    return Run(
        id="20261121T120000Z-patch_embed-check-c0de",
        kernel=replace(KERNEL, label={"sm_90a": KERNEL.label_for("sm_90a")}),
        variant="production",
        arch="sm_100a",
        purpose=Purpose.CHECK,
        remote=None,
        plan=Plan("check", (Stage(name, StageKind.CHECK),)),
        provenance=PROVENANCE,
        started_utc="2026-11-21T12:00:00Z",
        state="finished",
        stages=(stage,),
        finished_utc="2026-11-21T12:00:09Z",
    )


REGISTERS = Check(
    "R001 registers",
    Verdict(Outcome.PASS, "210 registers, the budget is at most 236"),
    facts={"registers": "210", "budget": "236"},
)
CHECKED = static_run(
    REGISTERS,
    Check("R008 accepted", Verdict(Outcome.SKIP, "nothing is accepted yet")),
)
SPILLING = static_run(
    REGISTERS,
    Check(
        "R004 local-memory",
        Verdict(
            Outcome.FAIL,
            "1 local instructions, the budget is at most 0",
            ("suggested fix: unroll",),
        ),
        findings=(SPILLS,),
        facts={"local_instructions": "1", "budget": "0"},
    ),
)

ALL = {
    "pass": PASS,
    "accepted": ACCEPTED,
    "fail": FAIL,
    "error": ERROR,
    "unreadable": UNREADABLE,
    "incomplete": INCOMPLETE,
    "emulated": EMULATED,
    "nothing": NOTHING,
    "narrowed": NARROWED,
    "unjudged": UNJUDGED,
    "nasty": nasty_run(),
    "checked": CHECKED,
    "spilling": SPILLING,
}
