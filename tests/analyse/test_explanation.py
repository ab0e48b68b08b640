"""What a profile means: causes and their estimates, on reports of an H200 and numbers made here."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.analyse.explain import explain_launch, join_launches
from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.estimated_cost import estimated, interval
from kernelrig.analyse.explain.launch_evidence import MOST_STALLED, Evidence
from kernelrig.analyse.profile_report import read_report
from kernelrig.analyse.source import analyse_source, read_counter_page
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    CountedInstruction,
    Explanation,
    Metric,
    PowerUse,
    ProfiledLaunch,
    SharedPiece,
    SourceCounters,
)
from kernelrig.proc import run_process
from kernelrig.report import render_explain_file, render_explanation

from tests.analyse.evidence import LAUNCH, QUIET, WORK, code, names
from tests.analyse.listings import PIPELINE, Row, page, row

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "tests/data/ncu/2025.3.1-reports"
PLANTED = "KERNELRIG_PLANTED_REPORTS"
MOST_CHARACTERS = 6000
"""Of an answer as JSON: less than 2,000 tokens, which have three characters each."""

SECTORS = "L2 Theoretical Sectors Global"


def test_a_launch_with_nothing_to_gain_has_no_cause() -> None:
    assert names(("STG.E [R2], R4", 1000, 32, {"lg": 5})) == []


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("fences", ("ERRBAR", 1000, 32, {"membar": 200})),
        ("lanes-off", ("@P0 STG.E [R2], R4", 1000, 4, {"lg": 200})),
        ("atomics", ("RED.E.ADD.STRONG.GPU [R2], R4", 1000, 32, {"lg": 200})),
    ],
)
def test_a_cause_of_instructions_is_named_where_they_cost(
    cause: str, line: tuple[str, int, int, dict[str, int]]
) -> None:
    assert names(line)[0] == cause
    sass, executed, _, _ = line
    assert cause not in names((sass, executed, 32, {"selected": 1}))


def test_lanes_that_wait_for_others_of_their_warp_are_divergence() -> None:
    def causes(lanes: int) -> list[str]:
        own = replace(code(WORK)[0], threads=lanes * 1000, predicated_on=lanes * 1000)
        return [c.name for c in find_causes(Evidence(LAUNCH, QUIET, (own,), None))]

    assert causes(8) == ["divergence"]
    assert causes(30) == []
    assert causes(1) == [], "one lane is elected"


def test_stalls_at_a_barrier_lie_on_the_instruction_behind_it() -> None:
    latency = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"
    lines: tuple[tuple[str, int, int, dict[str, int]], ...] = (
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 1000, 32, {}),
        ("LDS R9, [R5]", 1000, 32, {"barrier": 300}),
    )
    short = {latency: 1.0, "smsp__inst_executed.sum": 1e5}
    assert names(*lines, changes=short) == ["many-barriers"]
    assert names(*lines, changes=short | {latency: 100.0}) == ["serial-section"]
    assert names(*lines, units={"dram": 0.92}, changes=short) == []
    full = Evidence(LAUNCH | short, QUIET | {"l2": 0.92}, code(WORK, *lines), None)
    assert find_causes(full) == (), "they would wait for L2"
    assert names(*lines, units={"issue": 0.95}, changes=short) == [], "others issue meanwhile"


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


def of_code(rows: tuple[Row, ...]) -> dict[str, tuple[str, ...]]:
    """Return the causes of a launch of this code, with the places that they name."""
    counters = read_counter_page(page(rows))
    source = analyse_source(counters, top=MOST_STALLED)
    evidence = Evidence(LAUNCH, QUIET, counters.instructions, source)
    return {c.name: c.at for c in find_causes(evidence)}


def without(rows: tuple[Row, ...], *texts: str) -> tuple[Row, ...]:
    """Return the rows without the samples of those that have one of these texts."""
    return tuple((t, n, {} if any(x in t for x in texts) else s) for t, n, s in rows)


def test_waits_for_the_data_of_copies_are_a_ring_that_is_short() -> None:
    causes = of_code(PIPELINE)
    assert next(iter(causes)) == "short-ring"
    assert causes["short-ring"] == ("0x0150",), "the MMA warp's wait, not that of what loads"
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


def test_every_cause_is_documented_and_no_other() -> None:
    named: set[str] = set()
    for file in (ROOT / "ci/kernelrig/analyse/explain").glob("*_causes.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            called = (
                node.func.id
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                else ""
            )
            if called in ("estimated", "_partly_used"):
                assert isinstance(node, ast.Call)
                words = ast.walk(node.args[called == "_partly_used"])
                named |= {
                    w.value
                    for w in words
                    if isinstance(w, ast.Constant) and isinstance(w.value, str)
                }
    _, _, rest = (ROOT / "ci/docs/profiles.md").read_text().partition("| cause |")
    assert named == set(re.findall(r"`([a-z0-9-]+)`", rest.partition("\n\n")[0]))


SPILLED = (
    row("      LDC R1, c[0x0][0x28]", 8),
    row("      STL [R1], R4", 8),
    row("      LDL R5, [R1]", 800),
    row("      FFMA R6, R5, R7, R6", 800, long_sb=90),
    row("      ISETP.NE.AND P0, PT, R10, 0x4, PT", 800),
    row("@P0   BRA @2", 800, selected=50),
    row("      STG.E desc[UR4][R12.64], R6", 8),
    row("      EXIT", 8),
)


def test_loads_of_local_memory_and_what_waits_for_them_are_spills() -> None:
    assert list(of_code(SPILLED)) == ["local-memory"]
    kept = (r for r in SPILLED if "STL" not in r[0])
    loads = tuple((t.replace("LDL R5,", "LDS R5,"), n, s) for t, n, s in kept)
    assert "local-memory" not in of_code(loads)


DIVIDED = (
    row("      LDG.E R4, desc[UR4][R12.64]", 100),
    row("      I2F.U32.RP R0, UR6", 800, wait=20),
    row("      MUFU.RCP R0, R0", 800, wait=20),
    row("      VIADD R2, R0, 0xffffffe", 800, wait=20),
    row("      F2I.FTZ.U32.TRUNC.NTZ R3, R2", 800, wait=20),
    row("      IMAD R5, R5, UR6, RZ", 800, wait=20, selected=40),
    row("      STG.E desc[UR4][R12.64], R5", 100),
    row("      EXIT", 8),
)


def test_divisions_by_what_the_compiler_does_not_know_are_named() -> None:
    assert next(iter(of_code(DIVIDED))) == "divisions"
    converted = tuple((t.replace("MUFU.RCP", "FMUL"), n, s) for t, n, s in DIVIDED)
    assert "divisions" not in of_code(converted)


DOUBLED = (
    row("      LDG.E R4, desc[UR4][R12.64]", 800),
    row("      F2F.F64.F32 R6, R4", 800, wait=30),
    row("      DFMA R6, R6, R6, R8", 800, wait=20),
    row("      F2F.F32.F64 R5, R6", 800, wait=30),
    row("      STG.E desc[UR4][R14.64], R5", 800, selected=40),
    row("      EXIT", 8),
)


def test_values_that_are_doubles_on_the_way_alone_are_named() -> None:
    assert next(iter(of_code(DOUBLED))) == "double-precision"
    meant = tuple((t.replace("F2F.F32.F64 R5, R6", "DADD R4, R6, R8"), n, s) for t, n, s in DOUBLED)
    assert "double-precision" not in of_code(meant), "the results are of 64 bits"


LOOKED_UP = (
    row("      LDG.E R4, desc[UR4][R12.64]", 800),
    row("      LDC R6, c[0x3][R4]", 800, wait=60),
    row("      STG.E desc[UR4][R14.64], R6", 800, selected=40),
    row("      EXIT", 8),
)


def test_constants_that_lanes_look_up_are_named() -> None:
    assert next(iter(of_code(LOOKED_UP))) == "constant-look-ups"
    same = tuple((t.replace("c[0x3][R4]", "c[0x3][0x40]"), n, s) for t, n, s in LOOKED_UP)
    assert "constant-look-ups" not in of_code(same)


POLLED = (
    row("      MOV R10, RZ", 8),
    row("      LDS R8, [UR4+0x400]", 4000, wait=90),
    row("      ISETP.NE.AND P0, PT, R8, R5, PT", 4000, wait=90),
    row("@P0   BRA @1", 4000, wait=20),
    row("      FFMA R6, R5, R7, R6", 800, selected=40),
    row("      STG.E desc[UR4][R14.64], R6", 800),
    row("      EXIT", 8),
)


def test_a_lock_that_warps_try_for_is_a_busy_wait() -> None:
    tried = "ATOMG.E.CAS.STRONG.GPU PT, R8, [R4], R6, R7"
    lock = tuple((t.replace("LDS R8, [UR4+0x400]", tried), n, s) for t, n, s in POLLED)
    assert next(iter(of_code(lock))) == "busy-waits"
    largest = row("      FMNMX R6, R8, R5, !PT", 4000, wait=10)
    assert "busy-waits" not in of_code((*lock[:2], largest, *lock[2:])), "an atomic maximum"
    counted = tuple((t.replace(".CAS", ".ADD"), n, s) for t, n, s in lock)
    assert "busy-waits" not in of_code(counted)


def test_loops_that_only_look_at_one_place_are_busy_waits() -> None:
    assert next(iter(of_code(POLLED))) == "busy-waits"
    next_word = tuple(
        (t.replace("[UR4+0x400]", "[R10]").replace("ISETP.NE.AND P0", "VIADD R10"), n, s)
        for t, n, s in POLLED
    )
    assert "busy-waits" not in of_code(next_word), "each turn loads another word"


SUMMED = (
    row("      MOV R10, RZ", 8),
    row("      LDG.E R8, desc[UR4][R12.64]", 800),
    row("      FADD R6, R6, R8", 800, long_sb=90),
    row("      STG.E desc[UR4][R14.64], R6", 800),
    row("      IADD3 R12, R12, 0x4, RZ", 800),
    row("      ISETP.NE.AND P0, PT, R12, R9, PT", 800, selected=40),
    row("@P0   BRA @1", 800),
    row("      EXIT", 8),
)


def test_a_sum_that_is_stored_each_time_is_named() -> None:
    assert "sums-in-memory" in of_code(SUMMED)
    other = tuple((t.replace("IADD3 R12, R12", "IADD3 R14, R14"), n, s) for t, n, s in SUMMED)
    assert "sums-in-memory" not in of_code(other), "each turn stores another word"


def loading(loads: int, width: str = "") -> tuple[Row, ...]:
    """Return a loop that loads so often before it waits."""
    sums = tuple(
        row(f"      FADD R6, R6, R{20 + 4 * i}", 800, long_sb=90 // loads) for i in range(loads)
    )
    return (
        *(
            row(f"      LDG.E{width} R{20 + 4 * i}, desc[UR4][R12.64+{16 * i:#x}]", 800)
            for i in range(loads)
        ),
        *sums,
        row("      IADD3 R12, R12, 0x40, RZ", 800, selected=40),
        row("      ISETP.NE.AND P0, PT, R12, R9, PT", 800),
        row("@P0   BRA @0", 800),
        row("      EXIT", 8),
    )


def test_loads_that_are_waited_for_one_by_one_are_too_few() -> None:
    assert list(of_code(loading(1))) == ["few-loads"]
    assert "few-loads" not in of_code(loading(4, ".128"))
    counters = read_counter_page(page(loading(1)))
    source = analyse_source(counters, top=MOST_STALLED)
    full = Evidence(LAUNCH, QUIET | {"dram": 0.8}, counters.instructions, source)
    assert "few-loads" not in {c.name for c in find_causes(full)}


def test_words_that_l1_holds_and_that_are_loaded_again_are_named() -> None:
    counters = read_counter_page(page(loading(2)))
    source = analyse_source(counters, top=MOST_STALLED)

    def found(hits: float, l1: float) -> set[str]:
        values = LAUNCH | {"l1tex__t_sector_hit_rate.pct": hits}
        units = QUIET | {"l1": l1}
        evidence = Evidence(values, units, counters.instructions, source)
        return {c.name for c in find_causes(evidence)}

    assert "loaded-again" in found(95.0, 0.9)
    assert "loaded-again" not in found(50.0, 0.9)
    assert "loaded-again" not in found(95.0, 0.4)


def test_sectors_that_dram_moves_once_are_no_gain() -> None:
    """Sixteen words are loaded by as many instructions: caches keep the rest of each sector."""
    moved = {SECTORS: 32000.0, f"{SECTORS} Ideal": 8000.0}
    line = CountedInstruction(
        0, "LDG.E R4, desc[UR4][R2.64]", 99, 0, 1000, 32000, 32000, {"long_sb": 99}, moved
    )
    code = (line, CountedInstruction(16, "EXIT", 0, 0, 32, 1024, 1024))
    source = analyse_source(SourceCounters("k", code), top=MOST_STALLED)

    def most(dram_bytes: float) -> float:
        values = LAUNCH | {"dram__bytes_read.sum": dram_bytes}
        evidence = Evidence(values, QUIET | {"dram": 0.85, "l2": 0.85}, code, source)
        return sum(c.most_percent for c in find_causes(evidence) if c.name == "uncoalesced")

    assert most(32 * 8000.0) < 8
    assert most(32 * 32000.0) > 30


STRIDED = (
    CountedInstruction(0, "LDG.E R4, desc[UR4][R2.64]", 5, 0, 1000, 32000, 32000),
    CountedInstruction(16, "IMAD.WIDE R6, R4, 0x4, R10", 99, 0, 1000, 32000, 32000),
    CountedInstruction(32, "LDG.E R8, desc[UR4][R6.64]", 5, 0, 1000, 32000, 32000),
    CountedInstruction(48, "EXIT", 0, 0, 32, 1024, 1024),
)


@pytest.mark.parametrize(
    ("cause", "address", "moved"),
    [("uncoalesced", 0, 32000), ("scattered", 32, 32000), ("", 32, 4000)],
)
def test_sectors_of_look_ups_by_what_was_loaded_have_a_name_of_their_own(
    cause: str, address: int, moved: float
) -> None:
    counters = {SECTORS: moved, f"{SECTORS} Ideal": 4000.0}
    lines = tuple(
        replace(c, counters=counters, stalls={"long_sb": c.samples})
        if c.address == address
        else replace(c, stalls={"long_sb": c.samples})
        for c in STRIDED
    )
    source = analyse_source(SourceCounters("k", lines), top=MOST_STALLED)
    evidence = Evidence(LAUNCH, QUIET | {"dram": 0.85, "l2": 0.85}, lines, source)
    found = [c.name for c in find_causes(evidence)]
    assert (found[:1] or [""]) == [cause]


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
    causes = of_code(STANDING)
    assert next(iter(causes)) == "idle-warps"
    assert causes["idle-warps"] == ("warps W1 on",)
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


@pytest.mark.parametrize("estimate", [0.01, 0.2, 0.414, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("most", [1.0, 0.6, 0.1])
def test_no_interval_is_wider_than_a_factor_of_two(estimate: float, most: float) -> None:
    low, high = interval(estimate, most)
    assert 0 < low <= high <= most
    assert high / low <= 2.001
    assert (1 - low) / (1 - high) <= 2.001, "in times as fast"
    if most == 1.0:
        assert low < estimate < high


def test_a_launch_of_which_all_may_be_saved_has_a_finite_speedup() -> None:
    (cause,) = estimated("idle-sms", "one CTA", "launch more", estimate=1.0, most=1.0)
    assert (cause.least_percent, cause.most_percent) == (99.9, 99.9)
    none = dict[str, float]()
    x = Explanation(
        "k", "H200", "latency", none, none, 0.0, 0.0, None, none, none, none, none, None, None,
        (cause,), (cause.name,), (),
    )  # fmt: skip
    assert "to 99.9% of the time" in render_explanation(x)


def explained(report: str, library: Path) -> Explanation:
    (launch,) = read_report(REPORTS / f"{report}.ncu-rep", library)
    return explain_launch(launch)


def test_bank_conflicts_of_a_transpose_come_first_with_their_line(ncu_report: Path) -> None:
    x = explained("slow", ncu_report)
    assert x.suggestions[0] == x.causes[0].name == "bank-conflicts"
    assert "uncoalesced" in {c.name for c in x.causes}
    assert x.bound.startswith("l1")
    assert x.causes[0].figures["conflict_percent"] > 90
    source = (REPORTS / "two_kernels.cu").read_text().splitlines()
    name, _, line = x.causes[0].at[0].partition(":")
    assert name == "two_kernels.cu"
    assert "[" in source[int(line) - 1]
    assert x.shared is not None
    assert [(p.name, p.size_bytes) for p in x.shared.pieces] == [("driver", 1024), ("static", 4096)]


def test_a_copy_gets_no_advice(ncu_report: Path) -> None:
    x = explained("good", ncu_report)
    assert x.suggestions == ()
    assert "nothing to gain" in render_explanation(x)


def test_no_time_under_ncu_is_shown(ncu_report: Path) -> None:
    text = render_explanation(explained("slow", ncu_report))
    assert " ms" not in text
    assert "estimated" in text


def test_power_is_of_nvml_and_names_joules(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    power = PowerUse("r1", 0.9, 698.0, 700.0, 0.6282, 1320.0)
    x = explain_launch(launch, power=power, pieces=[SharedPiece("a|b\x1b[0m", 0, 64)])
    assert x.bound.startswith("power, with l1 busy")
    assert "0.628 J a launch at 698 of 700 W" in render_explanation(x)
    shown = render_explain_file(x)
    assert "0.628 J" in shown
    assert "\x1b" not in shown + render_explanation(x)


def test_a_low_clock_is_no_power_limit_where_nvml_saw_none(ncu_report: Path) -> None:
    (launch,) = read_report(REPORTS / "slow.ncu-rep", ncu_report)
    rate = "gpc__cycles_elapsed.avg.per_second"
    cold = replace(launch, metrics=launch.metrics | {rate: Metric(rate, 1.5e9)})
    x = explain_launch(cold)
    assert x.bound == (
        "l1, busy 97% of the cycles; the SM clock is 76% of its highest: power may limit it"
    )
    assert "power" in {c.name for c in x.causes}
    cool = PowerUse("r1", 0.9, 350.0, 700.0, 0.3, 1980.0)
    x = explain_launch(cold, power=cool)
    assert x.bound == "l1, busy 97% of the cycles"
    assert "power" not in {c.name for c in x.causes}
    hot = PowerUse("r1", 0.9, 699.0, 700.0, 0.6, 1400.0)
    (cause,) = (c for c in explain_launch(launch, power=hot).causes if c.name == "power")
    assert cause.figures["sm_mhz"] == 1400


def test_parts_of_a_launch_are_joined_and_two_kernels_are_not() -> None:
    one = ProfiledLaunch("k", "k()", {"a": Metric("a", 1.0)})
    two = replace(one, metrics={"b": Metric("b", 2.0)})
    assert join_launches([one, two]).values() == {"a": 1.0, "b": 2.0}
    with pytest.raises(ProtocolError, match="2 kernels were profiled: k, other"):
        join_launches([one, replace(two, kernel="other")])
    with pytest.raises(ProtocolError, match="no throughput of a unit"):
        explain_launch(one)


def test_explain_of_a_report_is_short_as_json(tmp_path: Path, ncu_report: Path) -> None:
    del ncu_report
    page = tmp_path / "explain.md"
    words = ["explain", str(REPORTS / "slow.ncu-rep"), "--json", "--markdown", str(page)]
    done = run_process([sys.executable, "-m", "kernelrig", *words], cwd=ROOT)
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout) < MOST_CHARACTERS
    found = json.loads(done.stdout)["explanation"]
    assert found["suggestions"][0] == "bank-conflicts"
    assert page.read_text().startswith("# slow_transpose")


CAUSES = {
    "bank-conflicts": "bank-conflicts",
    "uncoalesced-table": "uncoalesced",
    "ring-of-two": "short-ring",
    "serialising-barrier": "serial-section",
    "predicated-stores": "lanes-off",
    "low-occupancy": "low-occupancy",
    "spills": "local-memory",
    "idle-warpgroup": "idle-warps",
    "l2-thrashing": "reads-again",
    "power": "power",
    "needless-fences": "fences",
    "extra-syncthreads": "many-barriers",
}
"""What explain calls the causes of tests/slow."""


@pytest.mark.long
def test_planted_causes_are_explained_by_reports_of_an_h200(ncu_report: Path) -> None:
    folder = os.environ.get(PLANTED)
    if not folder:
        pytest.skip(f"{PLANTED} does not name the folder of the planted reports")
    planted = json.loads((ROOT / "tests/slow/causes.json").read_text())["slow"]
    found = {
        path.stem: explain_launch(read_report(path, ncu_report)[0])
        for path in sorted(Path(folder).glob("??.ncu-rep"))
    }
    assert set(planted) < set(found)
    first = [
        found[n].causes[0] for n in planted if CAUSES[planted[n]["name"]] == found[n].causes[0].name
    ]
    assert len(first) >= 10
    saved = {n: 100 * (1 - 1 / row["gain"]) for n, row in planted.items()}
    own = {n: found[n].causes[0] for n in planted}
    assert sum(c.least_percent <= saved[n] <= c.most_percent for n, c in own.items()) >= 9
    assert not any(x.suggestions for n, x in found.items() if n not in planted)
