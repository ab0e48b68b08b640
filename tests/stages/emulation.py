"""Stages on an emulator: what one leaves, and its verdict."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from kernelrig import __version__
from kernelrig.model import (
    AcceptedFinding,
    Builds,
    DeviceKind,
    Pattern,
    Plan,
    RecordedRemote,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.reference.expected import OutputRows
from kernelrig.stages import read_stage, stage_jobs
from kernelrig.stages.context import Context
from kernelrig.stages.emulation.findings import emulated_findings
from kernelrig.stages.emulation.findings_file import Emulated, Found, Ran

from tests.stages import bench

EMULATOR = RecordedRemote("emulator", "sm_90a", kind="embedded", device=DeviceKind.EMULATOR)
PTX = "siglip_vision.ptx"
SHA = "5e" * 32
BUILD = bench.build(files={PTX: SHA}, inputs={"kernel/gemm.cu": "00"})
CONTEXT = bench.context(remote=EMULATOR, build=BUILD)
SMOKE = Stage("smoke", StageKind.CHECKSUM, "smoke", patterns=(Pattern.INTEGER,))
TOOLS = tuple(
    Stage(tool, StageKind.SANITIZER, "smoke", seeds=(seed,), tool=tool)  # type: ignore[arg-type]
    for seed, tool in enumerate(("synccheck", "racecheck", "memcheck"), 1)
)
PLAN = Plan("default", (Stage("preflight", StageKind.PREFLIGHT), SMOKE, *TOOLS))
JOBS = {job.name: job for job in stage_jobs(PLAN, bench.KERNEL, Builds(BUILD), None, EMULATOR)}
RACE: dict[str, Any] = {
    "kind": "race",
    "severity": "error",
    "message": "written by one, read by another",
    "cta": 1,
    "warp": 4,
    "lanes": 1,
    "ptx_line": 88,
    "source": "gemm.cu:412 gemm_kernel",
    "count": 3,
    "schedule": 2,
}


def report(schedules: int, observed: str, /, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what the emulator writes of a clean run, with `changes` in it."""
    run = {
        "observed": observed.split(","),
        "schedules": schedules,
        "seed": 0,
        "accumulate": "fp32",
        "engine": "numpy",
        "engine_note": "",
        "module_sha256": SHA,
        "stopped": [],
        "dumps": {"C": ["out.npy"] * schedules},
        "lost": {},
        "severities": {},
        "strict": False,
    }
    run |= {k: v for k, v in changes.items() if k in run}
    rest = {k: v for k, v in changes.items() if k not in run}
    return {"schema": 3, "findings": [], "stats": {"steps": 9}, "run": run, **rest}


def outputs(seed: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    shape = bench.KERNEL.shape
    assert shape is not None
    made = OutputRows(
        pattern=Pattern.INTEGER,
        seed=seed,
        accum_tol=bench.TOL,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
    )
    wanted = made.rows(0, shape.rows_per_image)
    return wanted.bits.reshape(-1, shape.n)


def write(folder: Path, name: str, value: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def read_smoke(
    folder: Path,
    code: int = 0,
    job: StageJob = JOBS["smoke"],
    **changes: Any,  # noqa: ANN401
) -> StageRecord:
    """Judge the checksum stage of a run whose report has `changes`."""
    write(folder, "integer-0", report(2, "memory,sync", **changes))
    if not (folder / "out.npy").exists():
        np.save(folder / "out.npy", outputs(0))
    result = StageResult("smoke", (bench.exited("integer-0", code),))
    return read_stage(SMOKE, job, result, folder, CONTEXT)


def read_tool(folder: Path, tool: str, codes: list[int]) -> StageRecord:
    stage = next(s for s in TOOLS if s.tool == tool)
    job = JOBS[tool]
    ended = tuple(bench.exited(c.name, code) for c, code in zip(job.commands, codes, strict=True))
    return read_stage(stage, job, StageResult(tool, ended), placed(folder, job), CONTEXT)


def placed(folder: Path, job: StageJob) -> Path:
    """Copy what was left to where a run has it, with the emulation that it is a part of."""
    place = folder / "run/stages/09-part"
    place.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.*"):
        shutil.copy(file, place)
    *_, command = job.commands
    whole = place / command.argv[command.argv.index("split") + 1]
    part = place / f"{command.name}.json"
    if part.is_file() and not whole.is_file():
        value = json.loads(part.read_text())
        value["findings"] += value.pop("others", [])
        value.pop("split")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(json.dumps(value))
    return place


def write_shared(folder: Path, **changes: Any) -> None:  # noqa: ANN401
    """Leave what the shared emulation and the split of its first stage leave."""
    np.save(folder / "out.npy", outputs(1))
    whole = report(4, "sync,races,memory", **changes)
    write(folder, "emulate", whole)
    found = changes.get("findings", [])
    write(folder, "synccheck", {**whole, "findings": [], "others": found, "split": ["sync"]})


def accepting(*, tool: str = "emulator", **changes: Any) -> Context:  # noqa: ANN401
    """The context of a kernel whose kernels.yaml accepts the race of RACE."""
    found = Emulated((Found(**RACE),), {}, Ran((), 1, 0, "fp32", SHA, (), {}, "numpy"))
    (finding,) = emulated_findings(found, found.findings, CONTEXT)
    entry = AcceptedFinding(
        tool, finding.fingerprint, __version__, "reviewed by two", date(2027, 1, 31)
    )
    kernel = replace(bench.KERNEL, accepted=(replace(entry, **changes),))
    return replace(CONTEXT, kernel=kernel)


def read_race(folder: Path, context: Context, **changes: Any) -> StageRecord:  # noqa: ANN401
    write(folder, "racecheck", report(4, "sync,races", findings=[RACE], split=["races"], **changes))
    stage = next(s for s in TOOLS if s.tool == "racecheck")
    result = StageResult("racecheck", (bench.exited("racecheck", 1),))
    place = placed(folder, JOBS["racecheck"])
    return read_stage(stage, JOBS["racecheck"], result, place, context)
