"""Promises about memory, plain accesses to mbarriers, bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.memory import MemoryUse, bank_conflicts

from tests.emu.harness import Result, run_ptx
from tests.emu.places import place, places, thread

ALL = np.ones((1, 32), np.bool_)
LANE = np.arange(32)[None, :]


def _run(body: str) -> Result:
    buffers = {"a": np.zeros(64, np.uint32), "c": np.zeros(64, np.uint32)}
    shared = ".shared .align 16 .b8 tile[4096]; .shared .align 8 .b64 bar;"
    return run_ptx(body, buffers, shared=shared, observers=[MemoryUse()])


def test_a_byte_read_as_read_only_may_not_be_written_before_or_after() -> None:
    read = "ld.global.nc.u32 %r1, [%rd1];\n"
    write = "st.global.u32 [%rd1], %r190;\n"
    for body, severity, words in (
        (read + write, "warning", "a + 0x0 was read by ld.global.nc, for data that the grid never"),
        (
            write + read,
            "error",
            "a + 0x0 was written by the same grid, and is read by ld.global.nc",
        ),
    ):
        (found,) = _run(places(a=4) + body).findings
        assert (found.kind, found.count, found.severity) == ("race", 32, severity)
        assert found.message.startswith(words)


def test_bytes_next_to_those_read_may_be_written() -> None:
    body = (
        places(a=8)
        + """
        ld.global.nc.u32 %r1, [%rd1];
        st.global.u32 [%rd1+4], %r1;
        ld.global.u32 %r2, [%rd1+4];
    """
    )
    assert _run(body).findings == ()


@pytest.mark.parametrize(
    ("access", "reported"),
    [
        ("ld.shared.u32 %r1, [bar+4];", 1),
        ("st.shared.u8 [bar+7], 0;", 1),
        ("st.shared.v4.u32 [tile+4080], {0, 0, 0, 0};", 0),
        ("mbarrier.inval.shared.b64 [bar]; st.shared.u64 [bar], 0;", 0),
        ("mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;", 0),
    ],
)
def test_a_live_mbarrier_is_for_mbarrier_instructions(access: str, reported: int) -> None:
    body = (
        thread()
        + f"""
        setp.ne.u32 %p1, %r190, 0;
        @%p1 ret;
        mbarrier.init.shared.b64 [bar], 1;
        {access}
    """
    )
    found = _run(body).findings
    assert [f.kind for f in found] == ["barrier-misuse"] * reported
    assert all("a live mbarrier" in f.message for f in found)


@pytest.mark.parametrize(
    ("index", "size", "conflicts"),
    [
        (LANE * 4, 4, 0),
        (LANE * 0, 4, 0),  # one word for all
        (LANE * 8, 4, 1),
        (LANE * 128, 4, 31),
        (LANE * 2, 2, 0),
        (LANE * 1, 1, 0),
        (LANE * 8, 8, 0),
        (LANE * 16, 16, 0),
        (LANE * 32, 16, 4),  # two a quarter
        (LANE * 128, 16, 28),
    ],
)
def test_conflicts_are_wavefronts_beyond_the_fewest(
    index: np.ndarray, size: int, conflicts: int
) -> None:
    assert bank_conflicts(index, size, ALL) == conflicts


def test_lanes_that_rest_cause_no_conflict() -> None:
    assert bank_conflicts(LANE * 128, 4, LANE < 2) == 1
    assert bank_conflicts(LANE * 128, 4, LANE < 1) == 0


def test_warps_are_counted_each() -> None:
    index = np.concatenate([LANE * 4, LANE * 8])
    assert bank_conflicts(index, 4, np.ones((2, 32), np.bool_)) == 1


def test_bytes_and_conflicts_are_counted() -> None:
    body = (
        place("a", "%rd1")
        + thread()
        + """
        shl.b32 %r1, %r190, 3;
        mov.u32 %r2, tile;
        add.u32 %r2, %r2, %r1;
        st.shared.u32 [%r2], %r1;
        ld.global.v2.u32 {%r3, %r4}, [%rd1];
        red.global.add.u32 [%rd1], 1;
        cp.async.ca.shared.global [%r2], [%rd1], 8;
    """
    )
    counts = _run(body).ran.machine.counts
    assert {
        name: counts[name]
        for name in (
            "shared_bytes_write",
            "global_bytes_atomic",
            "bank_conflicts",
            "shared_bytes_async_write",
        )
    } == {
        "shared_bytes_write": 128,
        "global_bytes_atomic": 128,
        "bank_conflicts": 1,
        "shared_bytes_async_write": 256,
    }
    assert counts["global_bytes_read"] == 256 + 32 * 8  # and the parameter
