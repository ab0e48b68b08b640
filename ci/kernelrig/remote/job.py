"""The job as the agent takes it: job.json, the one form that the client and the agent share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kernelrig.model import StageJob


def job_record(
    run_id: str,
    jobs: Sequence[StageJob],
    *,
    files: Sequence[Mapping[str, Any]] = (),
    stop_at_first: bool = False,
    gpu: bool = False,
) -> dict[str, Any]:
    """Return the job: its stages, the blobs of its folder, and whether a GPU's health is probed."""
    return {
        "run": run_id,
        "stages": [asdict(stage) for stage in jobs],
        "files": [dict(entry) for entry in files],
        "stop_at_first": stop_at_first,
        "gpu": gpu,
    }
