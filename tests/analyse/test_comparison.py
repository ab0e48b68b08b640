"""What moved between two measurements: of captures of one H200, each of a process of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.analyse.comparison import (
    compare_sides,
    phase_side,
    profile_side,
    read_metric_table,
)
from kernelrig.analyse.comparison.counter_kind import Good, good_of
from kernelrig.analyse.phases import read_clock_text
from kernelrig.analyse.profile_report import read_report
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import Counted, CounterSide

from tests.command_server import run_command

DATA = Path(__file__).parents[1] / "data"
REPORTS = DATA / "ncu/2025.3.1-reports"
ROOT = Path(__file__).parents[2]
RAW = """\
==PROF== Connected to process 7
"ID","Process ID","Kernel Name","CC","dram__bytes_read.sum","smsp__inst_executed.sum","gpc__x.ratio"
"","","","","{unit}","inst",""
"0","7","gemm(int)","9.0","{bytes}","{executed}","n/a"
"""


@pytest.fixture(scope="module")
def sides(ncu_report: Path) -> dict[str, CounterSide]:
    names = ("slow", "slow-again", "more")
    return {n: profile_side(n, read_report(REPORTS / f"{n}.ncu-rep", ncu_report)) for n in names}


def test_a_report_compared_with_itself_moves_nothing(sides: dict[str, CounterSide]) -> None:
    found = compare_sides(sides["slow"], sides["slow"])
    assert (found.moved, found.lines, found.only_a, found.only_b, found.unlike) == ((),) * 5
    assert found.compared > 200


def test_two_processes_of_one_build_move_nothing(sides: dict[str, CounterSide]) -> None:
    found = compare_sides(sides["slow"], sides["slow-again"])
    assert [m.counter for m in found.moved] == []
    assert found.lines == ()


def test_three_per_cent_more_instructions_are_named_and_nothing_that_is_good(
    sides: dict[str, CounterSide],
) -> None:
    """The program of more.ncu-rep goes once more round a loop of 32 turns."""
    found = compare_sides(sides["slow-again"], sides["more"])
    moved = {m.counter: m for m in found.moved}
    executed = moved["smsp__inst_executed.sum"]
    assert (executed.group, executed.better) == ("instructions", False)
    assert executed.percent == pytest.approx(2.857, abs=0.001)
    conflicts = moved["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]
    assert (conflicts.group, conflicts.better) == ("memory", False)
    assert [m.counter for m in found.moved if m.better] == []
    # the reverse is all for the better
    back = compare_sides(sides["more"], sides["slow-again"])
    assert {m.counter for m in back.moved} == set(moved)
    assert not back.worse


def test_each_counter_is_named_once_by_the_roll_up_that_both_have() -> None:
    def side(*names: str, value: float) -> CounterSide:
        return CounterSide("x", counters={n: Counted(value, "inst") for n in names})

    a = side("smsp__inst_executed.sum", "smsp__inst_executed.avg", value=1e6)
    b = side("smsp__inst_executed.avg", "smsp__inst_executed.max", value=2e6)
    found = compare_sides(a, b)
    assert [m.counter for m in found.moved] == ["smsp__inst_executed.avg"]
    assert found.only_a == ("smsp__inst_executed.sum",)
    assert found.only_b == ("smsp__inst_executed.max",)


OUTLIERS = {
    # of 16 processes of a launch of 5 us, the two that differ most
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("%", 48.3, 41.1),
    "sm__cycles_active.sum": ("cycle", 888720.0, 1044846.0),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 5.2, 6.92),
    "smsp__average_warps_issue_stalled_imc_miss_per_issue_active.ratio": ("inst", 0.16, 0.85),
    "dram__bytes_write.sum": ("byte", 375808.0, 601600.0),
    # of 12 of another one
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": (
        "inst",
        5.093,
        7.366,
    ),
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio": (
        "inst",
        0.478,
        2.081,
    ),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", 448.0, 531.0),
    "smsp__pcsamp_warps_issue_stalled_no_instructions": ("", 8.0, 59.0),
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard": ("", 500.0, 500.0),
    # of a launch of 20 us, whose waits are tried again
    "smsp__inst_executed_op_branch.sum": ("inst", 75564.0, 76069.0),
}


@pytest.mark.parametrize(
    ("cycles", "moved"),
    [
        (10_300.0, set()),
        (
            2e6,
            {
                "l1tex__throughput.avg.pct_of_peak_sustained_active",
                "sm__cycles_active.sum",
                "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
                "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
            },
        ),
    ],
    ids=["short", "long"],
)
def test_a_short_launch_varies_more_than_a_long_one(cycles: float, moved: set[str]) -> None:
    elapsed = {"sm__cycles_elapsed.max": Counted(cycles, "cycle")}
    a, b = (
        CounterSide("x", counters=elapsed | {n: Counted(v[i], v[0]) for n, v in OUTLIERS.items()})  # type: ignore[arg-type]
        for i in (1, 2)
    )
    found = {m.counter for m in compare_sides(a, b).moved}
    assert found >= moved
    assert found <= moved | {"lts__throughput.avg.pct_of_peak_sustained_elapsed"}
    if not moved:
        assert found == set()


LOOKED_UP = {"lts__t_sectors.sum": 3.7e7, "lts__t_sectors_op_read.sum": 2.6e7}
PLACED = {
    # of 15 processes of a launch of 165 us on an H100, those that differ most
    "sm__icc_requests.sum": (165167.0, 163131.0),
    "lts__t_sector_hit_rate.pct": (79.5295, 72.5128),
    "lts__t_sector_op_read_hit_rate.pct": (78.6746, 72.0760),
}


def placed(side: int, values: dict[str, tuple[float, float]], looked_up: float = 1) -> CounterSide:
    """Return a side of such counters, with this part of what is looked up in L2."""
    counts = {n: Counted(v * looked_up, "sector") for n, v in LOOKED_UP.items()}
    own = {n: Counted(v[side], "%" if n.endswith("pct") else "") for n, v in values.items()}
    return CounterSide("x", counters=counts | own)


def test_caches_that_ctas_and_warps_share_vary_with_who_comes_first() -> None:
    assert compare_sides(placed(0, PLACED), placed(1, PLACED)).moved == ()


@pytest.mark.parametrize(
    ("counter", "a", "b"),
    [
        ("sm__icc_requests.sum", 165e3, 195e3),
        ("sm__icc_request_hit_rate.pct", 94.0, 60.0),
        ("gcc__average_cache_request_hit_rate.pct", 95.0, 61.0),
        ("lts__t_sector_hit_rate.pct", 79.0, 67.0),
    ],
)
def test_what_moves_further_than_placement_moves_it_is_named(
    counter: str, a: float, b: float
) -> None:
    values = {counter: (a, b)}
    (moved,) = compare_sides(placed(0, values), placed(1, values)).moved
    assert moved.counter == counter


PARTS = {
    # of 9 processes of a launch of 290 us on an H100, those that differ most
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": (51316.0, 42209.0),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": (25215173.0, 25208066.0),
    "lts__t_sectors_evict_first_lookup_hit.sum": (9481.0, 117.0),
    "dram__sectors_write.sum": (97784.0, 74936.0),
    # and of two boards
    "lts__t_sectors_lookup_hit.sum": (458800.0, 976589.0),
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": (2.954, 2.116),
    "smsp__average_warp_latency_per_inst_issued.ratio": (41.0, 40.0),
    "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": (27830.3, 28610.1),
}


def test_parts_of_what_there_is_much_of_vary_with_the_rest() -> None:
    assert compare_sides(placed(0, PARTS), placed(1, PARTS)).moved == ()
    few = {n: v for n, v in PARTS.items() if "conflicts" in n}
    found = compare_sides(placed(0, few, 1e-4), placed(1, few, 1e-4)).moved
    assert {m.counter for m in found} == set(few), "of little they are much"


@pytest.mark.parametrize(
    ("counter", "b"),
    [
        ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", 900e3),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 24e6),
        ("lts__t_sectors_lookup_hit.sum", 2e6),
        ("dram__sectors_write.sum", 150e3),
    ],
)
def test_parts_that_move_by_much_of_the_whole_are_named(counter: str, b: float) -> None:
    moved = PARTS | {counter: (PARTS[counter][0], b)}
    found = compare_sides(placed(0, moved), placed(1, moved)).moved
    assert [m.counter for m in found] == [counter]


SAMPLED = {
    # of eight processes of a launch of 51 us on an H100, the one whose sampled pass took longer
    "long_scoreboard": (3350.0, 4965.0),
    "not_selected": (680.0, 405.0),
    "math_pipe_throttle": (600.0, 334.0),
    "selected": (485.0, 445.0),
    "wait": (885.0, 805.0),
}


@pytest.mark.parametrize(("cycles", "named"), [((99e3, 101e3), 0), ((99e3, 116e3), 3)])
def test_samples_that_no_cycles_explain_say_nothing_of_the_program(
    cycles: tuple[float, float], named: int
) -> None:
    """Where the launch takes as much longer, the warps wait for what is the program's."""
    a, b = (
        CounterSide(
            "x",
            counters={
                "sm__cycles_elapsed.max": Counted(cycles[i], "cycle"),
                "smsp__pcsamp_interval_cycles": Counted(2048.0, "cycle"),
                **{
                    f"smsp__pcsamp_warps_issue_stalled_{n}": Counted(v[i])
                    for n, v in SAMPLED.items()
                },
            },
        )
        for i in (0, 1)
    )
    assert len(compare_sides(a, b).moved) == named


@pytest.mark.parametrize(
    ("unit", "named"), [("sum", []), ("avg.pct_of_peak_sustained_elapsed", [1])]
)
def test_active_cycles_of_l2_are_a_time_by_another_clock(unit: str, named: list[int]) -> None:
    """Of five processes of a launch of 95 us on an H100, the two that differ most."""
    values = {f"lts__cycles_active.{unit}": (2413380.0, 2025409.0)}
    assert [1 for _ in compare_sides(placed(0, values), placed(1, values)).moved] == named


OF_OTHERS = {
    # of ten processes of a launch on an H100 that hardly uses L2, those that differ most
    "lts__t_sector_op_write_hit_rate.pct": (137.6, 81.8),
    "lts__t_sectors_evict_first_lookup_hit.sum": (1209.0, 14042.0),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": (1.33, 0.09),
    "lts__t_sector_hit_rate.pct": (107.0, 85.1),
    "lts__t_sectors.sum": (104952.0, 122738.0),
    "lts__t_sectors_srcunit_tex_op_write.sum": (1584.0, 1584.0),
}


def moved_of(values: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the counters named of two launches that have these and no others."""
    a, b = (
        CounterSide("x", counters={n: Counted(v[i]) for n, v in values.items()}) for i in (0, 1)
    )
    return [m.counter for m in compare_sides(a, b).moved]


def test_what_l2_does_for_others_is_not_of_the_program() -> None:
    assert moved_of(OF_OTHERS) == []


@pytest.mark.parametrize(
    ("counter", "b"),
    [
        ("lts__t_sectors.sum", 160e3),
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 4.0),
        ("lts__t_sectors_srcunit_tex_op_write.sum", 9000.0),
    ],
)
def test_what_l2_does_beyond_that_is_named(counter: str, b: float) -> None:
    assert moved_of(OF_OTHERS | {counter: (OF_OTHERS[counter][0], b)}) == [counter]


def test_curves_of_other_launches_are_no_counters() -> None:
    curves = {
        "launch__occupancy_per_register_count": (3564.0, 4527.0),
        "derived__pct_occupancy_per_shared_mem_size": (13328.0, 10416.0),
    }
    limit = "launch__occupancy_limit_shared_mem"
    assert moved_of({**curves, limit: (4.0, 7.0)}) == [limit]


@pytest.mark.parametrize(("pipe", "good"), [("alu", Good.NEITHER), ("tensor", Good.MORE)])
def test_less_of_a_pipe_that_computes_addresses_is_not_worse(pipe: str, good: Good) -> None:
    assert good_of(f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_elapsed") is good
    assert good_of(f"sm__inst_executed_pipe_{pipe}.sum") is Good.LESS


def test_a_rate_of_few_look_ups_varies_more() -> None:
    values = {"lts__t_sector_hit_rate.pct": (40.0, 30.0)}
    assert compare_sides(placed(0, values), placed(1, values)).moved
    assert not compare_sides(placed(0, values, 1e-3), placed(1, values, 1e-3)).moved


@pytest.mark.parametrize(
    "unlike",
    [{"conditions": {"GPU": "NVIDIA B200"}}, {"sm_hz": 1.98e9}],
    ids=["gpu", "clock"],
)
def test_other_machines_are_inconclusive_unless_it_is_forced(
    sides: dict[str, CounterSide], unlike: dict[str, object]
) -> None:
    a = replace(sides["slow"], sm_hz=1.5e9)
    b = replace(replace(sides["more"], sm_hz=1.5e9), **unlike)  # type: ignore[arg-type]
    found = compare_sides(a, b)
    assert found.inconclusive
    assert (found.moved, found.lines) == ((), ())
    forced = compare_sides(a, b, force=True)
    assert not forced.inconclusive
    assert forced.unlike == found.unlike
    assert forced.moved


@pytest.mark.parametrize(
    ("unit", "count", "executed"),
    [
        ("byte", "721,749,760", "95,838,386"),
        ("Mbyte", "721.749760", "95838386"),
        ("Gbyte", "0,72174976", "95.838.386"),
    ],
    ids=["base", "scaled", "other-locale"],
)
def test_units_and_locales_are_equalised(unit: str, count: str, executed: str) -> None:
    text = RAW.format(unit=unit, bytes=count, executed=executed)
    side = read_metric_table("raw", text)
    assert side.kernel == "gemm"
    assert side.counters["dram__bytes_read.sum"].value == pytest.approx(721_749_760)
    assert side.counters["dram__bytes_read.sum"].unit == "byte"
    assert side.counters["smsp__inst_executed.sum"].value == 95_838_386
    assert "gpc__x.ratio" not in side.counters


def test_a_page_that_is_cut_short_is_refused() -> None:
    text = RAW.format(unit="byte", bytes="1", executed="2").rstrip()[:-16]
    with pytest.raises(ProtocolError, match="cut short"):
        read_metric_table("raw", text)


def test_a_phase_that_moved_is_named_with_its_cycles() -> None:
    text = (DATA / "phases/h200-580.159.04-sm90a.stdout.txt").read_text()
    a = phase_side("before", read_clock_text(text))
    name, cycles = max(a.phases.items(), key=lambda p: p[1])
    b = replace(a, phases=a.phases | {name: cycles * 0.9})
    (moved,) = compare_sides(a, b).moved
    assert (moved.group, moved.counter, moved.better) == ("phases", name, True)
    assert compare_sides(a, a).moved == ()


def test_sides_with_nothing_in_common_are_refused(sides: dict[str, CounterSide]) -> None:
    with pytest.raises(ConfigError, match="nothing in common"):
        compare_sides(sides["slow"], CounterSide("clocks", phases={"W0: wait": 1.0}))


def test_the_task_gates_on_what_became_worse(ncu_report: Path) -> None:
    def compare(*words: str) -> tuple[int, str]:
        done = run_command("compare", *words)
        return done.exit_code, done.stdout

    slow, more = (str(REPORTS / f"{n}.ncu-rep") for n in ("slow-again", "more"))
    code, said = compare(slow, more, "--json", "--gate")
    answer = json.loads(said)
    assert (code, answer["exit_code"]) == (1, 1)
    named = [m["counter"] for m in answer["compared"]["moved"]]
    assert "smsp__inst_executed.sum" in named
    assert answer["compared"]["time"] == ""
    code, said = compare(more, slow, "--gate")
    assert code == 0
    assert "no bench data" in said
