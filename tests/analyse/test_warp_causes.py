"""Causes in how warps and SMs share the work, on numbers and code that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.launch_evidence import Evidence

from tests.analyse.evidence import (
    LAUNCH,
    QUIET,
    WORK,
    causes,
    code,
    evidence_of,
    names,
    of_code,
    without,
)
from tests.analyse.listings import PIPELINE, Row, row


def test_stalls_at_a_barrier_lie_on_the_instruction_behind_it() -> None:
    latency = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
    lines: tuple[tuple[str, int, int, dict[str, int]], ...] = (
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 1000, 32, {}),
        ("LDS R9, [R5]", 1000, 32, {"barrier": 300}),
    )
    short = {latency: 1.0, "smsp__inst_executed.sum": 1e5}
    assert names(*lines, changes=short) == ["many-barriers"]
    assert names(*lines, changes=short | {latency: 100.0}) == ["serial-section"]
    for full in ({"dram": 0.92}, {"l2": 0.92}, {"issue": 0.95}):
        found = causes(*lines, units=full, changes=short)
        assert sum(c.most_percent for c in found.values()) < 3, "others are at work meanwhile"


def test_warps_that_end_early_are_named_and_those_that_feed_tensor_cores_are_not() -> None:
    early = {"sm__warps_active.avg.per_cycle_active": 32.0}
    assert names(changes=early) == ["idle-warps"]
    assert names(changes=early | {"sm__warps_active.avg.per_cycle_active": 50.0}) == []
    (cause,), (fed,) = (
        find_causes(Evidence(LAUNCH | early, QUIET | {"tensor": use}, code(WORK), None))
        for use in (0.0, 0.5)
    )
    assert fed.most_percent < cause.most_percent / 2, "tensor cores work while warps wait"


def test_a_busy_tensor_pipe_at_the_power_limit_leaves_little_to_gain() -> None:
    lines: tuple[tuple[str, int, int, dict[str, int]], ...] = (
        ("UTMALDG.2D [UR8], [UR4]", 10, 1, {}),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 1000, 32, {}),
        ("LDS R9, [R5]", 1000, 32, {"barrier": 100}),
    )

    def most(clock_hz: float, tensor: float) -> float:
        values = LAUNCH | {"gpc__cycles_elapsed.avg.per_second": clock_hz}
        e = Evidence(values, QUIET | {"tensor": tensor}, code(WORK, *lines), None)
        return max(c.most_percent for c in find_causes(e) if c.name == "many-barriers")

    assert most(1.98e9, 0.76) > 16, "what is left up to 92% of its peak"
    assert most(1.5e9, 0.76) < 8
    assert most(1.5e9, 0.5) > 30, "the pipe idles half of the time"


def test_too_few_warps_are_named_where_latency_is_not_hidden() -> None:
    few = {
        "launch__occupancy_limit_shared_mem": 1.0,
        "sm__warps_active.avg.per_cycle_active": 8.0,
    }
    assert names(changes=few) == ["low-occupancy"]
    assert names(("UTMALDG.2D [UR8], [UR4]", 10, 1, {}), changes=few) == []


def test_a_grid_that_does_not_fill_the_gpu_is_named() -> None:
    few = {
        "launch__waves_per_multiprocessor": 0.1,
        "launch__grid_size": 80.0,
        "sm__warps_active.avg.per_cycle_active": 8.0,
    }
    assert names(changes=few) == ["small-grid"]
    assert names(changes=few | {"launch__waves_per_multiprocessor": 2.0}) != ["small-grid"]
    assert "small-grid" not in names(("LDGSTS.E.BYPASS.128 [R4], [R12]", 10, 32, {}), changes=few)


def test_waits_for_the_data_of_copies_are_a_ring_that_is_short() -> None:
    found = of_code(PIPELINE)
    assert next(iter(found)) == "short-ring"
    assert found["short-ring"] == ("0x0150",), "the MMA warp's wait, not that of what loads"
    assert "short-ring" not in of_code(without(PIPELINE, "SYNCS", "BRA @46"))
    copies = tuple((t.replace("UTMALDG.2D", "UTMASTG.2D"), n, s) for t, n, s in PIPELINE)
    assert "short-ring" not in of_code(copies), "nothing is copied to shared memory"


COPIED = (
    row("      LDGSTS.E.BYPASS.128 [R4], desc[UR4][R12.64]", 800),
    row("      LDGDEPBAR", 800),
    row("      DEPBAR.LE SB0, 0x0", 800),
    row("      FFMA R6, R5, R7, R6", 800, long_sb=90, selected=30),
    row("      ISETP.NE.AND P0, PT, R10, 0x4, PT", 800),
    row("@P0   BRA @0", 800),
    row("      EXIT", 8),
)


def test_waits_behind_a_group_of_copies_are_a_short_ring_too() -> None:
    assert next(iter(of_code(COPIED))) == "short-ring"
    loads = tuple((t.replace("DEPBAR.LE", "IMAD.MOV"), n, s) for t, n, s in COPIED)
    assert "short-ring" not in of_code(loads)


STANDING = (
    row("      S2R R0, SR_TID.X", 8),
    row("      SHF.R.U32.HI R36, RZ, 0x5, R0", 8),
    row("      ISETP.NE.AND P0, PT, R36, RZ, PT", 8),
    row("@P0   BRA @9", 8),
    # W0 works
    row("      FFMA R6, R5, R7, R6", 200, wait=60, selected=40),
    row("      BAR.SYNC.DEFER_BLOCKING 0x0", 200),
    row("      ISETP.NE.AND P1, PT, R10, 0x4, PT", 200),
    row("@P1   BRA @4", 200),
    row("      EXIT", 2),
    # and the other three wait for it
    row("      BAR.SYNC.DEFER_BLOCKING 0x0", 600),
    row("      ISETP.NE.AND P1, PT, R10, 0x4, PT", 600, barrier=280),
    row("@P1   BRA @9", 600, wait=20),
    row("      EXIT", 6),
)


def test_warps_that_stand_at_a_barrier_while_one_works_are_idle() -> None:
    found = of_code(STANDING)
    assert next(iter(found)) == "idle-warps"
    assert found["idle-warps"] == ("warps W1 on",)
    busy = tuple((t, n, {"wait": 280} if "barrier" in s else s) for t, n, s in STANDING)
    assert "idle-warps" not in of_code(busy)
    role = tuple(
        (t.replace("FFMA R6, R5, R7, R6", "UTMALDG.2D [UR8], [UR4]"), n, s) for t, n, s in STANDING
    )
    assert "idle-warps" not in of_code(role), "a role that loads is few warps by design"


def test_other_causes_of_a_launch_follow_from_its_numbers() -> None:
    assert names(changes={"sm__cycles_active.avg": 8e5}) == ["uneven-sms"]
    assert names(units={"dram": 0.8}, changes={"dram__bytes_read.sum": 4e9}) == ["reads-again"]
    assert names(changes={"dram__bytes_read.sum": 4e9}) == [], "DRAM has time for it"
    slow = {"gpc__cycles_elapsed.avg.per_second": 1.5e9}
    assert names(changes=slow) == ["power"]
    assert names(units={"dram": 0.9}, changes=slow) == []


def test_lanes_that_wait_for_others_of_their_warp_are_divergence() -> None:
    def named(lanes: int) -> list[str]:
        own = replace(code(WORK)[0], threads=lanes * 1000, predicated_on=lanes * 1000)
        return [c.name for c in find_causes(Evidence(LAUNCH, QUIET, (own,), None))]

    assert named(8) == ["divergence"]
    assert named(30) == []
    assert named(1) == [], "one lane is elected"


FED = (
    row("      S2R R0, SR_TID.X", 8),
    row("      SHF.R.U32.HI R36, RZ, 0x5, R0", 8),
    row("      ISETP.NE.AND P0, PT, R36, RZ, PT", 8),
    row("@P0   BRA @10", 8),
    # W0 makes what is waited for
    row("      IMAD R6, R5, R7, R6", 200, wait=40, selected=30),
    row("      STS [R20], R6", 200, wait=10),
    row("      SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R9], RZ", 200),
    row("      ISETP.NE.AND P1, PT, R10, 0x4, PT", 200),
    row("@P1   BRA @4", 200),
    row("      EXIT", 2),
    # 10: and the other three wait for it
    row("      SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9], R4", 600, long_sb=200),
    row("@!P0  BRA @10", 600, long_sb=60),
    row("      LDS R8, [R20]", 600, wait=10),
    row("      FFMA R30, R8, R8, R30", 600, selected=10),
    row("      ISETP.NE.AND P1, PT, R11, 0x4, PT", 600),
    row("@P1   BRA @10", 600),
    row("      EXIT", 6),
)


def test_warps_that_wait_at_mbarriers_for_a_few_that_never_wait_are_fed_by_too_few() -> None:
    found = of_code(FED)
    assert next(iter(found)) == "few-producers"
    assert found["few-producers"][:2] == ("warps W0", "0x00a0")
    assert "few-producers" not in of_code(without(FED, "SYNCS", "BRA @10")), "they do not wait"
    waits = row("      SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [R8], R3", 200, long_sb=90)
    both = (*FED[:4], waits, *FED[5:])
    assert "few-producers" not in of_code(both), "each role waits for the other"
    copies = (*FED[:4], row("      UTMALDG.2D [UR8], [UR4]", 200, wait=70), *FED[5:])
    assert "few-producers" not in of_code(copies), "copies go on by themselves"


def test_waits_at_mbarriers_are_no_latency_that_more_warps_hide() -> None:
    few = {
        "launch__occupancy_limit_shared_mem": 1.0,
        "sm__warps_active.avg.per_cycle_active": 8.0,
    }

    def most(rows: tuple[Row, ...]) -> float:
        found = {c.name: c.most_percent for c in find_causes(evidence_of(rows, few))}
        return found.get("low-occupancy", 0.0)

    loads = tuple((t.replace("SYNCS.PHASECHK.TRANS64.TRYWAIT", "LDG.E"), n, s) for t, n, s in FED)
    assert most(FED) < most(loads) / 2


@pytest.mark.parametrize(("waves", "times"), [(0.5, 2**0.5), (1.0, 2**0.5), (1.1, 1.2), (4.0, 1.2)])
def test_waves_that_end_early_lose_no_more_than_they_wait(waves: float, times: float) -> None:
    early = {"sm__cycles_active.avg": 9e5, "launch__waves_per_multiprocessor": waves}
    cause = causes(changes=early)["uneven-sms"]
    assert cause.most_percent == pytest.approx(10 * times, abs=0.1)


def test_sms_that_end_early_while_arithmetic_is_busy_lose_little() -> None:
    early = {"sm__cycles_active.avg": 9.1e5, "launch__waves_per_multiprocessor": 3.9}
    assert causes(changes=early)["uneven-sms"].most_percent > 8
    assert causes(units={"fma": 0.9}, changes=early)["uneven-sms"].most_percent < 8
