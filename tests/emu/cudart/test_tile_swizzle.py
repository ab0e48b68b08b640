"""Tiles that are read by another swizzle than the one they were written with."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled
from tests.emu.harness import ENGINES
from tests.long_cases import mostly_long

NONE, OF_128 = "0", "3"
"""Swizzles of tensor maps, by their number in cuda.h."""


@pytest.mark.parametrize("engine", mostly_long(ENGINES, NATIVE))
@pytest.mark.parametrize(
    ("map_", "descriptor", "store", "rewrite", "found"),
    [
        (OF_128, "1", OF_128, "0", {}),
        (OF_128, "2", OF_128, "0", {"descriptor-swizzle": "64B, and the map of that copy has"}),
        (OF_128, "0", NONE, "0", {
            "descriptor-swizzle": "no swizzle, and the map of that copy has swizzle 128B",
            "store-swizzle": "no swizzle, and the map of that copy has swizzle 128B"}),
        # What threads have written lies as they please.
        (OF_128, "2", NONE, "1", {}),
    ],
)  # fmt: skip
def test_a_tile_is_read_by_the_swizzle_that_it_was_written_with(
    map_: str,
    descriptor: str,
    store: str,
    rewrite: str,
    found: dict[str, str],
    engine: str,
    cuda_toolchain: Toolchain,
) -> None:
    arguments = (map_, descriptor, store, rewrite)
    ran = run_compiled(
        "tile_swizzle", cuda_toolchain, *arguments, arch="sm_90a", engine=engine, schedules=1
    )
    assert {f.rule for f in ran.findings} == set(found)
    for finding in ran.findings:
        assert found[finding.rule] in finding.message
        assert finding.severity == ("warning" if finding.rule == "store-swizzle" else "error")
