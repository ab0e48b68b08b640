"""alloca, stacksave and stackrestore."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.memory import MemoryUse

from tests.emu.harness import ENGINES, Result, run_ptx
from tests.emu.places import places

# %r190 is the lane, %rd1 the place of each in c.
BLOCK = """
    mul.wide.u32 %rd5, %r190, 4;
    add.u64 %rd5, %rd5, 4;
    alloca.u64 %rd6, %rd5, 16;
    st.local.u32 [%rd6], %r190;
"""


def run(body: str, engine: str) -> Result:
    return run_ptx(
        places(c=4) + body, {"c": np.zeros(32, np.uint32)}, observers=[MemoryUse()],
        engine=engine,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_each_thread_has_blocks_of_its_own_that_do_not_overlap(engine: str) -> None:
    body = (
        BLOCK
        + """
        alloca.u64 %rd7, 8;
        cvta.local.u64 %rd8, %rd7;
        st.u32 [%rd8], 1000;
        ld.local.u32 %r1, [%rd6];
        ld.local.u32 %r2, [%rd7];
        add.u32 %r1, %r1, %r2;
        st.global.u32 [%rd1], %r1;
    """
    )
    result = run(body, engine)
    assert result.kinds == []
    assert result.buffers["c"].tolist() == [1000 + lane for lane in range(32)]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_restored_is_taken_again(engine: str) -> None:
    body = """
        mov.u32 %r1, 0;
    AGAIN:
        stacksave.u64 %rd9;
        alloca.u64 %rd6, 1000, 32;
        st.local.u32 [%rd6], %r1;
        and.b64 %rd7, %rd6, 15;
        stackrestore.u64 %rd9;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, 100;
        @%p1 bra AGAIN;
        cvt.u32.u64 %r2, %rd7;
        add.u32 %r1, %r1, %r2;
        st.global.u32 [%rd1], %r1;
    """
    result = run(body, engine)
    assert result.kinds == []
    assert result.buffers["c"].tolist() == [100] * 32


@pytest.mark.parametrize("engine", ENGINES)
def test_more_than_there_is_ends_the_launch_with_a_finding(engine: str) -> None:
    body = "mov.u32 %r1, 0;\nAGAIN: alloca.u64 %rd6, 4000;\nadd.u32 %r1, %r1, 1;\n"
    body += "setp.lt.u32 %p1, %r1, 9;\n@%p1 bra AGAIN;\nst.global.u32 [%rd1], 1;\n"
    result = run(body, engine)
    assert result.kinds == ["out-of-bounds"]
    assert "alloca takes from (16384 bytes a thread) is full" in result.findings[0].message
