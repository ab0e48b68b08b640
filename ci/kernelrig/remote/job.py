"""The job as the agent takes it: job.json, the one form that the client and the agent share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from kernelrig.model import StageJob


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """For how many minutes a run may hold its host, and the seconds that are left of them."""

    minutes: float
    left_s: float


def job_record(
    run_id: str,
    jobs: Sequence[StageJob],
    *,
    files: Sequence[Mapping[str, Any]] = (),
    stop_at_first: bool = False,
    gpu: bool = False,
    limit: TimeLimit | None = None,
    lease: Sequence[str] = (),
    visible: str = "",
    stage_gpus: Sequence[str] = (),
    worker_silent_s: float = 0.0,
    lease_allocated: bool = False,
) -> dict[str, Any]:
    """Return the job: its stages, the blobs of its folder, and whether a GPU's health is probed.

    `lease` are the UUIDs of the GPUs that it has for itself; `visible`, where there is anything to
    hide, is its CUDA_VISIBLE_DEVICES. Stages run beside each other on `stage_gpus`, but for those
    that are measured; the process of one that gives no sign of life for `worker_silent_s` is ended.
    With `lease_allocated` a run has the GPUs that Slurm gives its job.
    """
    limited = {} if limit is None else {"limit_s": limit.left_s, "limit_minutes": limit.minutes}
    return {
        **limited,
        "run": run_id,
        "stages": [asdict(stage) for stage in jobs],
        "files": [dict(entry) for entry in files],
        "stop_at_first": stop_at_first,
        "gpu": gpu,
        "gpus": list(lease),
        "visible": visible,
        "stage_gpus": list(stage_gpus),
        "alone": [job.name for job in jobs if job.kind.measured],
        "worker_silent_s": worker_silent_s,
        "lease_allocated": lease_allocated,
    }


def before_unmeasured(jobs: Sequence[StageJob]) -> list[str]:
    """Name the stages behind which files may be read and sent without a time being disturbed."""
    return [job.name for job, then in pairwise(jobs) if not then.kind.measured]
