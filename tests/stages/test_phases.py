"""What a timing variant adds to its result file: phases, and the figures of its warp roles."""

from __future__ import annotations

import json
from pathlib import Path

from kernelrig.model import Phase
from kernelrig.stages.harness.result import load_result

from tests.stages import bench

REAL = bench.DATA / "results/schema1-h200-time.json"
WAIT = {
    "name": "W0: ring wait",
    "rows": 5,
    "mean_cycles": 300.5,
    "min_cycles": 100,
    "max_cycles": 500,
    "p95_cycles": 500,
}
NEVER = {
    "name": "W0: issue",
    "rows": 0,
    "mean_cycles": None,
    "min_cycles": None,
    "max_cycles": None,
    "p95_cycles": None,
}
ROLES = {
    "tiles": 6,
    "clusters": 6,
    "k_steps": 6,
    "epilogue_warps": 4,
    "drained_tiles": 6,
    "sm_ghz": 1.98,
    "launch_ms": 0.5,
    "spread_of_means_cycles": None,
    "symmetric": None,
    "figures": [WAIT],
}


def test_other_variants_have_neither() -> None:
    seen = load_result(REAL)
    assert (seen.phases, seen.phase_rows, seen.roles) == ((), 0, None)


def test_phases_and_roles_are_read_with_null_for_what_was_not_recorded(tmp_path: Path) -> None:
    content = json.loads(REAL.read_text())
    content |= {"phases": [WAIT, NEVER], "phase_rows": 6, "roles": ROLES}
    (tmp_path / "r.json").write_text(json.dumps(content))
    seen = load_result(tmp_path / "r.json")
    assert seen.phase_rows == 6
    assert seen.phases == (
        Phase("W0: ring wait", 5, 300.5, 100, 500, 500),
        Phase("W0: issue", 0, None, None, None, None),
    )
    assert seen.roles is not None
    assert (seen.roles.spread_of_means_cycles, seen.roles.symmetric) == (None, None)
    assert seen.roles.figures == (Phase("W0: ring wait", 5, 300.5, 100, 500, 500),)
