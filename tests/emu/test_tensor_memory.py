"""Tensor memory: loads and stores of every shape, and who may allocate, free and reach what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emu.harness import Result, run_text
from tests.emu.test_tcgen05 import HEAD

ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r5], {};"
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r50, {};"
SHARED = ".shared .align 16 .b8 smem[64];\n"


def one_warp(
    body: str,
    *,
    block: int = 32,
    alloc: int = 64,
    free: int = 64,
    **rest: Any,  # noqa: ANN401 - as run_text takes it
) -> Result:
    text = f"""{HEAD}{SHARED}
.visible .entry k(.param .u64 out) {{
    .reg .pred %p<20>; .reg .b32 %r<200>; .reg .b64 %rd<20>; .reg .b32 %d<200>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r5, smem;
    {ALLOC.format(alloc) if alloc else ""}
    {"ld.shared.b32 %r50, [%r5];" if alloc else "mov.b32 %r50, 0;"}
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 512;
    add.u64 %rd1, %rd1, %rd2;
    {body}
    {FREE.format(free) if free else ""}
    ret;
}}
"""
    out = np.zeros((block, 128), np.uint32)
    return run_text(text, {"out": out}, block=(block, 1, 1), **rest)


def registers(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"%d{first + i}" for i in range(count)) + "}"


def fill(count: int, first: int = 0) -> str:
    """%d<i> is lane << 8 | i."""
    return "shl.b32 %r9, %r1, 8;\n" + "\n".join(
        f"or.b32 %d{first + i}, %r9, {i};" for i in range(count)
    )


def dump(count: int, first: int = 0) -> str:
    return "\n".join(f"st.global.b32 [%rd1+{4 * i}], %d{first + i};" for i in range(count))


WAIT_LD, WAIT_ST = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"


@pytest.mark.parametrize(
    ("shape", "number", "count"),
    [("16x64b", 8, 8), ("16x128b", 4, 8), ("16x256b", 2, 8), ("32x32b", 16, 16)],
)
def test_a_store_lies_where_the_shape_says(shape: str, number: int, count: int) -> None:
    found = one_warp(f"""
        {fill(count)}
        tcgen05.st.sync.aligned.{shape}.x{number}.b32 [%r50], {registers(count)};
        {WAIT_ST}
        tcgen05.ld.sync.aligned.32x32b.x16.b32 {registers(16, 100)}, [%r50];
        {WAIT_LD}
        {dump(16, 100)}
    """)
    assert found.findings == ()
    out = found.buffers["out"]
    for lane in range(32):
        for r in range(count):
            row, column = {
                "16x64b": ((lane >> 2) + 8 * (lane & 1), (lane >> 1 & 1) + 2 * r),
                "16x128b": ((lane >> 2) + 8 * (r & 1), (lane & 3) + 4 * (r >> 1)),
                "16x256b": (
                    (lane >> 2) + 8 * (r >> 1 & 1),
                    (r & 1) + 2 * (lane & 3) + 8 * (r >> 2),
                ),
                "32x32b": (lane, r),
            }[shape]
            assert out[row, column] == lane << 8 | r


@pytest.mark.parametrize(
    ("holds", "stored", "kinds"),
    [
        ("setp.lt.u32 %p5, %r1, 32;", True, []),
        ("setp.ge.u32 %p5, %r1, 32;", False, []),
        ("setp.lt.u32 %p5, %r1, 16;", True, ["tmem"]),
    ],
    ids=["all lanes", "none", "half"],
)
def test_a_store_under_a_guard_is_of_all_lanes_of_a_warp_or_of_none(
    holds: str, stored: bool, kinds: list[str]
) -> None:
    found = one_warp(f"""
        {fill(2)} mov.b32 %d8, 7;
        tcgen05.st.sync.aligned.32x32b.x2.b32 [%r50], {{%d8, %d8}};
        {WAIT_ST}
        {holds}
        @%p5 tcgen05.st.sync.aligned.32x32b.x2.b32 [%r50], {registers(2)};
        {WAIT_ST}
        tcgen05.ld.sync.aligned.32x32b.x2.b32 {registers(2, 100)}, [%r50];
        {WAIT_LD}
        {dump(2, 100)}
    """)
    assert found.kinds == kinds
    wanted = np.arange(32) << 8 | 1 if stored else np.full(32, 7)
    assert (found.buffers["out"][:, 1] == wanted).all()


@pytest.mark.parametrize(("shape", "number", "count"), [
    ("16x64b", 8, 8), ("16x128b", 4, 8), ("16x256b", 2, 8), ("32x32b", 8, 8),
])  # fmt: skip
@pytest.mark.parametrize("halves", [("", ""), (".unpack::16b", ".pack::16b")])
def test_a_load_gives_back_what_was_stored(
    shape: str, number: int, count: int, halves: tuple[str, str]
) -> None:
    at = "[%r50]" if shape == "32x32b" else "[%r50+1048576]"  # lane 16
    unpack, pack = halves
    found = one_warp(f"""
        {fill(count)}
        tcgen05.st.sync.aligned.{shape}.x{number}{unpack}.b32 {at}, {registers(count)};
        {WAIT_ST}
        tcgen05.ld.sync.aligned.{shape}.x{number}{pack}.b32 {registers(count, 100)}, {at};
        {WAIT_LD}
        {dump(count, 100)}
    """)
    assert found.findings == ()
    lanes = np.arange(32)[:, None]
    assert (found.buffers["out"][:, :count] == (lanes << 8 | np.arange(count))).all()


def test_16x32bx2_is_two_halves_apart() -> None:
    found = one_warp(f"""
        {fill(16)}
        tcgen05.st.sync.aligned.32x32b.x16.b32 [%r50], {registers(16)};
        {WAIT_ST}
        tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {registers(4, 100)}, [%r50], 8;
        {WAIT_LD}
        {dump(4, 100)}
    """)
    assert found.findings == ()
    for lane in range(32):
        wanted = [(lane % 16) << 8 | r + 8 * (lane // 16) for r in range(4)]
        assert found.buffers["out"][lane, :4].tolist() == wanted


@pytest.mark.parametrize(
    ("apart", "parts"), [(True, "eq.u32 %p1, %r8, 1"), (False, "ge.u32 %p1, %r1, 40")]
)
@pytest.mark.parametrize("schedule", range(4))
def test_warps_that_diverge_and_reconverge_before_the_wait_get_their_own(
    apart: bool, parts: str, schedule: int
) -> None:
    """Each warp holds its lanes' numbers; they part behind the load, or load apart."""
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%d100, %d101}, [%r51];"
    found = one_warp(
        f"""
        bar.sync 0;
        ld.shared.b32 %r50, [%r5];
        shr.u32 %r8, %r1, 5; shl.b32 %r9, %r8, 21; add.u32 %r51, %r50, %r9;
        {fill(2)}
        tcgen05.st.sync.aligned.32x32b.x2.b32 [%r51], {registers(2)};
        {WAIT_ST}
        setp.{parts};
        {"" if apart else load}
        @%p1 bra OTHER;
        {load if apart else ""}
        bra MET;
    OTHER:
        {load if apart else ""}
    MET:
        {WAIT_LD}
        {dump(2, 100)}
        bar.sync 0;
        setp.ne.u32 %p2, %r8, 0;
        @%p2 bra LEAVE;
        {FREE.format(64)}
    LEAVE:
        """.replace("bar.sync 0;", f"""
        setp.ne.u32 %p2, %r1, 0;
        shr.u32 %r8, %r1, 5;
        setp.ne.u32 %p3, %r8, 0;
        @%p3 bra READY;
        {ALLOC.format(64)}
    READY:
        bar.sync 0;
        """, 1),
        block=96, alloc=0, free=0, number=schedule,
    )  # fmt: skip
    assert found.findings == ()
    lanes = np.arange(96)[:, None]
    assert (found.buffers["out"][:, :2] == (lanes << 8 | np.arange(2))).all()


@pytest.mark.parametrize("number", range(4))
def test_a_register_of_a_load_is_held_back_until_it_is_there(number: int) -> None:
    found = one_warp(
        f"""
        mov.u32 %d1, 7;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r50], {{%d1}};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d1}}, [%r50];
        st.global.b32 [%rd1], %d1;
        {WAIT_LD}
    """,
        number=number,
    )
    assert (found.kinds, found.warnings) == ([], ["tensor-load-read-early"])
    assert set(found.buffers["out"][:, 0].tolist()) == {7}
    assert "before tcgen05.wait::ld" in found.findings[0].message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("add.u32 %r51, %r50, 2097152; LD", "warp 0 reaches 0 to 31"),
        ("add.u32 %r51, %r50, 65536; LD", "starts at lane 1"),
        ("add.u32 %r51, %r50, 64; LD", "not all allocated"),
        ("add.u32 %r51, %r50, 512; LD", "there are 512"),
        ("mov.u32 %r51, %r1; LD", "different addresses"),
    ],
)
def test_what_a_load_may_not_reach(body: str, words: str) -> None:
    load = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d1}}, [%r51]; {WAIT_LD}"
    found = one_warp(body.replace("LD", load))
    assert set(found.kinds) == {"tmem"}
    assert words in found.findings[0].message


@pytest.mark.parametrize(
    ("body", "alloc", "free", "kind", "words"),
    [
        ("", 64, 0, "leak", "64 columns of tensor memory from column 0 were never freed"),
        ("", 64, 32, "tmem", "no allocation of this CTA"),
        (FREE.format(64), 64, 64, "tmem", "no allocation of this CTA"),
        (
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + ALLOC.format(32),
            64, 64, "tmem", "after tcgen05.relinquish_alloc_permit",
        ),
        (ALLOC.format(128), 64, 64, "tmem", "must not grow"),
        ("mov.b32 %r6, 48;" + ALLOC.format("%r6"), 64, 64, "tmem", "a power of two"),
    ],
)  # fmt: skip
def test_allocation_has_rules(body: str, alloc: int, free: int, kind: str, words: str) -> None:
    found = one_warp(body, alloc=alloc, free=free)
    assert kind in found.kinds
    assert any(words in f.message for f in found.findings if f.kind == kind)


def test_an_allocation_waits_until_another_warp_frees() -> None:
    body = f"""
        setp.ge.u32 %p1, %r1, 32;
        @%p1 bra SECOND;
        {ALLOC.format(512)}
        ld.shared.b32 %r50, [%r5];
        {FREE.format(512)}
        bra END;
    SECOND:
        add.u32 %r5, %r5, 16;
        {ALLOC.format(512)}
        ld.shared.b32 %r50, [%r5];
        {FREE.format(512)}
    END:
        st.global.b32 [%rd1], %r50;
    """
    for schedule in range(4):
        found = one_warp(body, block=64, alloc=0, free=0, number=schedule)
        assert found.findings == ()


def test_an_alloc_that_no_dealloc_frees_columns_for_is_a_deadlock() -> None:
    found = one_warp(ALLOC.format(512), alloc=512, free=512)
    assert found.kinds == ["deadlock"]


MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIR = f"""
    {MEET}
    LATE
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r5], 64;
    ld.shared.b32 %r50, [%r5];
    MEET
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r50, 64;
    LAST
"""
USE = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d1}}, [%r50]; {WAIT_LD}"


def pair(body: str, schedule: int = 0) -> Result:
    return one_warp(
        body, alloc=0, free=0, grid=(2, 1, 1), cluster=(2, 1, 1), number=schedule
    )  # fmt: skip


def test_a_pair_allocates_the_same_columns_and_frees_together() -> None:
    for schedule in range(6):
        body = PAIR.replace("MEET", MEET).replace("LATE", "").replace("LAST", MEET)
        assert pair(body, schedule).findings == ()


def test_an_address_without_lanes_is_a_warning_and_one_of_another_warps_an_error() -> None:
    """PTX 9.7.16.8: a warp reaches its own quarter, which the alloc's address does not name."""
    for quarter, kinds, rule in ((0, [], "tensor-lanes-unnamed"), (2, ["tmem"], "tensor-lanes")):
        body = f"""
            setp.lt.u32 %p1, %r1, 32; @%p1 bra DONE;
            {ALLOC.format(64)}
            ld.shared.b32 %r50, [%r5]; add.u32 %r51, %r50, {quarter << 21};
            tcgen05.st.sync.aligned.32x32b.x1.b32 [%r51], {{%r1}};
            {WAIT_ST}
            {FREE.format(64)}
        DONE:
        """
        found = one_warp(body, block=64, alloc=0, free=0)
        assert found.kinds == kinds
        assert {f.rule for f in found.findings} == {rule}


def test_a_cta_may_exit_before_the_peer_has_freed() -> None:
    """PTX 9.7.16.5: warps can exit at once after the dealloc, whether it waited or not."""
    late = "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, RANK; @%p1 bra GO;"
    late += "nanosleep.u32 1000; GO:"
    for rank in "01":
        held = late.replace("RANK", rank)
        body = PAIR.replace("    MEET\n", f"    {MEET}\n{held}\n").replace("LATE", "")
        for schedule in range(4):
            assert pair(body.replace("LAST", ""), schedule).findings == ()


def test_a_peer_that_exits_and_frees_nothing_is_found() -> None:
    gone = "mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 1; @%p1 ret;"
    body = PAIR.replace("    MEET\n", f"    {MEET}\n{gone}\n").replace("LATE", "")
    found = [f for n in range(4) for f in pair(body.replace("LAST", ""), n).findings]
    assert {f.kind for f in found} >= {"leak"}
    assert any("has exited without its own" in f.message or f.kind == "deadlock" for f in found)


def test_columns_are_used_no_more_once_a_dealloc_was_issued() -> None:
    """The peer comes late to its own: to have waited for it was luck."""
    body = PAIR.replace("MEET", MEET).replace("LATE", "").replace("LAST", USE + MEET)
    for schedule in range(4):
        found = pair(body, schedule).findings
        assert [f.kind for f in found] == ["tmem"]


def test_to_free_before_the_peer_has_allocated_is_found() -> None:
    late = """
        mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; @%p1 bra GO;
        nanosleep.u32 100;
    GO:
    """
    body = PAIR.replace("MEET", "").replace("LATE", late).replace("LAST", "")
    found = [f for n in range(8) for f in pair(body, n).findings if f.kind == "tmem"]
    assert any("dealloc before the other CTA of the pair has reached" in f.message for f in found)


def test_to_allocate_before_a_cluster_barrier_is_a_warning() -> None:
    body = PAIR.replace(MEET, "", 1).replace("MEET", MEET).replace("LATE", "").replace("LAST", MEET)
    found = pair(body)
    (finding,) = found.findings
    assert "before any barrier.cluster" in finding.message
    assert (finding.rule, finding.severity) == ("pair-alloc-before-cluster-barrier", "warning")


def test_both_ctas_must_ask_for_the_same_columns_at_the_same_place() -> None:
    late = "mov.u32 %r7, %cluster_ctarank; shl.b32 %r7, %r7, 4; add.u32 %r5, %r5, %r7;"
    found = pair(PAIR.replace("MEET", MEET).replace("LATE", late).replace("LAST", MEET))
    assert found.kinds == ["tmem"]
    assert "one offset in both" in found.findings[0].message


def test_a_pair_needs_a_cluster_of_pairs() -> None:
    found = one_warp(
        PAIR.replace("MEET", "").replace("LATE", "").replace("LAST", ""), alloc=0, free=0
    )
    assert "tmem" in found.kinds
    assert "a pair needs a cluster" in found.findings[0].message
