"""Who uses GPUs beside the run's own keeps what is measured from being run, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelrig.model import (
    Builds,
    Outcome,
    Pattern,
    Plan,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.stages import read_stage, stage_jobs

from tests.stages import bench

OTHER = "GPU-11111111-2222"
ALONE = replace(
    bench.HOST,
    gpus=(*bench.HOST.gpus, bench.HOST.gpus[0] | {"uuid": OTHER}),
    leased=(bench.UUID, OTHER),
    kept_idle=(OTHER,),
)
BUSY = replace(ALONE, gpu_processes=(f"{OTHER}, 17, train, 900",))
CHECKSUM = Stage("checksum", StageKind.CHECKSUM, "full", (Pattern.INTEGER,), time_s=60.0)
TIMING = Stage("timing", StageKind.TIMING, case="full", needs=("checksum",), time_s=60.0)
PLAN = Plan("default", (Stage("preflight", StageKind.PREFLIGHT), CHECKSUM, TIMING))
WHY = (
    "not measured: another GPU of the host, which shares its power, is in use by another process:"
    " train (process 17, 900 MiB); wait, or end it, or set `shared_power: true` for this remote:"
    " times are then measured all the same, and say so"
)


def test_only_what_is_measured_has_nothing_to_run() -> None:
    def commands(**changes: Any) -> list[int]:  # noqa: ANN401 - fields of a host
        host = replace(ALONE, **changes)
        jobs = stage_jobs(PLAN, bench.KERNEL, Builds(bench.build()), host, bench.H200)
        return [len(job.commands) for job in jobs]

    checksum, timing = commands()
    assert min(checksum, timing) > 0
    assert commands(gpu_processes=BUSY.gpu_processes) == [checksum, 0]
    assert commands(gpu_processes=BUSY.gpu_processes, kept_idle=()) == [checksum, timing]


def test_its_verdict_is_an_error_with_the_reason_and_both_ways_out(tmp_path: Path) -> None:
    record = record_of(tmp_path, StageResult("timing", ()))
    assert (record.verdict.outcome, record.verdict.summary) == (Outcome.ERROR, WHY)


def test_what_was_not_run_for_another_reason_says_that_one(tmp_path: Path) -> None:
    unmet = StageResult("timing", (), not_run="needs 'checksum', which did not pass")
    record = record_of(tmp_path, unmet)
    assert "needs 'checksum'" in record.verdict.summary


def record_of(folder: Path, result: StageResult) -> StageRecord:
    context = bench.context(host=BUSY)
    jobs = stage_jobs(PLAN, context.kernel, Builds(context.build), BUSY, context.remote)
    return read_stage(TIMING, jobs[-1], result, folder, context)


def test_a_program_of_the_cpu_is_timed_whoever_uses_a_gpu() -> None:
    kernel = replace(bench.KERNEL, cuda=False)
    jobs = stage_jobs(PLAN, kernel, Builds(bench.build()), BUSY, bench.H200)
    assert all(job.commands for job in jobs)
