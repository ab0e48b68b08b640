"""st.async and red.async."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import Result, run_ptx
from tests.emu.places import place, thread

SHARED = ".shared .align 16 .b32 tile[4]; .shared .align 8 .b64 bar;"
# Each CTA expects 16 bytes, and the other one's thread 0 sends them.
BODY = (
    thread()
    + place("c", "%rd1")
    + """
    setp.eq.u32 %p1, %r190, 0;
    mov.u32 %r1, %cluster_ctarank;
    xor.b32 %r2, %r1, 1;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @%p1 st.shared.v4.b32 [tile], {{1, 2, 3, 4}};
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {nbytes};
    mov.u32 %r3, tile;
    mov.u32 %r4, bar;
    mapa.shared::cluster.u32 %r5, %r3, %r2;
    mapa.shared::cluster.u32 %r6, %r4, %r2;
    add.u32 %r7, %r1, 70;
    @%p1 {send}
again:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra again;
    ld.shared.v4.b32 {{%r8, %r9, %r10, %r11}}, [tile];
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd1, %rd1, %rd3;
    st.global.v4.b32 [%rd1], {{%r8, %r9, %r10, %r11}};
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""
)
MECHANISM = "shared::cluster.mbarrier::complete_tx::bytes"


def _run(send: str, nbytes: int, number: int = 0) -> Result:
    return run_ptx(
        BODY.format(send=send, nbytes=nbytes),
        {"c": np.zeros(8, np.uint32)},
        shared=SHARED,
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
        number=number,
    )


@pytest.mark.parametrize("number", range(4))
def test_what_the_mbarrier_counted_is_there(number: int) -> None:
    send = f"st.async.weak.{MECHANISM}.v4.b32 [%r5], {{%r7, %r1, %r2, %r7}}, [%r6];"
    result = _run(send, 16, number)
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [71, 1, 0, 71, 70, 0, 1, 70]


def test_a_reduction_combines_with_what_is_there() -> None:
    send = f"red.async.relaxed.cluster.{MECHANISM}.add.u32 [%r5+4], %r7, [%r6];"
    result = _run(send, 4)
    assert result.findings == ()
    assert result.buffers["c"].tolist() == [1, 73, 3, 4, 1, 72, 3, 4]


def test_the_mbarrier_must_be_in_the_cta_of_the_bytes() -> None:
    send = f"st.async.{MECHANISM}.b32 [%r5], %r7, [bar];"
    result = _run(send, 4)
    assert result.kinds[0] == "barrier-misuse"
    assert "must be in the same CTA" in result.findings[0].message
