"""Where a warp can wait for others: in the loop of a try_wait, at a CTA barrier, for its lanes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.sass import blocking, parse_sass

GDB = Path(__file__).parents[1] / "data/cuda-gdb"


@pytest.mark.parametrize(
    ("function", "found"),
    [
        # BAR.SYNC at 0x30 and 0x50: a debugger shows the instruction behind it
        ("_Z4halfv", [(0x30, 0x40, True), (0x50, 0x60, True), (0x60, 0x60, False)]),
        ("_Z4spinv", []),
    ],
)
def test_barriers_of_a_cta(function: str, found: list[tuple[int, int, bool]]) -> None:
    module = parse_sass((GDB / "waits-sm_90a-nvdisasm-13.5.37.sass").read_text())
    waits = blocking(module.function(function))
    assert [(b.first, b.last, b.at_barrier) for b in waits] == found


def test_the_loop_around_a_try_wait_is_one_wait_and_the_first_try_another() -> None:
    """ptxas tries once in line, and puts the loop at the end of the function."""
    module = parse_sass((GDB / "named-sm_90a-13.0.sass").read_text())
    waits = list(blocking(module.function("named")))
    assert all(b.at_barrier and b.first <= b.at < b.last for b in waits)
    assert [b.at for b in waits] == [0x40, 0x70, 0x90, 0xB0, 0xE0, 0x110, 0x140, 0x170]
    assert {b.last - b.at for b in waits} == {0x10}
