"""Regions of shared and tensor memory that overlap or do not fit are refused when they compile."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.proc import run_process

from tests.kernel.host_program import compile_for_host

SOURCE = Path(__file__).parents[1] / "data/kernel/print_overlap.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(SOURCE, tmp_path_factory.mktemp("layout") / "print_overlap")


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ("0,512,1 512,512,1", "apart"),
        ("0,128,4,256 128,128,4,256", "apart"),  # the As and Bs of a ring of four stages
        ("0,128,4,256 120,128,4,256", "overlap"),
        ("0,128,4,64 512,8,1", "overlap"),  # the elements of one region among themselves
        ("0,512,1 504,8,4", "overlap"),
        ("0,512,2 1016,16,1", "overlap"),
        ("0,512,1 1016,16,1", "overlap"),  # past the end
        ("0,512,1 512,512,0", "apart"),  # none in this build
        ("columns 0,128,2 256,256,1", "apart"),
        ("columns 0,256,2 256,256,1", "overlap"),
        ("columns 0,256,2 512,1,1", "overlap"),  # past the end
    ],
)
def test_two_regions_lie_apart_if_no_element_shares_a_byte(
    regions: str, said: str, program: Path
) -> None:
    done = run_process([program, *regions.split()])
    assert (done.exit_code, done.stdout) == (0, f"{said}\n")
