"""Who wrote a byte of global memory last."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.last_writer import NO_WRITER, LastWriter

from tests.emu.harness import run_ptx


@pytest.mark.parametrize("number", range(4))
def test_a_store_under_a_guard_that_all_warps_share_is_of_the_lanes_that_execute(
    number: int,
) -> None:
    body = """
        ld.param.u64 %rd1, [c];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %laneid;
        setp.lt.u32 %p1, %r2, 16;
        mul.wide.u32 %rd2, %r1, 16;
        add.s64 %rd1, %rd1, %rd2;
        @%p1 st.global.u32 [%rd1], %r1;
    """
    seen = LastWriter()
    c = np.zeros(96 * 4, np.uint32)
    machine = run_ptx(body, {"c": c}, block=(96, 1, 1), number=number, observers=[seen]).ran.machine
    (start,) = (a.start for a in machine.memory.global_.allocations if a.name == "c")
    wrote = [seen.of(machine, start + 16 * thread) != NO_WRITER for thread in range(96)]
    assert wrote == [thread % 32 < 16 for thread in range(96)]
