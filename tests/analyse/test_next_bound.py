"""What removing a cause leaves: the unit that warps wait for next limits what is gained."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.estimated_cost import interval
from kernelrig.analyse.explain.launch_evidence import MOST_STALLED, Evidence
from kernelrig.analyse.source import analyse_source, read_counter_page

from tests.analyse.evidence import LAUNCH, QUIET, causes
from tests.analyse.listings import page, row

Line = tuple[str, int, int, dict[str, int]]
MEETING: tuple[Line, ...] = (
    ("BAR.SYNC.DEFER_BLOCKING 0x0", 1000, 32, {}),
    ("LDS R9, [R5]", 1000, 32, {"barrier": 300}),
)
LATENCY = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
SHORT = {LATENCY: 1.0, "smsp__inst_executed.sum": 1e5}
SLOWED = {"gpc__cycles_elapsed.avg.per_second": 1.5e9}


def test_warps_that_no_barrier_holds_wait_for_the_unit_that_is_busy() -> None:
    def most(**units: float) -> float:
        found = causes(*MEETING, units=units, changes=SHORT).get("many-barriers")
        return found.most_percent if found else 0.0

    assert most() > most(l1=0.55) > most(l1=0.7) > 5
    assert most(l1=0.99) < most(l1=0.92) <= 8, "no more than L1 leaves"
    assert most(alu=0.96) == 0, "nor than arithmetic reaches"


HANDED_ON: tuple[Line, ...] = (
    ("BAR.SYNC.DEFER_BLOCKING R3, 0x100", 1000, 32, {}),
    ("LDS R9, [R5]", 1000, 32, {"barrier": 300}),
)


@pytest.mark.parametrize(
    ("arrivals", "cause"), [(1000, "serial-section"), (0, "many-barriers"), (8, "many-barriers")]
)
def test_warps_that_hand_on_a_barrier_take_turns(arrivals: int, cause: str) -> None:
    lines = (*HANDED_ON, ("BAR.ARV R4, 0x100", arrivals, 32, {}))
    assert next(iter(causes(*lines, changes=SHORT))) == cause


FENCED: Line = ("ERRBAR", 1000, 32, {"membar": 100})


def test_waits_at_barriers_for_warps_that_a_cause_holds_up_go_with_it() -> None:
    alone = causes(FENCED)["fences"]
    met = causes(FENCED, *MEETING)["fences"]
    waited = (MEETING[0], ("LDS R9, [R5]", 1000, 32, {"short_sb": 300}))
    assert met.most_percent == pytest.approx(alone.most_percent, abs=0.2)
    assert causes(FENCED, *waited)["fences"].most_percent < alone.most_percent / 1.5


def test_a_launch_whose_warps_all_stand_at_a_barrier_has_no_fences_to_blame() -> None:
    assert "fences" not in causes(("ERRBAR", 1000, 32, {}), *MEETING)


LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_"
SPILLED = (
    row("      LDC R1, c[0x0][0x28]", 8),
    row("      STL [R1], R4", 400),
    row("      LDG.E R8, desc[UR4][R12.64]", 400),
    row("      FFMA R6, R5, R7, R6", 800, long_sb=10, wait=90),
    row("      STG.E desc[UR4][R12.64], R6", 8, selected=50),
    row("      EXIT", 8),
)


@pytest.mark.parametrize(("stored", "share"), [(9e6, 0.9), (2e6, 0.2)])
def test_spills_cost_what_they_are_of_the_traffic_to_l2(stored: float, share: float) -> None:
    counters = read_counter_page(page(SPILLED))
    source = analyse_source(counters, top=MOST_STALLED)
    values = LAUNCH | {
        f"{LOCAL}st.sum": stored,
        "l1tex__m_l1tex2xbar_write_bytes.sum": 32 * 9.5e6,
        "l1tex__m_xbar2l1tex_read_bytes.sum": 32 * 0.5e6,
    }
    e = Evidence(values, QUIET | {"l2": 0.7, "issue": 0.0}, counters.instructions, source)
    (cause,) = (c for c in find_causes(e) if c.name == "local-memory")
    _, high = interval(0.7 * share, 1.0)
    assert cause.most_percent == pytest.approx(100 * high, rel=0.1)


def test_what_l1s_ask_for_again_is_counted_once_by_an_order_that_l2_keeps() -> None:
    """L2 counts sectors of its far half twice, but not those that its near half has by then."""
    values = {
        "dram__bytes_read.sum": 8e9,
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": 36.0,
        "lts__t_sectors.sum": 3e8,
    }
    once = {"l1tex__m_xbar2l1tex_read_bytes.sum": 32 * 2e8}
    busy = {"dram": 0.93, "l2": 0.9}
    twice = causes(units=busy, changes=values)["reads-again"]
    near = causes(units=busy, changes=values | once)["reads-again"]
    assert twice.most_percent == pytest.approx(100 * (1 - 0.36 / 1.1), abs=0.2)
    assert near.most_percent == pytest.approx(100 * (1 - 0.24 / 1.1), abs=0.2)


RING = (
    row("      MOV R10, RZ", 8),
    row("      LDGSTS.E.BYPASS.128 [R4], desc[UR4][R12.64]", 800),
    row("      LDGDEPBAR", 800),
    row("      DEPBAR.LE SB0, 0x0", 800),
    row("      FFMA R6, R5, R7, R6", 800, long_sb=90, selected=30),
    row("      ISETP.NE.AND P0, PT, R10, 0x4, PT", 800),
    row("@P0   BRA @1", 800),
    row("      EXIT", 8),
)


def test_no_ring_is_too_short_where_tensor_cores_and_dram_are_both_busy() -> None:
    counters = read_counter_page(page(RING))
    source = analyse_source(counters, top=MOST_STALLED)

    def found(tensor: float, dram: float) -> set[str]:
        units = QUIET | {"tensor": tensor, "dram": dram}
        e = Evidence(LAUNCH, units, counters.instructions, source)
        return {c.name for c in find_causes(e)}

    assert "short-ring" in found(0.5, 0.3)
    assert "short-ring" in found(0.0, 0.7)
    assert "short-ring" not in found(0.7, 0.7)


def test_sms_that_end_early_cost_less_at_the_power_limit() -> None:
    early = {"sm__cycles_active.avg": 8.5e5}
    full = causes(changes=early)["uneven-sms"]
    slowed = causes(changes=early | SLOWED)["uneven-sms"]
    assert slowed.most_percent < full.most_percent / 2
    assert full.most_percent == pytest.approx(15 * 2**0.5, abs=0.2)


def test_a_pass_that_took_longer_is_no_uneven_grid() -> None:
    longer = {"sm__cycles_active.avg": 1.0e6, "sm__cycles_active.max": 1.05e6}
    found = causes(changes=longer)["uneven-sms"]
    assert found.figures["idle_percent"] == pytest.approx(100 * 0.05 / 1.05, rel=0.001)


def test_an_instruction_without_samples_holds_no_warp_up() -> None:
    e = Evidence(LAUNCH, QUIET, (), None)
    assert e.held_up(lambda c: c.samples) == 0
    assert replace(e, code=()).stalled_for("barrier") == 0
