"""On which GPUs of a host stages run beside each other, and what preflight says of each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.model import Outcome, Remote, on_gpu, stage_gpus, with_gpus

from tests.stages import bench
from tests.stages.test_preflight import GPU, check, named

SECOND, THIRD = ("GPU-2", "GPU-3")
ALIKE = GPU | {"uuid": SECOND}
OLDER = GPU | {"uuid": THIRD, "name": "NVIDIA A100", "compute_cap": "8.0"}
REMOTE = replace(bench.H200, gpus="all")


@pytest.mark.parametrize(
    ("wanted", "gpus", "found"),
    [
        ("all", (GPU, ALIKE), (GPU["uuid"], SECOND)),
        ("all", (GPU, OLDER, ALIKE), (GPU["uuid"], SECOND)),
        ("all", (GPU, ALIKE | {"mig.mode.current": "Enabled"}), (GPU["uuid"],)),
        ("all", (GPU,), ()),
        ("", (GPU, ALIKE), ()),
        (1, (GPU, ALIKE), ()),
    ],
)
def test_all_gpus_that_are_like_the_first_run_stages(
    wanted: int | str, gpus: tuple[dict[str, str], ...], found: tuple[str, ...]
) -> None:
    remote = Remote("r", "sm_90a", gpus=wanted)
    assert stage_gpus(with_gpus(replace(bench.HOST, gpus=gpus), remote), remote) == found


def test_a_stage_is_judged_by_the_gpu_that_it_ran_on() -> None:
    host = replace(bench.HOST, gpus=(GPU, ALIKE))
    assert on_gpu(host, SECOND).gpu == ALIKE
    assert on_gpu(host, "").gpu == on_gpu(host, THIRD).gpu == GPU


def test_preflight_names_the_gpus_of_stages_and_judges_the_condition_of_each() -> None:
    leased = (GPU["uuid"], SECOND, THIRD)
    record = check(remote=REMOTE, gpus=(GPU, ALIKE, OLDER), leased=leased)
    assert record.verdict.outcome is Outcome.PASS
    said = named(record, "GPUs of stages").verdict
    assert said.summary == f"stages run beside each other on {GPU['uuid']}, {SECOND}"
    assert said.evidence == (f"not like the first, no stage runs there: {THIRD}",)
    worn = ALIKE | {"remapped_rows.failure": "Yes"}
    bad = check(remote=REMOTE, gpus=(GPU, worn), leased=leased[:2])
    assert bad.verdict.outcome is Outcome.ERROR
    assert "it is worn out" in named(bad, f"ECC of {SECOND}").verdict.summary
    assert named(bad, "ECC").verdict.outcome is Outcome.PASS
