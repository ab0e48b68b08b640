"""Variables of a module: a launch of an entry has those that it can reach, and no others."""

from __future__ import annotations

import numpy as np
from kernelrig.emu.machine.machine_state import Geometry

from tests.emu.harness import bound_text, run_text

MODULE = """.version 9.0
.target sm_90a
.address_size 64
.shared .align 16 .b8 of_other[200000];
.shared .align 4 .b8 used[128];
.extern .shared .align 1024 .b8 dynamic_of_other[];
.visible .entry other() { .reg .b32 %r<3>;
    mov.u32 %r1, of_other; mov.u32 %r2, dynamic_of_other; st.shared.u32 [%r1], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, 7; st.shared.u32 [used+4], %r1; ld.shared.u32 %r2, [used+4];
    st.global.u32 [%rd1], %r2; ret; }
"""


def test_shared_memory_of_another_entry_is_not_charged() -> None:
    out = np.zeros(1, np.uint32)
    one = Geometry((1, 1, 1), (1, 1, 1), (1, 1, 1))
    assert bound_text(MODULE, {"out": out}, one).shared_bytes == 128
    assert bound_text(MODULE, {}, one, entry="other").shared_bytes >= 200000
    ran = run_text(MODULE, {"out": out}, block=(1, 1, 1))
    assert (ran.findings, ran.buffers["out"].tolist()) == ((), [7])
