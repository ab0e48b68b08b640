"""mbarriers, groups and bulk copies in the core: both engines do the same, also where it is wrong,
and tell the same to the observers that the core knows. One of a test's own has it leave them to
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.async_groups import BulkGroups
from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.machine.machine_state import Geometry, Hooks
from kernelrig.emu.native.encode import _Encoder
from kernelrig.ptx import parse_ptx

from tests.emu.boxes import SHARED, START, WAIT, image, map_of, store_tile
from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import OBSERVERS, counted_steps, run_both

Observers = Sequence[Callable[[], Hooks]]
A = (np.arange(64 * 256) * 7919 >> 3).astype(np.uint8).reshape(64, 256)
EXPECT = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {0};\n"
BOX = (
    "ld.param.u64 %rd1, [map];\n@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes{1} [%r2], [%rd1, {{{0}}}], [%r1]{2};\n"
)
PREFETCH = (
    "ld.param.u64 %rd1, [{0}];\nprefetch.tensormap [%rd1];\n"
    "@%p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {{128, 32}}];\n"
)
PLAIN = (
    "ld.param.u64 %rd3, [a];\n@%p0 cp.async.bulk.shared::cluster.global"
    ".mbarrier::complete_tx::bytes [%r2], [%rd3], {0}, [%r1];\n"
)
STORE_BOX = """
ld.param.u64 %rd1, [map];
@!%p0 bra OUT;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {{{0}}}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
OUT:
"""
RING = """
mov.u32 %r5, 0;
LOOP:
and.b32 %r6, %r5, 1;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;
ld.param.u64 %rd3, [a];
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3], 1024, [%r1];
AGAIN:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r6;
@!%p1 bra AGAIN;
mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], %r6;
selp.u32 %r7, 1, 0, %p2;
add.u32 %r8, %r8, %r7;
bar.sync 0;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p3, %r5, 5;
@%p3 bra LOOP;
"""
BODIES = {
    "plain bytes": START + EXPECT.format(4096) + PLAIN.format(4096) + WAIT + store_tile(4096),
    "a box": START + EXPECT.format(4096) + BOX.format("128, 32", "", "") + WAIT + store_tile(4096),
    "a box that leaves the tensor": START + EXPECT.format(4096) + BOX.format("192, -8", "", "")
    + WAIT + store_tile(4096),
    "a box in and out": START + PREFETCH.format("map") + EXPECT.format(4096)
    + BOX.format("0, 0", "", "") + WAIT + STORE_BOX.format("128, 40"),
    "a store before the tensor": START + STORE_BOX.format("-16, 0"),
    "five rounds": "mov.u32 %r8, 0;\n" + START + RING + store_tile(1024),
    "a wait that is missing": START + EXPECT.format(4096) + PLAIN.format(4096) + store_tile(4096),
    "bytes that nobody expects": START + PLAIN.format(2048)
    + "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];\n" + WAIT + store_tile(2048),
    "fewer bytes than expected": START + EXPECT.format(4096) + PLAIN.format(2048) + WAIT,
    "a size that is no multiple of 16": START + EXPECT.format(24) + PLAIN.format(24) + WAIT,
    "a source past its buffer": START + EXPECT.format(32768) + PLAIN.format(32768) + WAIT,
    "a map that is none": START + EXPECT.format(4096)
    + BOX.format("0, 0", "", "").replace("[map]", "[a]") + WAIT,
    "a prefetch of what is no map": START + PREFETCH.format("a"),
    "a coordinate off its 16 bytes": START + EXPECT.format(4096) + BOX.format("8, 0", "", "")
    + WAIT,
    "all lanes arrive, twice too many": START
    + "mbarrier.arrive.shared::cta.b64 %rd9, [%r1];\n" + WAIT,
    "each lane takes its state": START + "mov.u32 %r3, done;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r3], 64;\nbar.sync 0;\n"
    "mbarrier.arrive.shared::cta.b64 %rd9, [%r3];\n"
    "LATER: mbarrier.try_wait.shared::cta.b64 %p4, [%r3], %rd9;\n@!%p4 bra LATER;\n"
    "ld.param.u64 %rd2, [out];\nmul.wide.u32 %rd4, %r0, 8;\nadd.s64 %rd4, %rd4, %rd2;\n"
    "st.global.u64 [%rd4], %rd9;\n",
    "a count of two": START + "mov.u32 %r3, done;\n"
    "@%p0 mbarrier.init.shared::cta.b64 [%r3], 128;\nbar.sync 0;\n"
    "mbarrier.arrive.release.cta.shared::cta.b64 %rd9, [%r3], 2;\n"
    "LATER: mbarrier.try_wait.shared::cta.b64 %p4, [%r3], %rd9;\n@!%p4 bra LATER;\n",
    "expect_tx alone": START + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 512;\n"
    + PLAIN.format(512) + "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];\n" + WAIT,
    "an address that is no mbarrier": START + "add.u32 %r1, %r2, 64;\n" + EXPECT.format(64) + WAIT,
    "a wait that never ends": START + WAIT,
    "a group that is not committed": START + EXPECT.format(64) + PLAIN.format(64) + WAIT
    + store_tile(64).replace("cp.async.bulk.commit_group;", ""),
    "a store that nobody waits for": START + EXPECT.format(64) + PLAIN.format(64) + WAIT
    + store_tile(64).replace("cp.async.bulk.wait_group 0;", ""),
    "groups of each lane": START + EXPECT.format(64) + PLAIN.format(64) + WAIT + """
        ld.param.u64 %rd2, [out];
        shl.b32 %r5, %r0, 4;
        cvt.u64.u32 %rd5, %r5;
        add.s64 %rd2, %rd2, %rd5;
        cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;
        cp.async.bulk.commit_group;
        setp.gt.u32 %p5, %r0, 9;
        @%p5 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 1;
        cp.async.bulk.wait_group.read 0;
        cp.async.bulk.wait_group 0;
    """,
    "fences": START + """
        createpolicy.fractional.L2::evict_first.b64 %rd8, 1.0;
        fence.proxy.async; fence.acq_rel.cta; membar.gl; fence.mbarrier_init.release.cluster;
        and.b32 %r6, %r0, 31;
        setp.lt.u32 %p6, %r6, 7;
        @%p6 bra LESS;
        bar.warp.sync 0xffffff80;
        bra END;
        LESS: bar.warp.sync 0x7f;
        END: bar.warp.sync 0xffffffff;
    """,
    "a mask without its lane": START + "bar.warp.sync 0x7fffffff;\n",
}  # fmt: skip
PAIRS = {
    "a multicast": START + EXPECT.format(4096)
    + "mov.b16 %h1, 3;\nbarrier.cluster.arrive.aligned;\n"
    "barrier.cluster.wait.aligned;\nmov.u32 %r9, %cluster_ctarank;\nsetp.eq.u32 %p7, %r9, 0;\n"
    "and.pred %p8, %p0, %p7;\n"
    + BOX.format("0, 8", ".multicast::cluster", ", %h1").replace("@%p0", "@%p8")
    + WAIT + store_tile(4096),
    "an arrival in the other CTA": START
    + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    "mov.u32 %r9, %cluster_ctarank;\nxor.b32 %r9, %r9, 1;\n"
    "mapa.shared::cluster.u32 %r3, %r1, %r9;\n"
    "@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r3];\n" + WAIT
    + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
    "an arrival of each lane in its CTA": START.replace("[%r1], 1;", "[%r1], 4;")
    + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    "and.b32 %r5, %r0, 31; and.b32 %r9, %r5, 1;\nmapa.shared::cluster.u32 %r3, %r1, %r9;\n"
    "setp.lt.u32 %p7, %r5, 2;\n"
    "@%p7 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\n" + WAIT
    + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
    "a fence of one warp, and an arrival of the other": START
    + "@%p0 fence.acq_rel.cluster;\nmov.u32 %r9, %cluster_ctarank;\nxor.b32 %r9, %r9, 1;\n"
    "mapa.shared::cluster.u32 %r3, %r1, %r9;\nsetp.eq.u32 %p7, %r0, 32;\n"
    "@%p7 mbarrier.arrive.shared::cluster.b64 _, [%r3];\n" + WAIT
    + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
    "an arrival in a CTA that may be gone": START
    + "mov.u32 %r9, %cluster_ctarank;\nxor.b32 %r9, %r9, 1;\n"
    "mapa.shared::cluster.u32 %r3, %r1, %r9;\n"
    "@%p0 mbarrier.arrive.shared::cluster.b64 _, [%r3];\n" + WAIT,
}  # fmt: skip


def bound(body: str, ctas: int = 1) -> Kernel:
    """Bind a kernel of `ctas` in one cluster, with A, its map, and room for what comes out."""
    buffers = {
        "a": A,
        "map": image(map_of(A, "u8", (128, 32))),
        "out": np.zeros(8192, np.uint8),
    }
    module = parse_ptx(kernel_text(body, list(buffers), "sm_100a", shared=SHARED), "test.ptx")
    function = module.function("k")
    assert function is not None
    made = bind(
        module,
        function,
        Geometry((ctas, 1, 1), (64, 1, 1), (ctas, 1, 1)),
        {n: Buffer(b.nbytes, b.reshape(-1)) for n, b in buffers.items()},
    )
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("observers", [(), OBSERVERS], ids=["unseen", "observed"])
@pytest.mark.parametrize("name", BODIES)
def test_engines_agree(name: str, observers: Observers) -> None:
    made = bound(BODIES[name])
    for number in range(4):
        run_both(made, Schedule(number, max_steps=2000), observers, recorded=False)


@pytest.mark.parametrize("observers", [(), OBSERVERS], ids=["unseen", "observed"])
@pytest.mark.parametrize("name", PAIRS)
def test_engines_agree_on_a_cluster(name: str, observers: Observers) -> None:
    made = bound(PAIRS[name], ctas=2)
    for number in range(4):
        run_both(made, Schedule(number, max_steps=2000), observers, recorded=False)


def test_what_is_plain_is_done_in_the_core() -> None:
    with counted_steps() as left:
        for name in ("a box in and out", "five rounds", "fences", "groups of each lane"):
            run_both(bound(BODIES[name]), Schedule(2), recorded=False)
        pair = bound(PAIRS["an arrival of each lane in its CTA"], ctas=2)
        run_both(pair, Schedule(2), recorded=False)
    names = ("cp.async.bulk", "prefetch", "fence", "membar", "bar.warp", "createpolicy")
    mine = [n for n in left if n.startswith(names)]
    mine += [n for n in left if n.startswith("mbarrier") and "init" not in n]
    assert mine == []


def test_events_are_the_same_where_an_observer_of_python_listens() -> None:
    for name in ("a box in and out", "five rounds"):
        run_both(bound(BODIES[name]), Schedule(2))


@pytest.mark.parametrize("observers", [(), OBSERVERS], ids=["unseen", "observed"])
@pytest.mark.parametrize("name", ["a box in and out", "groups of each lane"])
def test_a_wait_of_python_is_for_the_groups_of_the_core(
    name: str, observers: Observers, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands = _Encoder._operands

    def left_to_python(self: _Encoder, step: Step, guard: int) -> Any:  # noqa: ANN401
        if step.native and step.native.name == "group.wait":
            return None
        return operands(self, step, guard)

    monkeypatch.setattr(_Encoder, "_operands", left_to_python)
    with counted_steps() as left:
        for number in range(4):
            run_both(bound(BODIES[name]), Schedule(number), observers, recorded=False)
    assert any(".wait_group" in name for name in left)


def test_nothing_is_asked_of_the_histories_that_only_the_numpy_engine_has() -> None:
    ran = run(bound(BODIES["a box in and out"]), Schedule(engine=NATIVE))
    with pytest.raises(NotImplementedError):
        ran.machine.part(BulkGroups).issued(0, 1)
