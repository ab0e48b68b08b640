"""cp.async: copies, what a wait waits for, arrivals on mbarriers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.machine.operations import Op

from tests.emu.harness import run_ptx
from tests.emu.places import places

TILE = ".shared .align 16 .b8 tile[512]; .shared .align 8 .b64 bar;"
A = np.arange(1, 129, dtype=np.uint32)
LATE = 1  # the schedule that does asynchronous work only when nobody else can go on


def _copied(copy: str, wait: str, number: int = 0, stride: int = 16) -> list[int]:
    """Fill a tile with 9s, copy into it, wait, and return what each thread then reads."""
    body = (
        places(a=stride, c=16)
        + f"""
        shl.b32 %r1, %r190, 4;
        mov.u32 %r2, tile;
        add.u32 %r2, %r2, %r1;
        st.shared.v4.b32 [%r2], {{9, 9, 9, 9}};
        {copy}
        {wait}
        ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];
        st.global.v4.b32 [%rd2], {{%r3, %r4, %r5, %r6}};
    """
    )
    result = run_ptx(body, {"a": A, "c": np.zeros(128, np.uint32)}, shared=TILE, number=number)
    assert result.findings == ()
    left: list[int] = result.buffers["c"].tolist()
    return left


WAIT = "cp.async.commit_group; cp.async.wait_group 0;"


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("wait", [WAIT, "cp.async.wait_all;"])
def test_what_is_waited_for_is_there(wait: str, number: int) -> None:
    copy = "cp.async.cg.shared.global.L2::128B [%r2], [%rd1], 16;"
    assert _copied(copy, wait, number) == A.tolist()


def test_a_copy_that_was_not_waited_for_may_not_be_complete() -> None:
    copy = "cp.async.cg.shared.global [%r2], [%rd1], 16; cp.async.commit_group;"
    assert _copied(copy, "", LATE) == [9] * 128


def test_a_wait_for_all_but_one_group_leaves_the_last() -> None:
    copy = """
        cp.async.ca.shared.global [%r2], [%rd1], 4; cp.async.commit_group;
        cp.async.ca.shared.global [%r2+4], [%rd1+4], 4; cp.async.commit_group;
    """
    assert _copied(copy, "cp.async.wait_group 1;", LATE)[:4] == [1, 9, 9, 9]


def test_bytes_past_src_size_become_zeros() -> None:
    copy = "mov.u32 %r9, 6; cp.async.ca.shared.global [%r2], [%rd1], 8, %r9;"
    assert _copied(copy, WAIT)[4:8] == [5, 6 & 0xFFFF, 9, 9]


def test_a_source_of_no_bytes_is_not_read() -> None:
    copy = "mov.u64 %rd5, 0; cp.async.cg.shared.global [%r2], [%rd5], 16, 0;"
    assert _copied(copy, WAIT)[:4] == [0, 0, 0, 0]


def test_ignore_src_of_a_lane_makes_zeros() -> None:
    copy = """
        setp.ge.u32 %p1, %r190, 1;
        cp.async.ca.shared.global.L2::cache_hint [%r2], [%rd1], 4, %p1, %rd9;
    """
    assert _copied(copy, WAIT)[:8] == [1, 9, 9, 9, 0, 9, 9, 9]


def test_both_addresses_are_checked_when_it_is_issued() -> None:
    body = (
        places(a=8)
        + """
        mov.u32 %r2, tile;
        cp.async.cg.shared.global [%r2+488], [%rd1], 16;
        cp.async.cg.shared.global [%r2], [%rd1+496], 16;
    """
    )
    result = run_ptx(body, {"a": A}, shared=TILE)
    assert [(f.kind, f.message.split(":")[0], f.count) for f in result.findings] == [
        ("misaligned", "cp.async of 16 bytes at tile + 0x1e8 (shared 0x5e8)", 32),
        ("out-of-bounds", "source of cp.async of 16 bytes at 0x7f00000101f8", 31),
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("form", "count"), [("arrive.noinc", 32), ("arrive", 1)])
def test_an_mbarrier_counts_copies_that_are_done(form: str, count: int, number: int) -> None:
    body = (
        places(a=16, c=16)
        + f"""
        setp.eq.u32 %p1, %r190, 0;
        @%p1 mbarrier.init.shared.b64 [bar], {count};
        bar.sync 0;
        shl.b32 %r1, %r190, 4;
        mov.u32 %r2, tile;
        add.u32 %r2, %r2, %r1;
        cp.async.cg.shared.global [%r2], [%rd1], 16;
        cp.async.mbarrier.{form}.shared.b64 [bar];
        {"" if count == 32 else "bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [bar];"}
    again:
        mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
        @!%p2 bra again;
        ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];
        st.global.v4.b32 [%rd2], {{%r3, %r4, %r5, %r6}};
    """
    )
    buffers = {"a": A, "c": np.zeros(128, np.uint32)}
    result = run_ptx(body, buffers, shared=TILE, number=number)
    assert result.findings == ()
    assert result.buffers["c"].tolist() == A.tolist()


class Operations(Hooks):
    """Counts operations by their names."""

    def __init__(self) -> None:
        self.issued: Counter[str] = Counter()

    def op_issued(self, op: Op) -> None:
        self.issued[op.name] += 1


def test_a_warp_issues_one_operation_by_one_instruction() -> None:
    body = (
        places(a=16)
        + """
        setp.eq.u32 %p1, %r190, 0;
        @%p1 mbarrier.init.shared.b64 [bar], 64;
        bar.sync 0;
        shl.b32 %r1, %r190, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;
        and.b32 %r3, %r190, 31; setp.lt.u32 %p2, %r3, 8; selp.b32 %r4, 16, 0, %p2;
        cp.async.cg.shared.global [%r2], [%rd1], 16;
        @%p2 cp.async.cg.shared.global [%r2], [%rd1], 16, %r4;
        cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
    again:
        mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
        @!%p3 bra again;
    """
    )
    seen = Operations()
    shared = TILE.replace("512", "1024")
    a = np.arange(256, dtype=np.uint32)
    result = run_ptx(body, {"a": a}, shared=shared, block=(64, 1, 1), observers=[seen])
    assert result.findings == ()
    # the lanes of a warp that issued both arrive together, and so do the others
    assert seen.issued == {"cp.async": 4, "cp.async.mbarrier.arrive": 4}


@pytest.mark.parametrize("number", range(4))
def test_more_arrivals_of_copies_than_a_phase_takes_complete_it_and_go_on_in_the_next(
    number: int,
) -> None:
    body = (
        places(a=16)
        + """
        setp.eq.u32 %p1, %r190, 0;
        @%p1 mbarrier.init.shared.b64 [bar], 24;
        bar.sync 0;
        cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
    again:
        mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
        @!%p2 bra again;
        @%p1 mbarrier.arrive.noComplete.shared.b64 %rd9, [bar], 15;
    """
    )
    (found,) = run_ptx(body, {"a": A}, shared=TILE, number=number).findings
    assert "arrival before any wait has observed" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.ca.shared.global [%r1], [%rd1], 12;",
        "cp.async.cg.shared.global [%r1], [%rd1], 8;",
        "cp.async.ca.shared.global [%r1], [%rd1], %r2;",
        "cp.async.wait_group %r1;",
    ],
)
def test_sizes_and_numbers_that_ptx_does_not_take_are_rejected(text: str) -> None:
    with pytest.raises(UnsupportedKernel):
        run_ptx(text, {"a": A})
