"""CTAs that wait in a loop for what another one stores: on a GPU a wait takes thousands of turns.

The second CTA writes data and sets a flag; in the late schedule the first has used up a turn of
the scheduler's by then. Both engines must say the same, of right kernels and of wrong ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

THREADS, CTAS, LATE = 32, 2, 1
WAIT = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %ctaid.x;
mov.u32 %r2, %tid.x;
mul.wide.u32 %rd1, %r2, 4;
add.u64 %rd1, %rd1, %rd0;
setp.eq.u32 %p1, %r2, 0;
setp.eq.u32 %p0, %r0, 1;
@%p0 bra SET;
{who}
AGAIN:
{look};
setp.eq.u32 %p2, %r1, 0;
@%p2 bra AGAIN;
{behind}
TOGETHER:
bar.sync 0;
ld.global.u32 %r3, [%rd1+128];
ret;
SET:
st.global.u32 [%rd1+128], 7;
bar.sync 0;
{before}
@%p1 {set};
"""
"""What waits is one thread (`who` sends the others on), or each. The flag is the first word."""

ALL, ONE = "", "@!%p1 bra TOGETHER;"
FENCE = "fence.acq_rel.gpu;"
RELAXED = {
    "volatile": ("ld.volatile.global.u32 %r1, [%rd0]", "st.volatile.global.u32 [%rd0], 1"),
    "atomics": (
        "atom.relaxed.gpu.global.add.u32 %r1, [%rd0], 0",
        "red.relaxed.gpu.global.add.u32 [%rd0], 1",
    ),
    # Each turn stores as well: what comes before a store is told apart from it.
    "atomics and a store": (
        "st.volatile.global.u32 [%rd1+512], %r2; atom.relaxed.gpu.global.add.u32 %r1, [%rd0], 0",
        "red.relaxed.gpu.global.add.u32 [%rd0], 1",
    ),
}
ACQUIRES = ("ld.acquire.gpu.global.u32 %r1, [%rd0]", "st.release.gpu.global.u32 [%rd0], 1")


def kinds(look: str, flag: str, who: str, before: str, behind: str) -> set[str]:
    """The kinds of what both engines find in the late schedule."""
    body = WAIT.format(look=look, set=flag, who=who, before=before, behind=behind)
    kernel = bound_text(
        kernel_text(body, ["out"], "sm_90"),
        {"out": np.zeros(256, np.uint32)},
        Geometry((CTAS, 1, 1), (THREADS, 1, 1)),
    )
    run, _ = run_both(kernel, Schedule(LATE), recorded=False)
    assert not run.machine.stopped
    return {f.kind for f in run.findings if f.severity == "error"}


@pytest.mark.parametrize(
    ("form", "who"),
    [
        ("volatile", ONE),
        ("atomics", ONE),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("volatile", ALL),
                ("atomics", ALL),
                ("atomics and a store", ONE),
                ("atomics and a store", ALL),
            )
        ),
    ],
)
def test_a_relaxed_wait_needs_a_release_fence_before_the_flag(form: str, who: str) -> None:
    look, flag = RELAXED[form]
    assert kinds(look, flag, who, FENCE, FENCE) == set()
    assert kinds(look, flag, who, "", FENCE) == {"race"}


@pytest.mark.parametrize("who", [ALL, ONE], ids=["all threads", "one thread"])
def test_a_wait_that_acquires_needs_a_flag_that_releases(who: str) -> None:
    look, flag = ACQUIRES
    assert kinds(look, flag, who, "", "") == set()
    assert kinds(look, flag.replace("release", "relaxed"), who, "", "") == {"race"}
