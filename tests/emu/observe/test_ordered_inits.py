"""Whether an mbarrier's init comes before its use by other warps of the CTA."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

TWO_WARPS = """
mov.u32 %r0, %tid.x;
mov.u32 %r1, bar;
setp.eq.u32 %p0, %r0, 0;
setp.ge.u32 %p1, %r0, 32;
@%p1 bra.uni others;
@%p0 mbarrier.init.shared::cta.b64 [%r1], {count};
{behind}
@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];
bra.uni done;
others:
{before}
{use}
done:
"""
WAIT = """
spin: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
@!%p2 bra spin;
"""
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r1];"
FOUND = ["init-not-ordered"]


@pytest.mark.parametrize(
    ("behind", "before", "found"),
    [
        ("", "", FOUND),
        ("bar.sync 0;", "bar.sync 0;", []),
        ("bar.arrive 1, 64;", "bar.sync 1, 64;", []),
        ("fence.acq_rel.cta;", "fence.acq_rel.cta;", []),
        ("barrier.cluster.arrive; barrier.cluster.wait;",
         "barrier.cluster.arrive; barrier.cluster.wait;", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("use", "count"), [(WAIT, 1), (ARRIVE, 33)])
def test_an_init_comes_before_the_use_by_another_warp(
    behind: str, before: str, use: str, count: int, found: list[str]
) -> None:
    body = TWO_WARPS.format(behind=behind, before=before, use=use, count=count)
    text = kernel_text(body, [], "sm_90", shared=".shared .align 8 .b64 bar;")
    kernel = bound_text(text, {}, Geometry((1, 1, 1), (64, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["sync"],), recorded=False)
    assert [f.rule for f in one.findings] == found
