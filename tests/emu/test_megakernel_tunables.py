"""The megakernel in the emulator under sets of its tunables, spread over all that are tried."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request, build_all
from kernelrig.config.covering_array import Values, tried_sets
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import load
from kernelrig.errors import BuildError
from kernelrig.model import Builds, Case, Pattern, Toolchain
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch

from tests.kernel.bad_kernels import REPOSITORY

WANTED = 48
"""Sets; about one in ten is rejected by a static assert, and 40 are to run."""
KERNEL = config.load_kernels(REPOSITORY)["patch_embed"]
CASE = Case("", images=2, ctas=2)


def spread(count: int) -> list[Values]:
    """Return so many of the sets that are tried, evenly over their order."""
    sets = tried_sets(KERNEL.tunables["sm_100a"])
    return [sets[i * len(sets) // count] for i in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("number", range(WANTED))
def test_a_set_of_tunables_is_right_in_the_emulator(
    number: int, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    values = spread(WANTED)[number]
    shutil.copytree(REPOSITORY / "kernel", tmp_path / "kernel")
    way = KERNEL.variants["production"]
    tuned = replace(way, defines={**way.defines, **values})
    kernel = replace(KERNEL, variants={**KERNEL.variants, "production": tuned})
    try:
        (built,) = build_all(tmp_path, [Request(kernel, "sm_100a", "production")], cuda_toolchain)
    except BuildError as e:
        if "static assertion failed" in e.details:
            pytest.skip("a static assert rejects this set")
        raise
    launch = Launch("", CASE, Pattern.INTEGER, 0)
    prepare_launches(tmp_path / "launch", [launch], kernel, Builds(built))
    path = tmp_path / "launch" / launch.file
    described = json.loads(path.read_text())
    described["module"] = str(built.folder / f"{built.program}.ptx")
    path.write_text(json.dumps(described))
    outcome = emulate(load(path), schedules_of(Schedule(), 2), jobs=1)
    assert outcome.findings == (), values
