"""A host whose other GPU somebody uses: whoever rents one of eight can neither wait nor end it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from kernelrig.model import Build, Outcome

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject
from tests.e2e.test_all_gpus import OTHER, PLAN, named, tell
from tests.e2e.test_baselines import DRAWN, add_kernel, built
from tests.run.gpu_host import H200, SMI
from tests.stages import bench

__all__ = ["built"]


def run(
    make: MakeProject,
    host: LoopbackHost,
    build: Build,
    tmp_path: Path,
    *words: str,
    shared_power: bool = False,
) -> Answer:
    """Run the plan on the first GPU of two; the driver does not name who uses the other."""
    tell(tmp_path / "told" / bench.UUID, bench.UUID)
    smi = tmp_path / "tools/nvidia-smi"
    smi.parent.mkdir()
    used = H200 | {"apps": "1959, [No data], 520"}
    both = SMI.format(uuid=bench.UUID, **H200) + SMI.format(uuid=OTHER, **used)
    smi.write_text(f"#!/bin/sh\n{both}")
    smi.chmod(0o755)
    path = f"{smi.parent}:{Path(sys.executable).resolve().parent}:{os.defpath}"
    env = {"PATH": path, "TOLD": str(tmp_path / "told"), "KERNELRIG_LEASES": str(tmp_path / "l")}
    project = make(host.remote(env=env, shared_power=shared_power))
    add_kernel(project)
    (project.root / "ci/plans/pair.yaml").write_text(PLAN)
    asked = ("--remote", "host", "--kernel", "told", "--build", str(build.folder))
    return project.invoke("remote-test", *asked, "--plan", "pair", "--seed", str(DRAWN), *words)


@pytest.mark.long
def test_all_but_the_times_is_run_and_the_error_names_both_ways_out(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    answer = run(make, host, built, tmp_path)
    assert answer.exit_code == 4, answer.stdout + answer.stderr
    stages = named(answer)
    found = {name: stage.verdict.outcome for name, stage in stages.items()}
    assert found == dict.fromkeys(("smoke", "left", "right"), Outcome.PASS) | {
        "timing": Outcome.ERROR
    }
    assert stages["timing"].verdict.summary == (
        "not measured: another GPU of the host, which shares its power, is in use by another"
        " process: process 1959, which the driver does not name (520 MiB); wait, or end it, or set"
        " `shared_power: true` for this remote: times are then measured all the same, and say so"
    )
    assert not stages["timing"].commands


@pytest.mark.long
def test_what_measures_nothing_does_not_ask_who_uses_the_other(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    answer = run(make, host, built, tmp_path, "--only", "smoke,left")
    assert answer.exit_code == 0, answer.stdout + answer.stderr


@pytest.mark.long
def test_with_shared_power_the_times_are_measured_and_say_so(
    make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path
) -> None:
    answer = run(make, host, built, tmp_path, shared_power=True)
    assert answer.exit_code == 0, answer.stdout + answer.stderr
    (time,) = (c for c in named(answer)["timing"].checks if c.name == "time")
    assert time.facts["other GPUs"] == "1, shared power: they could be in use"
