"""mbarrier instructions: phases, states, remote arrivals, and what is a misuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.launch.engines import NUMPY
from kernelrig.emu.machine.machine_state import Hooks, Machine
from kernelrig.emu.observe.publication import Publication

from tests.emu.harness import ENGINES, Result, run_ptx

SHARED = ".shared .align 8 .b8 bar[24];"
FIRST = "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, bar;\n"
OUT = "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 8; add.s64 %rd1, %rd1, %rd2;\n"
WAIT = """
{name}: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], {parity};
@!%p1 bra {name};
"""


class Impatient(Hooks):
    """Lets every wait return false once, as a scheduler may."""

    def started(self, machine: Machine) -> None:
        machine.spurious = 1.0


def wait(parity: int, name: str = "WAIT") -> str:
    return WAIT.format(parity=parity, name=name)


def init(count: int, offset: int = 0) -> str:
    return f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{offset}], {count};\nbar.sync 0;\n"


def run(
    body: str,
    threads: int = 32,
    observers: Sequence[Hooks] = (),
    *,
    ctas: int = 1,
    engine: str = NUMPY,
) -> Result:
    return run_ptx(
        FIRST + body,
        {"out": np.zeros(threads * ctas, np.uint64)},
        shared=SHARED,
        block=(threads, 1, 1),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        observers=observers,
        engine=engine,
    )


def test_all_threads_arrive_and_wait() -> None:
    store = OUT + "st.global.u64 [%rd1], %rd5;"
    body = init(64) + "mbarrier.arrive.shared::cta.b64 %rd5, [%r1];" + wait(0) + store
    result = run(body, 64)
    assert result.kinds == []
    pending = [(1 << 20) - (int(s) >> 43 & 0xFFFFF) for s in result.buffers["out"]]
    assert sorted(pending) == list(range(1, 65))


def test_a_state_waits_for_its_phase() -> None:
    body = (
        init(32)
        + "mbarrier.arrive.shared::cta.b64 %rd5, [%r1];\n"
        + "L: mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd5; @!%p1 bra L;\n"
        + OUT
        + "st.global.u64 [%rd1], 7;"
    )
    result = run(body)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {7}


def test_a_fresh_barrier_lets_parity_1_pass() -> None:
    body = init(1) + wait(1) + OUT + "st.global.u64 [%rd1], 7;"
    result = run(body)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {7}


def test_pending_count_reads_a_state() -> None:
    body = (
        init(5)
        + OUT
        + "@!%p0 bra DONE;\n"
        + "mbarrier.arrive.noComplete.shared::cta.b64 %rd5, [%r1], 3;\n"
        + "mbarrier.arrive.noComplete.shared::cta.b64 %rd6, [%r1], 1;\n"
        + "mbarrier.pending_count.b64 %r5, %rd6; cvt.u64.u32 %rd7, %r5;\n"
        + "st.global.u64 [%rd1], %rd7;\nDONE:"
    )
    result = run(body)
    assert result.kinds == []
    assert int(result.buffers["out"][0]) == 2


def test_bytes_are_expected_and_completed_by_hand() -> None:
    body = (
        init(1)
        + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 48;\n"
        + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n"
        + "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 64;\n"
        + wait(0)
        + OUT
        + "st.global.u64 [%rd1], 7;"
    )
    result = run(body)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {7}


def test_a_dropped_thread_is_not_waited_for_again() -> None:
    body = (
        init(32)
        + "setp.lt.u32 %p2, %r0, 8;\n"
        + "@%p2 mbarrier.arrive_drop.shared::cta.b64 _, [%r1];\n"
        + "@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + wait(0, "A")
        + "@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + wait(1, "B")
        + OUT
        + "st.global.u64 [%rd1], 7;"
    )
    result = run(body)
    assert result.kinds == []
    assert set(result.buffers["out"].tolist()) == {7}


def test_a_warp_whose_arrivals_nobody_consumes_does_not_lead_a_deadlock() -> None:
    """Warp 0 fills a stage and waits for its release; warp 1, its consumer, waits elsewhere."""
    fills = "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1+8];\n"
    body = (
        init(1)
        + init(1, 8)
        + init(1, 16)
        + "setp.lt.u32 %p2, %r0, 32;\n"
        + "{fills}@!%p2 add.u32 %r1, %r1, 16;\n"
        + wait(0)
    )
    kept, without = (run(body.format(fills=text), 64) for text in (fills, ""))
    assert [r.kinds for r in (kept, without)] == [["deadlock"], ["deadlock"]]
    assert "CTA 0 warp 1 waits for" in kept.findings[0].message.partition(";")[0]
    assert "CTA 0 warp 0 waits for" in without.findings[0].message.partition(";")[0]


def test_a_wait_for_what_never_comes_is_a_deadlock_that_names_the_barrier() -> None:
    body = init(2) + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;\n" + wait(0)
    result = run(body)
    assert result.kinds == ["deadlock"]
    assert (
        "mbarrier bar[0] (shared 0x400) of CTA 0, phase 0: 1 of 2 arrivals, 0 of 64 bytes,"
        " at mbarrier.try_wait.parity.shared::cta.b64 (PTX line 14)"
    ) in result.findings[0].message


def test_more_arrivals_than_the_count_break_the_rule_of_observed_phases() -> None:
    result = run(init(1) + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n")
    assert result.kinds == ["barrier-misuse"]
    assert result.findings[0].message == (
        "mbarrier.arrive on the mbarrier bar[0] (shared 0x400): arrival before any wait has"
        " observed that the previous phase completed; the init expects 1 in each phase"
    )
    assert result.findings[0].count == 31


def test_a_second_init_is_a_misuse() -> None:
    twice = "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
    result = run(init(1) + twice)
    assert result.kinds == ["barrier-misuse"]
    assert "mbarrier.init of bar[0] (shared 0x400) of a live mbarrier" in result.findings[0].message


def test_an_init_by_all_threads_is_a_misuse() -> None:
    result = run("mbarrier.init.shared::cta.b64 [%r1], 1;\n")
    assert result.kinds == ["barrier-misuse"]
    assert "by 32 threads" in result.findings[0].message


def test_inval_frees_the_bytes() -> None:
    again = "@%p0 mbarrier.inval.shared::cta.b64 [%r1];\n@%p0 st.shared.b64 [%r1], %rd9;\n"
    body = "mov.b64 %rd9, 0;\n" + init(1) + again + init(3)
    assert run(body).kinds == []


def test_what_is_no_mbarrier_cannot_be_used() -> None:
    result = run("@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1+8];\n")
    assert result.kinds == ["barrier-misuse"]
    assert result.findings[0].message == (
        "mbarrier.arrive at bar + 0x8 (shared 0x408), which is no mbarrier"
    )


def test_a_count_of_0_is_a_misuse() -> None:
    result = run("@%p0 mbarrier.init.shared::cta.b64 [%r1], 0;\n")
    assert result.kinds == ["barrier-misuse"]


MEET = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n"
FENCE = "fence.mbarrier_init.release.cluster;\n"
PEER = """
mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;
mapa.shared::cluster.u32 %r6, %r1, %r5;
@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
"""


def test_ctas_of_a_cluster_arrive_at_each_other() -> None:
    body = (
        "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
        + FENCE
        + MEET
        + PEER
        + wait(0)
        + MEET
        + "mov.u32 %r9, %ctaid.x; shl.b32 %r9, %r9, 5; add.u32 %r0, %r0, %r9;\n"
        + OUT
        + "st.global.u64 [%rd1], 7;"
    )
    result = run(body, 32, [Publication()], ctas=2)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == [7] * 64


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fence", ["", FENCE])
def test_an_init_that_is_not_published_is_a_misuse(fence: str, engine: str) -> None:
    meet = "bar.sync 0; nanosleep.u32 9;\n"
    body = "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n" + fence + meet + PEER + wait(0) + MEET
    result = run(body, 32, [Publication()], ctas=2, engine=engine)
    assert "barrier-misuse" in result.kinds
    assert "whose init is not published" in result.findings[0].message
    assert result.findings[0].rule == "init-not-published"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("before", "rule"),
    [("", "init-without-fence"), ("barrier.cluster.arrive.relaxed; ", "init-not-published")],
)
def test_an_init_before_a_relaxed_cluster_barrier_without_its_fence_is_a_warning(
    before: str, rule: str, engine: str
) -> None:
    """CUTLASS's kernels of two SMs do so; one behind the thread's arrival is an error."""
    init = "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
    meet = "barrier.cluster.wait.acquire;\n" if before else MEET
    result = run(
        before + init + meet + PEER + wait(0) + MEET, 32, [Publication()], ctas=2, engine=engine
    )
    (found,) = result.findings
    assert (found.rule, found.severity) == (rule, "error" if before else "warning")
    words = "whose init is not published" if before else "no fence.mbarrier_init follows"
    assert words in found.message


def test_a_released_init_is_published_too() -> None:
    meet = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
    body = "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n" + meet + PEER + wait(0) + MEET
    assert run(body, 32, [Publication()], ctas=2).kinds == []


def test_an_arrival_at_a_cta_that_has_exited_is_a_leak() -> None:
    """CTA 1 leaves once the inits are published, and CTA 0 arrives when it is alone."""
    body = (
        "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
        + FENCE
        + MEET
        + "mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p3, %r5, 1; @%p3 bra DONE;\n"
        + "mov.u32 %r8, 0;\n"
        + "SPIN: add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 9000; @%p4 bra SPIN;\n"
        + "mov.u32 %r5, 1; mapa.shared::cluster.u32 %r6, %r1, %r5;\n"
        + "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\nDONE:"
    )
    result = run(body, 32, [Publication()], ctas=2)
    assert result.kinds == ["leak"]
    assert "of a CTA that has exited" in result.findings[0].message


def test_a_wait_on_another_ctas_barrier_is_a_misuse() -> None:
    body = (
        "@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
        + FENCE
        + MEET
        + "cvta.shared.u64 %rd4, %rd9; mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;\n"
        + "cvt.u64.u32 %rd5, %r1; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd6, %rd5, %r5;\n"
        + "@%p0 mbarrier.test_wait.parity.b64 %p1, [%rd6], 0;\n"
        + MEET
    )
    result = run("mov.b64 %rd9, 0;\n" + body, 32, [Publication()], ctas=2)
    assert result.kinds == ["barrier-misuse"]
    assert "only arrivals and tx-counts may be remote" in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_try_wait_may_return_false_now_and_then(engine: str) -> None:
    body = (
        init(33)
        + "mov.u32 %r8, 0;\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + "L: add.u32 %r8, %r8, 1; setp.eq.u32 %p5, %r8, 2;\n"
        + "@%p5 bra GO; bra TRY;\n"
        + "GO: @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra L;\n"
    )
    assert run(body, observers=[Impatient()], engine=engine).kinds == []
    assert not run(body, engine=engine).kinds  # at the latest where nothing else goes on


def test_a_wait_for_ever_is_a_deadlock_though_it_may_return_false() -> None:
    assert run(init(2) + wait(0), observers=[Impatient()]).kinds == ["deadlock"]


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];",
        "mbarrier.try_wait.parity.shared::cluster.b64 %p1, [%r1], 0;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1];",
        "mbarrier.arrive.acquire.cta.shared::cta.b64 _, [%r1];",
    ],
)
def test_what_ptx_does_not_have_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run(text)


ONCE = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; selp.u64 %rd3, 1, 2, %p1;\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wait_that_is_asked_once_gives_up_where_nothing_else_goes_on(engine: str) -> None:
    """Consumers look at the next stage so, also behind the last one (PTX ISA 9.7.13.15.16)."""
    result = run(init(1) + OUT + ONCE + "st.global.u64 [%rd1], %rd3;", engine=engine)
    assert not [f for f in result.findings if f.severity == "error"]
    assert result.buffers["out"].tolist() == [2] * 32


@pytest.mark.parametrize("engine", ENGINES)
def test_what_follows_a_wait_that_gave_up_may_let_others_go_on(engine: str) -> None:
    body = (
        init(1) + init(1, 8) + OUT + "setp.eq.u32 %p2, %tid.x, 32; mov.u32 %r2, %tid.x;"
        " setp.lt.u32 %p3, %r2, 32; @%p3 bra SECOND;\n"
        + ONCE
        + "@%p2 mbarrier.arrive.shared::cta.b64 _, [%r1+8]; bra END;\nSECOND: add.u32 %r1, %r1, 8;"
        + wait(0)
        + "mov.u64 %rd3, 3;\nEND: st.global.u64 [%rd1], %rd3;"
    )
    result = run(body, threads=64, engine=engine)
    assert not [f for f in result.findings if f.severity == "error"]
    assert result.buffers["out"].tolist() == [3] * 32 + [2] * 32


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_around_a_wait_is_a_deadlock_behind_its_time_limit_too(engine: str) -> None:
    result = run(init(1) + wait(0), engine=engine)
    assert [f.kind for f in result.findings if f.severity == "error"] == ["deadlock"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_warp_that_spins_waits_for_one_that_looks_at_a_phase(engine: str) -> None:
    flag = "ld.param.u64 %rd5, [out];\n"
    body = (
        init(1)
        + flag
        + "setp.lt.u32 %p2, %r0, 32;\n@%p2 bra SPIN;\n"
        + ONCE
        + "mov.b64 %rd9, 7;\n@!%p1 st.relaxed.gpu.global.u64 [%rd5+256], %rd9;\nexit;\n"
        + "SPIN: ld.relaxed.gpu.global.u64 %rd9, [%rd5+256]; setp.ne.u64 %p3, %rd9, 7;\n"
        + "@%p3 bra SPIN;\n"
        + OUT
        + "st.global.u64 [%rd1], %rd9;\n"
    )
    assert (run(body, 64, engine=engine).buffers["out"][:33] == 7).all()
