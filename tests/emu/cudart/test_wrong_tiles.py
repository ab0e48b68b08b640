"""The harness's own reference, emulated: where it says that outputs are wrong."""

from __future__ import annotations

import json

import pytest
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled

WITH = ("-Ikernel",)


@pytest.mark.long
def test_the_reference_counts_wrong_elements_by_tile(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("wrong_tiles", cuda_toolchain, arch="sm_90a", schedules=1, flags=WITH)
    assert (ran.run.exit_code, ran.findings) == (0, [])
    right, wrong = (json.loads(line)["compared"] for line in ran.printed.split(";\n")[:2])
    assert (right["mismatches"], right["wrong"]) == (0, None)
    assert (wrong["mismatches"], wrong["nan_count"]) == (3, 1)
    counts = wrong["wrong"].pop("counts")
    assert wrong["wrong"] == {"tile_rows": 128, "tile_columns": 64}
    assert [(i, row) for i, row in enumerate(counts) if any(row)] == [(0, [2, 0]), (32, [0, 1])]
    assert len(counts) == 33, "4,110 rows"
