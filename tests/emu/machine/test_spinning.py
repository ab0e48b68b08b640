"""Threads that spin on a lock or a flag: whoever they wait for goes on, under every schedule."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

LOCK = """
ld.param.u64 %rd0, [out];
AGAIN:
atom.relaxed.gpu.global.cas.b32 %r1, [%rd0], 0, 1;
setp.ne.u32 %p0, %r1, 0;
{wait}@%p0 bra AGAIN;
fence.acq_rel.gpu;
ld.global.u32 %r2, [%rd0+4];
add.u32 %r2, %r2, 1;
st.global.u32 [%rd0+4], %r2;
fence.acq_rel.gpu;
atom.relaxed.gpu.global.exch.b32 %r1, [%rd0], 0;
"""
"""A spin lock: whoever has it adds 1 to the word behind it."""
SCHEDULES = (0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3)))


def both(body: str, grid: int, threads: int, schedule: int) -> tuple[list[str], list[int]]:
    out = np.zeros(2, np.uint32)
    kernel = bound_text(
        kernel_text(body, ["out"], "sm_90"),
        {"out": out},
        Geometry((grid, 1, 1), (threads, 1, 1)),
    )
    run, _ = run_both(kernel, Schedule(schedule, max_steps=200_000), (), recorded=False)
    at = kernel.buffers["out"]
    left = run.machine.memory.global_.bytes[at.start : at.start + 8].view(np.uint32)
    return [f.kind for f in run.findings], left.tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_warps_of_a_grid_take_a_lock_in_turn(schedule: int) -> None:
    one_lane = "mov.u32 %r0, %laneid; setp.ne.u32 %p1, %r0, 0; @%p1 ret;"
    findings, left = both(one_lane + LOCK.format(wait=""), 2, 64, schedule)
    assert (findings, left) == ([], [0, 4])


@pytest.mark.parametrize(
    ("schedule", "wait"),
    [
        (0, ""),
        (1, "@%p0 nanosleep.u32 20;\n"),
        pytest.param(2, "", marks=pytest.mark.long),
    ],
)
def test_the_lanes_of_a_warp_take_a_lock_in_turn(schedule: int, wait: str) -> None:
    """The one that has it leaves the loop alone, and must not wait there for the others."""
    findings, left = both(LOCK.format(wait=wait), 1, 3, schedule)
    assert (findings, left) == ([], [0, 3])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_that_the_last_cta_sets_ends_the_loop_of_the_others(schedule: int) -> None:
    body = """
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %ctaid.x;
    setp.eq.u32 %p0, %r0, 3;
    @%p0 bra SET;
    AGAIN:
    ld.acquire.gpu.global.u32 %r1, [%rd0];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    red.relaxed.gpu.global.add.u32 [%rd0+4], 1;
    bra DONE;
    SET:
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @!%p1 st.release.gpu.global.u32 [%rd0], 1;
    DONE:
    """
    findings, left = both(body, 4, 64, schedule)
    assert (findings, left) == ([], [1, 192])
