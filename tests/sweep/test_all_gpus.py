"""On a host with two GPUs sets are verified on both at once, and timed on the first, alone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import Run, Toolchain

from tests.compilations import REPOSITORY, share_builds
from tests.e2e.project import Project
from tests.run.gpu_host import H200, SMI, UUID
from tests.sweep.test_sweep import (
    SWEEP,
    events,
    make_project,
    require_outputs,
    require_whole,
)

OTHER = "GPU-11111111-2222-3333-4444-555555555555"


# A CPU program has no lease on a GPU, and its stages run in turn.
KERNEL = "__global__ void race(int *out) { *out = DEPTH + WIDTH; }\n"


@pytest.fixture
def project(cuda_toolchain: Toolchain, tmp_path: Path) -> Project:
    """A project whose host has a stand-in for nvidia-smi that lists two GPUs."""
    root = tmp_path / "project"
    project, tools, kernels = make_project(root), root / "tools", root / "kernel/kernels.yaml"
    share_builds(root)
    (root / "artifacts/tools").symlink_to(REPOSITORY / "artifacts/tools")
    (root / "kernel/race.cpp").rename(root / "kernel/race.cu")
    with (root / "kernel/race.cu").open("a") as source:
        source.write(KERNEL)
    text = kernels.read_text().replace("cuda: false", "cuda: true").replace(".cpp", ".cu")
    kernels.write_text(text)
    tools.mkdir()
    both = "\n".join(SMI.format(uuid=uuid, **H200) for uuid in (UUID, OTHER))
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{both}\n")
    (tools / "nvidia-smi").chmod(0o755)
    (root / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n"
        f"  local: {{kind: embedded, arch: sm_90a, gpus: all, workdir: '{root}/host',"
        f" env: {{PATH: '{tools}:/usr/bin:/bin', KERNELRIG_LEASES: '{root}/leases'}}}}\n"
    )
    return project


def require_both(project: Project) -> None:
    """All sets were verified in one run, on both GPUs; heats had the first alone."""
    runs = [e for e in events(project) if e["event"] == "run"]
    used = [(e["kind"], gpus_of(project, str(e["run"]))) for e in runs]
    assert used[0] == ("verify", {UUID, OTHER})
    assert used[1:]
    assert all(use == ("heat", {UUID}) for use in used[1:])


def gpus_of(project: Project, run: str) -> set[str]:
    found = from_json(Run, project.root / "artifacts/runs" / run / "run.json")
    return {stage.gpu for stage in found.stages if stage.kind.on_host}


@pytest.mark.long
def test_sets_are_verified_on_both_gpus_at_once(project: Project) -> None:
    require_whole(project, project.invoke(*SWEEP))
    require_both(project)
    require_outputs(project)


@pytest.mark.long
@pytest.mark.parametrize("after", [2, 3, 5])
def test_a_client_killed_while_both_verify_is_gone_on_with(project: Project, after: int) -> None:
    with project.start(*SWEEP) as client:
        seen = 0
        for line in client.process.stderr or ():
            seen += ": started" in line
            if seen > after:
                client.process.send_signal(signal.SIGKILL)
                break
    require_whole(project, project.invoke(*SWEEP))
    require_outputs(project)
