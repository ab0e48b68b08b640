"""ld.global.nc of what the grid writes: what may show on hardware, and what cannot."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

PLACE = """
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
ld.param.u64 %rd0, [out];
add.u64 %rd1, %rd0, %rd1;
"""
OWN = "ld.global.nc.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1;"
NEXT = "ld.global.nc.u32 %r1, [%rd1+128]; add.u32 %r1, %r1, 1;"
STORE = "st.global.u32 [%rd1], %r1;"
ERROR = ("non-coherent-load", "error")
WARNING = ("non-coherent-load-before-write", "warning")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (OWN + "st.global.u32 [%rd1+4096], %r1;", set()),
        (OWN + STORE, {WARNING}),
        # The next warp's elements, read before all are written: compilers move such loads up, also
        # across the barrier and the store that they were to come behind.
        (NEXT + "bar.sync 0;" + STORE, {ERROR}),
        (NEXT + STORE, {ERROR}),
        (OWN + STORE + OWN, {ERROR, WARNING}),
        (OWN + STORE + "bar.sync 0;" + NEXT, {ERROR, WARNING}),
    ],
)
def test_a_read_before_each_write_of_the_grid_is_a_warning(
    body: str, found: set[tuple[str, str]]
) -> None:
    text = kernel_text(PLACE + body, ["out"], "sm_90")
    kernel = bound_text(text, {"out": np.zeros(2048, np.uint32)}, Geometry((1, 1, 1), (64, 1, 1)))
    one, _ = run_both(
        kernel, Schedule(0), (OBSERVERS["races"], OBSERVERS["memory"]), recorded=False
    )
    rules = {(f.rule, f.severity) for f in one.findings}
    assert rules - {WARNING} == found - {WARNING}
    assert WARNING not in found or WARNING in rules
