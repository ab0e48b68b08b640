"""Accesses that leave the array of shared memory whose address they are computed from."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

SHARED = ".shared .align 4 .b32 first[32]; .shared .align 4 .b32 second[32];"
START = """
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
mov.u32 %r2, first;
mov.u32 %r3, second;
"""
LOOP = """
mov.u32 %r5, 0;
mov.u32 %r4, first;
again: ld.shared.u32 %r6, [%r4];
add.u32 %r4, %r4, 4;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p0, %r5, {times};
@%p0 bra again;
"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("add.u32 %r4, %r2, %r1; st.shared.u32 [%r4], 1;", ""),
        ("add.u32 %r4, %r2, %r1; ld.shared.u32 %r5, [%r4+4];",
         "load of 4 bytes at second (shared 0x480): its address is computed from first (128 bytes),"
         " and lies 4 bytes past the end of that"),
        ("mad.lo.s32 %r4, %r0, -4, %r3; st.shared.u32 [%r4], 1;",
         "store of 4 bytes at first + 0x7c (shared 0x47c): its address is computed from second"
         " (128 bytes), and lies before the start of that"),
        ("st.shared.u32 [first+128], 1;", "at second (shared 0x480)"),
        ("cvta.shared.u64 %rd1, 0; cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd2, %rd1;"
         " st.u32 [%rd2+128], 1;", "at second (shared 0x480)"),
        ("atom.shared.add.u32 %r5, [%r2+192], 1;", "68 bytes past the end"),
        (LOOP.format(times=32), ""),
        (LOOP.format(times=33), "computed from first"),
        # One of two, the distance of two, and a number that was stored, may be anything.
        ("setp.lt.u32 %p0, %r0, 9; selp.b32 %r4, %r2, %r3, %p0; st.shared.u32 [%r4], 1;", ""),
        ("sub.u32 %r4, %r3, %r2; add.u32 %r4, %r2, %r4; st.shared.u32 [%r4], 1;", ""),
        ("mov.u32 %r4, %r2; setp.lt.u32 %p0, %r0, 9; @%p0 mov.u32 %r4, %r3;"
         " st.shared.u32 [%r4+4], 1;", ""),
    ],
)  # fmt: skip
def test_an_access_stays_in_the_array_that_its_address_is_of(body: str, words: str) -> None:
    text = kernel_text(START + body, [], "sm_90", shared=SHARED)
    kernel = bound_text(text, {}, Geometry((1, 1, 1), (32, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["memory"],), recorded=False)
    found = [f for f in one.findings if f.rule == "shared-array-bounds"]
    assert len(found) == bool(words)
    for finding in found:
        assert words in finding.message
        assert (finding.kind, finding.severity) == ("out-of-bounds", "error")
