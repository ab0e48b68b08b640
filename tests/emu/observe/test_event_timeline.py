"""What the timeline of a schedule holds: who waits for whom, in the order of the events."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from kernelrig.emu.observe import event_timeline as observed
from kernelrig.emu.observe.event_timeline import TimelineObserver
from kernelrig.model import Flow, Timeline, Track

from tests.emu.harness import run_ptx

HANDED_OVER = """
    ld.param.u64 %rd1, [c];
    mov.u32 %r1, %tid.x;
    mov.u32 %r4, bar;
    mov.u32 %r5, data;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra READER;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r4], 64;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd1], 64, [%r4];
    bra END;
READER:
    setp.lt.u32 %p3, %r1, 32;
    @%p3 bra END;
TRY:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], 0;
    @!%p4 bra TRY;
END:
"""
SHARED = ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 data[64];"


def recorded(engine: str, number: int) -> Timeline:
    seen = TimelineObserver()
    c = np.zeros(16, np.uint32)
    ran = run_ptx(
        HANDED_OVER, {"c": c}, shared=SHARED, block=(64, 1, 1), observers=[seen], engine=engine,
        number=number,
    )  # fmt: skip
    assert ran.kinds == []
    return seen.timeline("a title")


def named(timeline: Timeline, flow: Flow) -> tuple[str, str]:
    """Return what a flow comes from and goes to: the slices around its ends."""

    def around(track: int, at: int) -> str:
        (found,) = (s for s in timeline.slices if s.track == track and s.start <= at < s.end)
        return f"{timeline.tracks[track].name}: {found.name}"

    return around(flow.from_track, flow.from_at), around(flow.to_track, flow.to_at)


@pytest.mark.parametrize("number", range(4))
def test_a_wait_follows_from_the_copy_whose_bytes_completed_the_phase(number: int) -> None:
    timeline = recorded(NUMPY, number)
    (wait,) = (f for f in timeline.flows if f.name == "wait for bar")
    copy = "cp.async.bulk"
    assert named(timeline, wait) == (
        f"operations in flight: {copy}", "warp 1: wait for bar"
    )  # fmt: skip
    (issued,) = (f for f in timeline.flows if f.name.startswith("issue "))
    assert named(timeline, issued) == (
        f"warp 0: issue {copy}", f"operations in flight: {copy}"
    )  # fmt: skip
    assert issued.from_at < issued.to_at < wait.from_at < wait.to_at


@pytest.mark.parametrize("number", range(4))
def test_slices_of_a_track_never_overlap_and_both_warps_wait_for_the_last_to_arrive(
    number: int,
) -> None:
    timeline = recorded(NUMPY, number)
    ends: dict[int, int] = {}
    for one in timeline.slices:
        assert ends.get(one.track, 0) <= one.start < one.end
        ends[one.track] = one.end
    barrier = [f for f in timeline.flows if f.name == "wait for the cta barrier"]
    assert len({(f.from_track, f.from_at) for f in barrier}) == 1
    assert {t.group for t in timeline.tracks} == {"CTA 0"}


@pytest.mark.parametrize("number", range(4))
def test_both_engines_record_the_same(number: int) -> None:
    assert recorded(NATIVE, number) == recorded(NUMPY, number)


def test_events_over_the_limit_are_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recorded(NUMPY, 0)
    monkeypatch.setattr(observed, "MOST_EVENTS", 4)
    cut = recorded(NUMPY, 0)
    assert cut.left_out > 0
    assert 0 < len(cut.slices) < len(whole.slices)
    assert all(one.start <= 2 * 4 for one in cut.slices)


def test_the_ends_of_operations_in_flight_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = TimelineObserver()
    observer._flying = {object(): observed._Operation(0, 1, "copy", ())}  # type: ignore[dict-item]
    observer._tracks = [Track("CTA 0", "operations in flight")]
    monkeypatch.setattr(observed, "MOST_EVENTS", 4)
    observer.events = 4
    timeline = observer.timeline("")
    assert (timeline.left_out, len(timeline.slices)) == (0, 1)
