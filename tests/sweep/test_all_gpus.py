"""On a host with two GPUs sets are verified on both at once, and times are measured with both."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from kernelrig.model import TunableSet
from kernelrig.sweep.all_gpus import shared

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


def two_gpus(root: Path) -> Project:
    """Make a project whose host has a stand-in for nvidia-smi that lists two GPUs."""
    project, tools = make_project(root), root / "tools"
    tools.mkdir()
    both = "\n".join(SMI.format(uuid=uuid, **H200) for uuid in (UUID, OTHER))
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{both}\n")
    (tools / "nvidia-smi").chmod(0o755)
    (root / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n"
        f"  local: {{kind: embedded, arch: sm_90a, gpus: all, workdir: '{root}/host',"
        f" env: {{PATH: '{tools}:/usr/bin:/bin'}}}}\n"
    )
    return project


def require_both(project: Project) -> None:
    """Both GPUs had a run, which were begun before either was judged; no set was in two."""
    said = events(project)
    verified = [e for e in said if e["event"] == "run" and e["kind"] == "verify"]
    assert {e["gpu"] for e in verified} == {UUID, OTHER}
    kinds = [(e["event"], e.get("kind")) for e in said]
    begun = [i for i, k in enumerate(kinds) if k == ("run", "verify")]
    assert begun[1] < kinds.index(("verified", None))
    judged = [str(name) for e in said if e["event"] == "verified" for name in e["results"]]  # type: ignore[attr-defined]
    assert sorted(judged) == sorted(set(judged))
    heats = [e for e in said if e["event"] == "run" and e["kind"] == "heat"]
    assert heats
    assert all("gpu" not in e for e in heats)


@pytest.mark.long
def test_sets_are_verified_on_both_gpus_at_once(tmp_path: Path) -> None:
    project = two_gpus(tmp_path / "project")
    require_whole(project, project.invoke(*SWEEP))
    require_both(project)
    require_outputs(project)
    homes = {p.name for p in (project.root / "host/gpus").iterdir()}
    assert homes == {UUID, OTHER}


@pytest.mark.long
@pytest.mark.parametrize("after", [2, 3, 5])
def test_a_client_killed_while_both_verify_is_gone_on_with(tmp_path: Path, after: int) -> None:
    project = two_gpus(tmp_path / "project")
    with project.start(*SWEEP) as client:
        seen = 0
        for line in client.process.stderr or ():
            seen += any(word in line for word in ("GPU-", ": started"))
            if seen > after:
                client.process.send_signal(signal.SIGKILL)
                break
    require_whole(project, project.invoke(*SWEEP))
    require_outputs(project)


def test_sets_are_dealt_to_the_gpus_in_turn() -> None:
    sets = [TunableSet(f"set-{i}", f"W={i}", {"W": i}) for i in range(3)]
    first, second = shared(sets, (UUID, OTHER))
    assert [s.id for s in first.sets] == ["set-0", "set-2"]
    assert [s.id for s in second.sets] == ["set-1"]
    assert len(shared(sets[:1], (UUID, OTHER))) == 1
