"""Small kernels with and without what orders them."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.races import Races

from tests.emu.harness import Result, run_ptx

SHARED = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 barrier;"
SCHEDULES = range(4)

ADDRESSES = """
ld.param.u64 %rd1, [A];
ld.param.u64 %rd2, [C];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
xor.b32 %r5, %r1, 37;
shl.b32 %r5, %r5, 2;
add.u32 %r6, %r2, %r5;
mov.u32 %r7, barrier;
setp.eq.u32 %p1, %r1, 0;
cvt.u64.u32 %rd4, %r3;
add.u64 %rd3, %rd2, %rd4;
"""


def run(body: str, number: int = 0, *, threads: int = 64, ctas: int = 1) -> Result:
    buffers = {"A": np.arange(256, dtype=np.uint32), "C": np.zeros(256, np.uint32)}
    return run_ptx(
        ADDRESSES + body, buffers, shared=SHARED, block=(threads, 1, 1), grid=(ctas, 1, 1),
        observers=[Races()], number=number,
    )  # fmt: skip


EXCHANGE = """
st.shared.u32 [%r4], %r1;
{between}
ld.shared.u32 %r8, [%r6];
st.global.u32 [%rd3], %r8;
"""


@pytest.mark.parametrize("number", SCHEDULES)
def test_threads_exchange_values_through_a_barrier(number: int) -> None:
    result = run(EXCHANGE.format(between="bar.sync 0;"), number)
    assert result.kinds == []
    assert result.buffers["C"][:64].tolist() == [i ^ 37 for i in range(64)]


@pytest.mark.parametrize("number", SCHEDULES)
@pytest.mark.parametrize("between", ["", "bar.warp.sync -1;", "membar.cta;"])
def test_without_a_barrier_they_race_in_every_schedule(between: str, number: int) -> None:
    assert set(run(EXCHANGE.format(between=between), number).kinds) == {"race"}


def test_a_warp_alone_exchanges_through_its_own_barrier() -> None:
    assert run(EXCHANGE.format(between="bar.warp.sync -1;").replace("%r6", "%r9").replace(
        "ld.shared", "xor.b32 %r9, %r4, 64;\nld.shared"), threads=32).kinds == []  # fmt: skip


LOAD = """
@%p1 mbarrier.init.shared::cta.b64 [%r7], 1;
bar.sync 0;
@!%p1 bra waiting;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 256, [%r7];
waiting:
{wait}
ld.shared.u32 %r8, [%r6];
st.global.u32 [%rd3], %r8;
"""
WAIT = """
again:
mbarrier.try_wait.parity{sem}.shared::cta.b64 %p2, [%r7], 0;
@!%p2 bra again;
"""


@pytest.mark.parametrize("number", SCHEDULES)
@pytest.mark.parametrize(
    ("wait", "kinds"),
    [
        (WAIT.format(sem=""), []),
        (WAIT.format(sem=".relaxed.cta"), ["race"]),
    ],
)
def test_a_bulk_copy_is_read_after_an_acquire(wait: str, kinds: list[str], number: int) -> None:
    result = run(LOAD.format(wait=wait), number)
    assert sorted({k for k in result.kinds if k in ("race", "proxy-fence")}) == kinds


def test_what_a_copy_writes_after_the_reads_races_as_well() -> None:
    late = "bar.sync 1;\nmov.u32 %r20, 0;\nspin: add.u32 %r20, %r20, 1; nanosleep.u32 100;\n"
    late += "setp.lt.u32 %p3, %r20, 60;\n@%p3 bra spin;"
    found = {k for n in SCHEDULES for k in run(LOAD.format(wait="") + late, n).kinds}
    assert "race" in found


STORE = """
st.shared.u32 [%r4], %r1;
{fence}
{meet}
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 256;
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group{read} 0;
{reuse}
"""
FENCE = "fence.proxy.async.shared::cta;"


@pytest.mark.parametrize("number", SCHEDULES)
@pytest.mark.parametrize(
    ("fence", "meet", "reuse", "kinds"),
    [
        (FENCE, "bar.sync 0;", "", []),
        ("", "bar.sync 0;", "", ["proxy-fence"]),
        (FENCE, "", "", ["race"]),
        (FENCE, "bar.sync 0;", "bar.sync 1;\nst.shared.u32 [%r4], %r3;", []),
        (FENCE, "bar.sync 0;", "st.shared.u32 [%r4], %r3;", ["race"]),
    ],
)
def test_a_bulk_store_reads_what_was_staged_fenced_and_met(
    fence: str, meet: str, reuse: str, kinds: list[str], number: int
) -> None:
    result = run(STORE.format(fence=fence, meet=meet, reuse=reuse, read=".read"), number)
    assert sorted({k for k in result.kinds if k in ("race", "proxy-fence")}) == kinds


COPIES = """
cvt.u64.u32 %rd5, %r3;
add.u64 %rd5, %rd1, %rd5;
cp.async.ca.shared.global [%r4], [%rd5], 4;
{wait}
ld.shared.u32 %r8, [%r6];
st.global.u32 [%rd3], %r8;
"""


@pytest.mark.parametrize(
    ("wait", "kinds"),
    [
        ("cp.async.wait_all;\nbar.sync 0;", []),
        ("cp.async.wait_all;", ["race"]),
        ("bar.sync 0;", ["race"]),
    ],
)
def test_copies_of_threads_are_waited_for_and_met(wait: str, kinds: list[str]) -> None:
    result = run(COPIES.format(wait=wait))
    assert sorted({k for k in result.kinds if k in ("race", "proxy-fence")}) == kinds


LAST = """
mov.u32 %r9, %ctaid.x;
shl.b32 %r10, %r9, 2;
cvt.u64.u32 %rd5, %r10;
add.u64 %rd6, %rd2, %rd5;
st.global.u32 [%rd6+64], 1;
{before}
atom.global.add.u32 %r11, [%rd2], 1;
{behind}
setp.ne.u32 %p2, %r11, 3;
@%p2 bra done;
ld.global.u32 %r12, [%rd2+64];
ld.global.u32 %r13, [%rd2+68];
ld.global.u32 %r14, [%rd2+72];
ld.global.u32 %r15, [%rd2+76];
add.u32 %r12, %r12, %r13;
add.u32 %r14, %r14, %r15;
add.u32 %r12, %r12, %r14;
st.global.u32 [%rd2+128], %r12;
done:
"""


@pytest.mark.parametrize("number", SCHEDULES)
def test_the_last_cta_reads_what_all_wrote_behind_fences(number: int) -> None:
    body = LAST.format(before="fence.acq_rel.gpu;", behind="fence.acq_rel.gpu;")
    result = run(body, number, threads=1, ctas=4)
    assert result.kinds == []
    assert result.buffers["C"][32] == 4


@pytest.mark.parametrize("behind", ["", "fence.acq_rel.gpu;"])
def test_the_release_fence_is_needed(behind: str) -> None:
    assert set(run(LAST.format(before="", behind=behind), threads=1, ctas=4).kinds) == {"race"}


def test_the_acquire_fence_is_needed_by_the_text_alone() -> None:
    result = run(LAST.format(before="fence.acq_rel.gpu;", behind=""), threads=1, ctas=4)
    assert result.kinds == []
    assert set(result.warnings) == {"acquire-fence-missing"}


def test_what_is_loaded_without_coherence_is_not_written() -> None:
    body = "ld.global.nc.u32 %r8, [%rd3];\nst.global.u32 [%rd3], %r8;"
    result = run(body, threads=32)
    assert (result.kinds, set(result.warnings)) == ([], {"non-coherent-load-before-write"})
    assert "race" in run(body + "\nld.global.nc.u32 %r9, [%rd3];", threads=32).kinds
