"""Guards: what may be one, and what threads keep that stay where others exit."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import run_ptx
from tests.emu.places import place


def test_warps_that_stay_keep_their_own_registers() -> None:
    body = (
        """
        mov.u32 %r1, %ctaid.x;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 ret;
    """
        + place("c", "%rd1")
        + """
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r1;
    """
    )
    result = run_ptx(body, {"c": np.full(4, 9, np.uint32)}, grid=(4, 1, 1), block=(64, 1, 1))
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [9, 1, 2, 3]


@pytest.mark.parametrize("guarded", ["@%r1 ret;", "@!%r1 mov.u32 %r2, 1;", "@%rd1 bra END; END:"])
def test_a_guard_that_is_no_predicate_is_rejected(guarded: str) -> None:
    with pytest.raises(UnsupportedKernel) as unsupported:
        run_ptx(guarded, {"c": np.zeros(1)})
    assert "is no predicate" in unsupported.value.instructions[0].text
