"""A plan on all GPUs of a host: what each stage says of its GPU, from there to every report.

The program hands out result files in place of measuring, one for each GPU.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from kernelrig.model import Build, Outcome, StageRecord, input_seed

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project, stage_of
from tests.e2e.test_baselines import DRAWN, add_kernel, built
from tests.run.gpu_host import H200, SMI
from tests.stages import bench

__all__ = ["built"]

OTHER = "GPU-11111111-2222-3333-4444-555555555555"
PLAN = """\
schema: 1
stages:
  - {name: preflight, kind: preflight}
  - {name: smoke, kind: checksum, case: smoke, patterns: [integer], time_s: 30}
  - {name: left, kind: checksum, case: full, patterns: [integer], seeds: [0], time_s: 30}
  - {name: right, kind: checksum, case: full, patterns: [integer], seeds: [0], time_s: 30}
  - {name: timing, kind: timing, case: full, needs: [smoke, left, right], time_s: 30,
     warmup_s: 1.0, samples: 200}
"""


def tell(folder: Path, uuid: str) -> None:
    """Write what the program says on a GPU."""
    folder.mkdir(parents=True)
    seed = input_seed(DRAWN, 0)
    samples = bench.timed_ms(*(1.0 * (1 + (i - 100) / 1e5) for i in range(200)))
    right = bench.result("check", "integer", seed)
    timed = bench.result("time", "random", seed, samples=samples)
    for name, found in (("check-integer", right), ("time-random", timed)):
        device = {**found["device"], "uuid": uuid}
        text = json.dumps({**found, "label": "", "device": device})
        (folder / f"{name}-{seed}.json").write_text(text)


def run(
    make: MakeProject, host: LoopbackHost, build: Build, tmp_path: Path, says: dict[str, str]
) -> tuple[Project, Answer]:
    """Run the plan on a host of two GPUs; `says` is the UUID that results of each name."""
    for uuid, said in says.items():
        tell(tmp_path / "told" / uuid, said)
    smi = tmp_path / "tools/nvidia-smi"
    smi.parent.mkdir()
    both = "".join(SMI.format(uuid=uuid, **H200) for uuid in (bench.UUID, OTHER))
    smi.write_text(f"#!/bin/sh\n{both}")
    smi.chmod(0o755)
    path = f"{smi.parent}:{Path(sys.executable).resolve().parent}:{os.defpath}"
    env = {"PATH": path, "TOLD": str(tmp_path / "told"), "KERNELRIG_LEASES": str(tmp_path / "l")}
    project = make(host.remote(env=env, gpus="all"))
    add_kernel(project)
    (project.root / "ci/plans/pair.yaml").write_text(PLAN)
    words = ("--remote", "host", "--kernel", "told", "--build", str(build.folder))
    return project, project.invoke("remote-test", *words, "--plan", "pair", "--seed", str(DRAWN))


def named(answer: Answer) -> dict[str, StageRecord]:
    return {name: stage_of(answer.run, name) for name in ("smoke", "left", "right", "timing")}


@pytest.mark.long
def test_each_stage_says_on_which_gpu_it_ran_and_a_time_that_the_other_was_idle(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    uuids = {bench.UUID: bench.UUID, OTHER: OTHER}
    _, answer = run(make, host, built, tmp_path, uuids)
    assert answer.exit_code == 0, answer.stdout + answer.stderr
    stages = named(answer)
    assert [stages[n].gpu for n in ("smoke", "left", "timing")] == [bench.UUID] * 3
    assert stages["right"].gpu == OTHER
    (time,) = (c for c in stages["timing"].checks if c.name == "time")
    assert time.facts["other GPUs"] == "1, leased and left idle by this run"
    summary = (answer.folder / "summary.md").read_text()
    assert f"right on {OTHER}" in summary
    assert f'name="gpu" value="{OTHER}"' in (answer.folder / "junit.xml").read_text()
    assert OTHER in (answer.folder / "report.html").read_text()
    assert f"right: started on {OTHER}" in answer.stderr


@pytest.mark.long
def test_a_result_of_another_gpu_than_the_one_that_the_stage_had_is_an_error(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    uuids = {bench.UUID: bench.UUID, OTHER: bench.UUID}
    _, answer = run(make, host, built, tmp_path, uuids)
    assert answer.exit_code == 4, answer.stdout
    right = named(answer)["right"]
    assert (right.gpu, right.verdict.outcome) == (OTHER, Outcome.ERROR)
    assert f"the GPU that was judged is NVIDIA H200, {OTHER}" in right.verdict.summary
