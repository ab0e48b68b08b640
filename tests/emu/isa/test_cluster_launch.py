"""clusterlaunchcontrol: every tile is done once, by whoever took it over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emu.harness import ENGINES, Result, run_text

TILES = 12
# The CTA's tile, then those of the clusters that it cancels; its thread 0 does all.
TEXT = """.version 9.0
.target sm_100a
.address_size 64
.shared .align 16 .b8 answer[16];
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 out)
{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .b128 %q;
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
ld.param.u64 %rd1, [out];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, 0;
@%p1 bra DONE;
mbarrier.init.shared.b64 [bar], 1;
fence.proxy.async.shared::cta;
TILE:
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
red.global.add.u32 [%rd2], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r3;
@!%p2 bra WAIT;
xor.b32 %r3, %r3, 1;
ld.shared.b128 %q, [answer];
fence.proxy.async.shared::cta;
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;
@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r4, %r5, _}, %q;
@%p3 bra TILE;
DONE:
ret;
}
"""


def _run(text: str, schedule: int = 0, engine: str = ENGINES[0], **rest: Any) -> Result:  # noqa: ANN401
    rest = {"grid": (TILES, 1, 1), **rest}
    return run_text(
        text, {"out": np.zeros(TILES, np.uint32)}, number=schedule, engine=engine, **rest
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_each_tile_is_done_once_however_many_clusters_start(engine: str) -> None:
    launched = set()
    for schedule in range(8):
        result = _run(TEXT, schedule, engine)
        assert result.findings == ()
        assert result.buffers["out"].tolist() == [1] * TILES
        launched.add(len(result.ran.machine.cta_of))
    assert len(launched) > 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_coordinate_alone_is_that_of_the_vector(engine: str) -> None:
    get = "clusterlaunchcontrol.query_cancel.get_first_ctaid"
    text = TEXT.replace(f"{get}.v4.b32.b128 {{%r2, %r4, %r5, _}}, %q", f"{get}::x.b32.b128 %r2, %q")
    assert _run(text, 3, engine).buffers["out"].tolist() == [1] * TILES


def test_a_grid_of_three_dimensions_names_its_tiles() -> None:
    text = TEXT.replace(
        "TILE:",
        "mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;\nTILE:\n"
        "mad.lo.u32 %r6, %r5, 2, %r4; mad.lo.u32 %r6, %r6, 2, %r2;",
    ).replace("mul.wide.u32 %rd2, %r2, 4", "mul.wide.u32 %rd2, %r6, 4")
    for schedule in range(4):
        result = _run(text, schedule, grid=(2, 2, 3))
        assert (result.findings, result.buffers["out"].tolist()) == ((), [1] * TILES)


PAIR = (
    TEXT[: TEXT.index("@%p1 bra DONE;")] + """
mov.u32 %r6, %cluster_ctarank;
setp.eq.u32 %p4, %r6, 0;
@%p1 bra START;
mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
START:
barrier.cluster.arrive; barrier.cluster.wait;
@%p1 bra DONE;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
red.global.add.u32 [%rd2], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
@%p4 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"""
    ".multicast::cluster::all.b128 [answer], [bar];"
    """
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
ld.shared.b128 %q, [answer];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;
@!%p3 bra DONE;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, %q;
add.u32 %r2, %r2, %r6;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
red.global.add.u32 [%rd2], 1;
DONE:
barrier.cluster.arrive; barrier.cluster.wait;
ret;
}
"""
)
"""Rank 0 asks once; each CTA of the pair waits for its own copy of the answer."""


@pytest.mark.parametrize("engine", ENGINES)
def test_the_answer_to_one_cta_reaches_its_cluster(engine: str) -> None:
    for schedule in range(4):
        result = _run(PAIR, schedule, engine, cluster=(2, 1, 1))
        assert (result.findings, result.buffers["out"].tolist()) == ((), [1] * TILES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@!%p2 bra WAIT;", "", "no response of clusterlaunchcontrol.try_cancel"),
        ("@%p3 bra TILE;", "bra TILE;", "another request after one was seen refused"),
        ("@%p3 clusterlaunchcontrol", "clusterlaunchcontrol", "of a request that was refused"),
    ],
)
def test_what_goes_wrong_is_said(old: str, new: str, message: str) -> None:
    text = TEXT.replace(old, new)
    if "bra TILE" in new:  # once more, and no further
        text = text.replace("TILE:", "mov.u32 %r9, 0;\nTILE:").replace(
            "bra TILE;", "add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 30; @%p5 bra TILE;"
        )
    found = [f for n in range(4) for f in _run(text, n).findings]
    assert any(f.kind == "barrier-misuse" and message in f.message for f in found)
