"""Values that a shuffle takes from lanes that do not take part: undefined, and an error if used."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

START = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd1, %rd0, %rd1;
mov.u32 %r1, %r0;
setp.ge.u32 %p0, %r0, 16;
"""
HALF = "@%p0 bra done;"
STORE = "st.global.u32 [%rd1], %r1; done:"
WARNING = ("shuffle-of-an-absent-lane", "warning")
ERROR = ("absent-lane-used", "error")


@pytest.mark.parametrize(
    ("body", "threads", "found"),
    [
        # A sum over half a warp by shuffles of the whole one.
        (HALF + "shfl.sync.down.b32 %r2, %r1, 8, 31, -1; add.u32 %r1, %r1, %r2;" + STORE, 32,
         [ERROR]),
        # Within segments of 16 nothing comes from outside of them: down keeps its own.
        (HALF + "shfl.sync.down.b32 %r2, %r1, 8, 0x100f, 0xffff; add.u32 %r1, %r1, %r2;" + STORE,
         32, []),
        ("shfl.sync.down.b32 %r2, %r1, 8, 31, -1; add.u32 %r1, %r1, %r2;" + STORE, 32, []),
        # A block of half a warp: the other lanes never were.
        ("shfl.sync.down.b32 %r2, %r1, 8, 31, -1; add.u32 %r1, %r1, %r2;" + STORE, 16,
         [ERROR]),
        # What nobody uses, or another value is chosen for, harms nobody.
        (HALF + "shfl.sync.down.b32 %r2, %r1, 8, 31, -1;" + STORE, 32, [WARNING]),
        (HALF + "shfl.sync.down.b32 %r2, %r1, 8, 31, -1; setp.lt.u32 %p1, %r0, 8;"
         " selp.b32 %r1, %r2, %r1, %p1;" + STORE, 32, [WARNING]),
    ],
)  # fmt: skip
def test_what_comes_from_an_absent_lane_is_an_error_where_it_is_used(
    body: str, threads: int, found: list[tuple[str, str]]
) -> None:
    text = kernel_text(START + body, ["out"], "sm_90")
    buffers = {"out": np.zeros(64, np.uint32)}
    kernel = bound_text(text, buffers, Geometry((1, 1, 1), (threads, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["init"],), recorded=False)
    assert [(f.rule, f.severity) for f in one.findings] == found


def test_a_warning_counts_each_lane_once() -> None:
    """A register that nothing wrote is shuffled: followed by running the shuffle once more."""
    body = HALF + "shfl.sync.down.b32 %r2, %r5, 8, 31, -1;" + STORE
    text = kernel_text(START + body, ["out"], "sm_90")
    kernel = bound_text(text, {"out": np.zeros(64, np.uint32)}, Geometry((1, 1, 1), (32, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["init"],), recorded=False)
    assert [(f.rule, f.count) for f in one.findings] == [(WARNING[0], 8)]
