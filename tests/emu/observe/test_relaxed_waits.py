"""One thread waits for an mbarrier, and a barrier lets the others use what it waited for.

By the text (8.8) the wait has to acquire, or a fence to follow it: a relaxed wait and a barrier are
a warning, as ptxas makes the same code of both. Where no barrier of the CTA follows it is a race.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

COPIED = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, bar;
mov.u32 %r2, tile;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra others;
mbarrier.init.shared::cta.b64 [%r1], 1;
fence.mbarrier_init.release.cluster;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 256, [%r1];
mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%r1], 256;
spin: mbarrier.try_wait.parity{sem}.shared::cta.b64 %p1, [%r1], 0;
@!%p1 bra spin;
{behind}
others:
{barrier}
"""
READ = """
shl.b32 %r3, %r0, 2;
add.u32 %r3, %r3, %r2;
ld.shared.u32 %r4, [%r3];
add.u32 %r4, %r4, 1;
st.shared.u32 [%r3], %r4;
"""
RELAXED = ".relaxed.cta"
WARNING = [("relaxed-wait-before-barrier", "warning")]


def rules(body: str, number: int = 0) -> list[tuple[str, str]]:
    shared = ".shared .align 8 .b64 bar; .shared .align 16 .b8 tile[256];"
    text = kernel_text(body, ["out"], "sm_90", shared=shared)
    buffers = {"out": np.zeros(64, np.uint32)}
    kernel = bound_text(text, buffers, Geometry((1, 1, 1), (64, 1, 1)))
    one, _ = run_both(kernel, Schedule(number), (OBSERVERS["races"],), recorded=False)
    return sorted({(f.rule, f.severity) for f in one.findings})


def copied(sem: str, behind: str = "", barrier: str = "bar.sync 0;") -> str:
    return COPIED.format(sem=sem, behind=behind, barrier=barrier) + READ


@pytest.mark.parametrize(
    ("sem", "behind"), [("", ""), (".acquire.cta", ""), (RELAXED, "fence.acq_rel.cta;")]
)
def test_a_wait_that_acquires_lets_all_go_on(sem: str, behind: str) -> None:
    assert rules(copied(sem, behind)) == []


@pytest.mark.parametrize("sem", [RELAXED, ".relaxed.cluster"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_relaxed_wait_before_a_barrier_is_a_warning(sem: str, number: int) -> None:
    assert rules(copied(sem), number) == WARNING


@pytest.mark.parametrize(
    "barrier",
    [
        "@%p0 bra done;",  # the thread that waited reads, with nothing between
        "setp.ge.u32 %p3, %r0, 32; @%p3 bra done; bar.warp.sync 0xffffffff;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    ],
)
def test_without_a_barrier_of_the_cta_a_relaxed_wait_is_a_race(barrier: str) -> None:
    found = rules(copied(RELAXED, barrier=barrier) + "done:\n")
    assert ("bulk-load-not-waited", "error") in found
