"""What is queued around timed launches is the same for each: none can see that it is checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Toolchain
from kernelrig.proc import run_process
from kernelrig.reference.spot_check import spot_checked_samples

from tests.kernel.host_program import KERNEL

SOURCES = tuple(
    Path(__file__).parents[1] / "data/kernel" / name
    for name in ("print_timed_work.cu", "printing_runtime.cpp")
)
SAMPLES, SETS = 200, 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Path:
    made = tmp_path_factory.mktemp("timed") / "print_timed_work"
    flags = ("-std=c++17", "-arch=sm_90a", "-cudart", "none", "-I", KERNEL)
    built = run_process([cuda_toolchain.nvcc, *flags, "-o", made, *SOURCES])
    assert built.exit_code == 0, built.stderr
    return made


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 213066405942496])
def test_an_unchecked_launch_has_the_same_kernels_around_it_as_a_checked_one(
    program: Path, seed: int
) -> None:
    """A kernel that measures the time since the launch before it learns nothing."""
    done = run_process([program, str(seed), str(SAMPLES), str(SETS)])
    assert done.exit_code == 0
    *work, last = done.stdout.splitlines()
    checked = set(spot_checked_samples(seed, SAMPLES))
    for sample, queued in enumerate(work):
        rows = "new" if sample in checked else "own"
        assert queued == f" spoil_places<256,256> {rows} launch take_places<256,256> own"
    assert last == " spoil_outputs<1024,256> launch"
