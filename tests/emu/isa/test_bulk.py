"""Bulk copies of bytes, and bulk groups."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.machine.machine_state import Hooks, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import Array
from numpy.typing import NDArray

from tests.emu.boxes import SHARED, START, WAIT, store_tile
from tests.emu.harness import Result, run_ptx

LOAD = "cp.async.bulk.{}.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
SOURCE = np.arange(1024, dtype=np.uint8)
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};\n"
FILL = """
shl.b32 %r5, %r0, 2; add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r0;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%p0 bra DONE;
"""
WAIT_ALL = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nDONE:\n"
MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"


class Told(Hooks):
    """Notes what observers are told of groups and mbarriers."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        self.events.append(f"{'write' if write else 'read'} {space} {size}")

    def op_arrived(self, op: Op, barrier: object, phase: int, kind: str) -> None:
        self.events.append(f"{kind} in phase {phase}")

    def op_done(self, op: Op) -> None:
        self.events.append("done")

    def group_waited(
        self, batch: WarpBatch, row: int, lanes: int, ops: list[Op], read: bool
    ) -> None:
        self.events.append(f"lanes {lanes:#x} waited for {len(ops)}{' reads' * read}")


def run(
    body: str,
    source: NDArray[np.generic] = SOURCE,
    out: NDArray[np.generic] = SOURCE,
    number: int = 0,
    ctas: int = 1,
    observers: tuple[Hooks, ...] = (),
) -> Result:
    return run_ptx(
        START + "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out];\n" + body,
        {"a": source, "out": np.zeros_like(out)},
        shared=SHARED,
        block=(64, 1, 1),
        grid=(ctas, 1, 1),
        cluster=(ctas, 1, 1),
        number=number,
        observers=observers,
    )


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("space", ["shared::cluster", "shared::cta"])
def test_bytes_are_loaded(space: str, number: int) -> None:
    name = LOAD.format(space)
    copy = f"@%p0 {name} [%r2], [%rd1+256], 512, [%r1];\n"
    result = run(EXPECT.format(512) + copy + WAIT + store_tile(512), number=number)
    assert result.kinds == []
    assert result.buffers["out"][:512].tolist() == SOURCE[256:768].tolist()


def test_a_load_reads_writes_and_signals_in_this_order() -> None:
    told = Told()
    copy = f"@%p0 {LOAD.format('shared::cluster')} [%r2], [%rd1], 64, [%r1];\n"
    run(EXPECT.format(64) + copy + WAIT, observers=(told,))
    assert told.events == ["read global 64", "write shared 64", "tx in phase 0", "done"]


def test_a_store_is_waited_for_by_its_thread() -> None:
    told = Told()
    body = f"{STORE} [%rd2], [%r2], 64;\ncp.async.bulk.commit_group;\n"
    waits = "cp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;\nDONE:\n"
    result = run(FILL + body + waits, observers=(told,), number=1)
    assert result.kinds == []
    assert told.events == [
        "read shared 64",
        "lanes 0x1 waited for 1 reads",
        "write global 64",
        "done",
        "lanes 0x1 waited for 1",
    ]


def test_a_wait_leaves_the_newest_groups() -> None:
    """The late schedule completes a copy only when somebody waits for it."""
    told = Told()
    copy = f"{STORE} [%rd2], [%r2], 64;\ncp.async.bulk.commit_group;\n"
    waits = "cp.async.bulk.wait_group 2;\ncp.async.bulk.wait_group 1;\ncp.async.bulk.wait_group 0;"
    run(FILL + copy * 3 + waits + "\nDONE:\n", observers=(told,), number=1)
    waited = [e for e in told.events if "waited" in e]
    assert waited == ["lanes 0x1 waited for 1"] * 3


def test_threads_of_a_warp_have_groups_of_their_own() -> None:
    """Lane 0 has two groups and lane 1 has one: wait_group 1 makes lane 0 alone wait."""
    told = Told()
    copy = f"{STORE} [%rd2], [%r2], 64;\ncp.async.bulk.commit_group;\n"
    body = (
        FILL.replace("@!%p0 bra DONE;", "setp.lt.u32 %p2, %r0, 2; @!%p2 bra DONE;")
        + copy
        + "@!%p0 bra ONE;\n"
        + copy
        + "ONE: bar.warp.sync 3;\ncp.async.bulk.wait_group 1;\ncp.async.bulk.wait_group 0;\nDONE:\n"
    )
    result = run(body, observers=(told,), number=1)
    assert result.kinds == []
    waited = [e for e in told.events if "waited" in e]
    assert waited == ["lanes 0x1 waited for 1", "lanes 0x1 waited for 1", "lanes 0x2 waited for 1"]


def test_an_empty_group_is_complete() -> None:
    assert run("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", number=1).kinds == []


def test_a_copy_that_is_never_committed_is_a_leak() -> None:
    result = run(FILL + f"{STORE} [%rd2], [%r2], 64;\ncp.async.bulk.wait_group 0;\nDONE:\n")
    assert result.kinds == ["leak"]
    assert result.findings[0].message == (
        "cp.async.bulk was never committed to a group: cp.async.bulk.commit_group is"
        " missing behind it"
    )


@pytest.mark.parametrize("number", range(4))
def test_shared_memory_is_copied_to_a_peer(number: int) -> None:
    body = (
        "mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p2, %r9, 1; and.pred %p3, %p0, %p2;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;\n"
        + FILL.replace("@!%p0 bra DONE;", "")
        + MEET
        + "mapa.shared::cluster.u32 %r6, %r2, 1; mapa.shared::cluster.u32 %r7, %r1, 1;\n"
        "add.u32 %r6, %r6, 1024; mov.u32 %r8, 64;\n"
        "@%p2 bra TAKE;\n"
        "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        " [%r6], [%r2], 256, [%r7];\n"
        "bra LEAVE;\nTAKE:\n" + WAIT + "add.u32 %r2, %r2, 1024;\n" + store_tile(256) + "LEAVE:\n"
        + MEET
    )  # fmt: skip
    result = run(body, out=np.zeros(64, np.uint32), number=number, ctas=2)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == list(range(64))


def test_a_multicast_copies_to_each_cta() -> None:
    name = LOAD.format("shared::cluster") + ".multicast::cluster"
    body = (
        "mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p2, %r9, 0; and.pred %p3, %p0, %p2;\n"
        + EXPECT.format(64)
        + MEET
        + f"mov.u16 %h1, 3; @%p3 {name} [%r2], [%rd1], 64, [%r1], %h1;\n"
        + WAIT
        + "mul.wide.u32 %rd5, %r9, 64;\n"
        + store_tile(64).replace("[out];", "[out]; add.s64 %rd2, %rd2, %rd5;")
        + MEET
    )
    result = run(body, out=np.zeros(128, np.uint8), ctas=2)
    assert result.kinds == []
    assert result.buffers["out"].tolist() == [*range(64), *range(64)]


def test_a_multicast_beyond_the_cluster_is_a_misuse() -> None:
    name = LOAD.format("shared::cluster") + ".multicast::cluster"
    body = EXPECT.format(64) + f"mov.u16 %h1, 3; @%p0 {name} [%r2], [%rd1], 64, [%r1], %h1;\n"
    result = run(body + WAIT)
    assert result.kinds == ["barrier-misuse"]
    assert "multicast to the CTAs 0x3 of a cluster of 1" in result.findings[0].message


def test_a_mask_chooses_bytes_of_each_16() -> None:
    body = f"mov.u16 %h1, 0x8001; {STORE}.cp_mask [%rd2], [%r2], 32, %h1;\n"
    result = run(FILL + "st.shared.u32 [%r2], 0xFFFFFFFF;\n" + body + WAIT_ALL)
    assert result.kinds == []
    assert np.flatnonzero(result.buffers["out"]).tolist() == [0, 16]


@pytest.mark.parametrize(
    ("operation", "dtype", "old", "new"),
    [
        ("add.u32", np.uint32, 5, [5, 6, 7, 8]),
        ("min.s32", np.int32, 2, [0, 1, 2, 2]),
        ("inc.u32", np.uint32, 1, [0, 0, 2, 2]),
        ("or.b32", np.uint32, 4, [4, 5, 6, 7]),
    ],
)
def test_a_reduction_in_global_memory(
    operation: str, dtype: type[np.generic], old: int, new: list[int]
) -> None:
    name = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}"
    target = np.full(4, old, dtype)
    result = run(FILL + f"{name} [%rd1], [%r2], 16;\n" + WAIT_ALL, target)
    assert result.kinds == []
    assert result.buffers["a"].tolist() == new


def test_f32_sums_in_global_memory_keep_subnormals() -> None:
    """The tile holds the bits 0, 1, 2, 3: subnormal numbers."""
    name = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"
    target = np.array([0x3F800000, 0x00010000, 0, 0x807FFFFF], np.uint32).view(np.float32)
    result = run(FILL + f"{name} [%rd1], [%r2], 16;\n" + WAIT_ALL, target)
    left = result.buffers["a"].view(np.uint32).tolist()
    assert left == [0x3F800000, 0x00010001, 2, 0x807FFFFC]


def test_a_reduction_in_a_peers_memory_signals_its_mbarrier() -> None:
    name = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    body = (
        EXPECT.format(256)
        + FILL.replace("@!%p0 bra DONE;", "")
        + f"@%p0 {name} [%r2], [%r2], 256, [%r1];\n"
        + WAIT
        + store_tile(256)
    )
    result = run(body, out=np.zeros(64, np.uint32))
    assert result.kinds == []
    assert result.buffers["out"].tolist() == list(range(0, 128, 2))


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("[%rd2], [%r2], 24", "misaligned"),
        ("[%rd2+8], [%r2], 16", "misaligned"),
        ("[%rd2], [%r2+4], 16", "misaligned"),
        ("[%rd2+1024], [%r2], 16", "out-of-bounds"),
        ("[%rd2+1008], [%r2], 32", "out-of-bounds"),
        ("[%rd2], [%r2+8192], 16", "out-of-bounds"),
    ],
)
def test_addresses_and_sizes_are_checked(copy: str, kind: str) -> None:
    result = run(FILL + f"{STORE} {copy};\n" + WAIT_ALL)
    assert result.kinds == [kind]


def test_a_load_at_fault_is_no_deadlock_too() -> None:
    copy = f"@%p0 {LOAD.format('shared::cluster')} [%r2], [%rd1+1020], 64, [%r1];\n"
    result = run(EXPECT.format(64) + copy + WAIT)
    assert set(result.kinds) <= {"out-of-bounds", "misaligned"}
    assert result.kinds


def test_a_prefetch_does_nothing() -> None:
    assert run("cp.async.bulk.prefetch.L2.global [%rd1], 64;").kinds == []


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk.wait_group %r1;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd2], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd2], [%r2], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd2], [%r2], 16;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2];",
    ],
)
def test_what_ptx_does_not_have_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run(text)
