"""A kernel, a build, a host and result files as a good run on an H200 leaves them, for spoiling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from kernelrig.config.profile_plans import load_profile_plans
from kernelrig.model import (
    Build,
    Builds,
    Case,
    Check,
    CommandResult,
    DeviceKind,
    EndedBy,
    Host,
    Kernel,
    Outcome,
    Plan,
    Profiling,
    RecordedRemote,
    Shape,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
    Tool,
    Variant,
    Verdict,
)
from kernelrig.stages import Context, merge_plans, stage_jobs

from tests.stages import outputs

DATA = Path(__file__).parents[1] / "data"
UUID = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
LABEL = "stand-in on plain CUDA cores; its time is not the project's"
TOL = 1e-5
IMAGES = 7
SETS = 60000
"""Of inputs: more than three L2 caches hold, and a timed launch has those of its own sample."""

KERNEL = Kernel(
    name="patch_embed",
    sources={"sm_90a": "cuda_patch_embed_fp8.cu"},
    variants={"production": Variant("production", "siglip_vision")},
    kernel_regex="patch_embed_gemm",
    label=LABEL,
    cases={
        "smoke": Case("smoke", 1),
        "sanitizer": Case("sanitizer", IMAGES, 4),
        "full": Case("full", IMAGES),
    },
    accum_tol={"sm_90a": TOL},
    shape=Shape(outputs.ROWS_PER_IMAGE, outputs.N, outputs.K),
)

CPU_KERNEL = Kernel(
    name="cpu_program",
    sources={"sm_90a": "program.cc"},
    variants={"production": Variant("production", "cpu_program")},
    level=0,
    args=("--loops", "3"),
    expected_lines=("sum 42",),
    cuda=False,
)


def build(kernel: str = "patch_embed", program: str = "siglip_vision", **changes: Any) -> Build:  # noqa: ANN401 - any field
    fields: dict[str, Any] = {
        "kernel": kernel,
        "arch": "sm_90a",
        "variant": "production",
        "key": "0123456789abcdef",
        "folder": Path("artifacts/builds/x"),
        "program": program,
        "command": ("nvcc",),
        "toolchain_version": "13.0.88",
        "resources": (),
        "glibc": "2.34",
        "min_driver": "580.65.06",
        "inputs": {},
        "files": {},
        "compile_s": 1.0,
    }
    return Build(**(fields | changes))


SELFTEST = build("sanitizer_selftest", "sanitizer_selftest", key="fedcba9876543210")
BUILDS = Builds(build(), selftest=SELFTEST)

SANITIZER_OPTIONS = (
    "--check-bulk-copy",
    "--check-warpgroup-mma",
    "--racecheck-deadlock-timeout",
    "--racecheck-memcpy-async",
)

HOST = Host(
    hostname="host-17",
    python="3.12.3",
    glibc="2.39",
    free_bytes=64 << 30,
    driver="580.159.04",
    gpus=(
        {
            "name": "NVIDIA H200",
            "uuid": UUID,
            "driver_version": "580.159.04",
            "compute_cap": "9.0",
            "mig.mode.current": "Disabled",
            "pci.bus_id": "00000000:00:06.0",
            "clocks.sm": "345",
            "clocks.mem": "3201",
            "clocks.max.sm": "1980",
            "clocks_event_reasons.active": "0x0000000000000001",
            "power.limit": "700.00",
            "temperature.gpu": "37",
            "ecc.errors.uncorrected.volatile.total": "0",
            "sm_count": "132",
            "max_sm_clock_khz": "1980000",
            "memory_clock_khz": "3201000",
            "memory_bus_width_bits": "6016",
            "l2_bytes": "62914560",
        },
    ),
    gpu_counters_admin_only=False,
    tools={
        "compute-sanitizer": Tool(
            "/usr/local/cuda/bin/compute-sanitizer", "2025.3.1.0", SANITIZER_OPTIONS
        ),
        "ncu": Tool("/usr/local/cuda/bin/ncu", "2025.3.1.0"),
    },
    machine="x86_64",
    xid_errors=(),
    clock_ahead_s=0.1,
)

H200 = RecordedRemote(name="h200", arch="sm_90a", kind="embedded", gpu="H200")


def context(**changes: Any) -> Context:  # noqa: ANN401 - any field
    fields: dict[str, Any] = {
        "kernel": KERNEL,
        "build": build(),
        "host": HOST,
        "remote": H200,
        "earlier": {},
        "today": date(2026, 11, 21),
    }
    return Context(**(fields | changes))


def job(stage: Stage, ctx: Context) -> StageJob:
    plan = Plan("test", (stage,))
    builds = Builds(ctx.build, selftest=SELFTEST)
    measured = ctx.profiling or profiling()
    return stage_jobs(plan, ctx.kernel, builds, ctx.host, ctx.remote, profiling=measured)[0]


@cache
def profiling(*names: str) -> Profiling:
    """Return what a profile of the plans measures on an H200; of all without names."""
    plans = load_profile_plans(DATA.parents[1], names, "gh100")
    return Profiling("gh100", "2025.3.1", plans, merge_plans(plans, "gh100"))


def exited(name: str, code: int, seconds: float = 1.5) -> CommandResult:
    return CommandResult(
        name, EndedBy.EXIT, code, started_utc="2026-11-21T12:00:00Z", seconds=seconds
    )


def ended(stage: Stage, *commands: CommandResult) -> StageResult:
    return StageResult(stage.name, commands)


def record(
    name: str, kind: StageKind, outcome: Outcome = Outcome.PASS, variant: str = "production"
) -> StageRecord:
    verdict = Verdict(outcome, f"{name} said so")
    checks = (Check(name, verdict),)
    return StageRecord(name, kind, DeviceKind.GPU, "NVIDIA H200", verdict, checks, variant=variant)


CLOCK = {
    "sm_mhz": 1395,
    "memory_mhz": 3201,
    "power_w": 698.5,
    "power_limit_w": 700.0,
    "temperature_c": 61,
    "throttle_reasons": "0x0000000000000004",
}


EVENT_MS = 32e-6
"""The resolution of an H200's event clock: each time that it takes is a multiple."""


def timed_ms(*samples: float) -> list[float]:
    """Return the nearest times that an H200's events can give."""
    return [round(ms / EVENT_MS) * EVENT_MS for ms in samples]


def comparison(pattern: str, seed: int, elements: int) -> dict[str, Any]:
    return {
        "pattern": pattern,
        "seed": seed,
        "elements": elements,
        "mismatches": 0,
        "nan_count": 0,
        "max_abs_error": 0.0,
        "max_rel_error": 0.0,
        "accum_tol": TOL,
        "first_mismatch": None,
        "wrong": None,
    }


def result(
    mode: str,
    pattern: str,
    seed: int = 0,
    *,
    ctas: int = 0,
    samples: Sequence[float] = (0.256, 0.5, 0.752, 1.0),
) -> dict[str, Any]:
    """Return a good result of IMAGES images as the harness writes it."""
    m = IMAGES * outputs.ROWS_PER_IMAGE
    after = seed + (len(samples) - 1) % SETS
    shown = (pattern, after) if mode == "time" else (pattern, seed)
    return {
        "schema": 3,
        "program": "siglip_vision",
        "kernel": "patch_embed_gemm",
        "label": LABEL,
        "mode": mode,
        "pattern": pattern,
        "seed": seed,
        "case": {"images": IMAGES, "ctas": ctas},
        "shape": {"m": m, "n": outputs.N, "k": outputs.K},
        "exit_code": 0,
        "regime": "steady after 1.0 s" if mode == "time" else None,
        "device": {
            "name": "NVIDIA H200",
            "uuid": UUID,
            "compute_capability": "9.0",
            "driver": "580.159.04",
            "driver_cuda": 13000,
            "runtime_cuda": 13000,
            "sm_count": 132,
            "l2_bytes": 62914560,
            "memory_bus_width_bits": 6016,
            "memory_clock_khz": 3201000,
            "max_sm_clock_khz": 1980000,
        },
        "clocks": {"before": CLOCK, "after": CLOCK}
        | ({"during": [CLOCK, None, CLOCK]} if mode == "time" else {}),
        "samples_ms": list(samples) if mode == "time" else [],
        "checksum": outputs.checksum(*shown, IMAGES),
        "sampled": outputs.sampled(*shown, IMAGES),
        "compared": comparison(pattern, seed, m * outputs.N) if mode == "check" else None,
        "verified_after_timing": comparison(pattern, after, m * outputs.N)
        if mode == "time"
        else None,
        "sets": SETS if mode == "time" else 0,
        "spot_checks": deepcopy(_spots(seed, len(samples))) if mode == "time" else [],
        "error": None,
    }


@cache
def _spots(seed: int, samples: int) -> list[dict[str, Any]]:
    return outputs.spot_checks(seed, samples, SETS, IMAGES)


def invalidated(good: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy with the value at a dotted path replaced; `DELETE` takes the key away."""
    bad = deepcopy(good)
    *way, last = path.split(".")
    inner: Any = bad
    for step in way:
        inner = inner[step]
    if value is DELETE:
        del inner[last]
    else:
        inner[last] = value
    return bad


DELETE = object()


def write(folder: Path, files: Mapping[str, str | dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)
    return folder
