"""Sets of a CUDA kernel before a host is reached: built, and emulated from that build."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Outcome, SweepPhase, Toolchain
from kernelrig.sweep import SweepRequest, run_sweep

from tests.compilations import copy_kernel_folder

REMOTES = "schema: 2\nremotes:\n  local: {kind: embedded, arch: sm_90a}\n"


@pytest.mark.long
def test_sets_of_the_hopper_kernel_are_built_and_emulated(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    project = copy_kernel_folder(tmp_path / "project")
    (project / "remotes.yaml").write_text(REMOTES)
    request = SweepRequest(
        "patch_embed", "sm_90a", "local", sets=("CLUSTER=1,2,3",), budget_minutes=0.0
    )
    result = run_sweep(project, request)
    rows = {r.set.values["CLUSTER"]: r for r in result.rows}
    assert result.why == "the budget of 0 minutes is spent"
    assert {rows[n].phase for n in (1, 2)} == {SweepPhase.BUILT}
    assert "all elements right" in rows[2].facts["emulated"]
    assert rows[3].outcome is Outcome.SKIP
    assert "CLUSTER divides the slices" in rows[3].summary
