"""Each rule of each plan fires on numbers that show its cause, and not on those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kernelrig.analyse.profile_rules import judge_rules
from kernelrig.config.ncu_catalogue import CHIPS
from kernelrig.config.profile_plans import load_profile_plans
from kernelrig.model import ProfilePlan, ProfileRule

ROOT = Path(__file__).parents[2]
PLANS = {
    (plan.name, chip): plan
    for chip in CHIPS.values()
    for plan in load_profile_plans(ROOT, (), chip)
}
RULES = [(p.name, chip, r.name) for (_, chip), p in PLANS.items() for r in p.rules_on(chip)]

PCT, SUM, MAX = ".avg.pct_of_peak_sustained_elapsed", ".sum", ".max"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"


def stall(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


QUIET: Mapping[str, float] = {
    # a kernel that has nothing to complain of: a busy tensor pipe, coalesced, few stalls
    "sm__cycles_elapsed.max": 1000,
    "sm__cycles_active.avg": 990,
    "sm__throughput" + PCT: 75,
    "gpu__compute_memory_throughput" + PCT: 70,
    "dram__throughput" + PCT: 45,
    "lts__throughput" + PCT: 50,
    "l1tex__throughput.avg.pct_of_peak_sustained_active": 55,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 19,
    "smsp__issue_active.avg.pct_of_peak_sustained_active": 40,
    "smsp__issue_active.avg.per_cycle_active": 0.4,
    "smsp__warps_eligible.avg.per_cycle_active": 0.7,
    "smsp__warps_active.avg.per_cycle_active": 3,
    LATENCY: 10,
    "smsp__inst_executed.sum": 1e6,
    "smsp__thread_inst_executed.sum": 31e6,
    "smsp__thread_inst_executed_pred_on.sum": 30e6,
    "smsp__inst_executed_op_global_st.sum": 1e4,
    "smsp__inst_executed_op_global_st_pred_off_all.sum": 10,
    "smsp__inst_executed_op_global_ld.sum": 2e4,
    "smsp__inst_executed_op_global_ld_pred_off_all.sum": 10,
    "smsp__inst_executed_op_shared_st.sum": 1e4,
    "smsp__inst_executed_op_local_ld.sum": 0,
    "smsp__inst_executed_op_local_st.sum": 0,
    "sm__sass_inst_executed_op_tma_ld.sum": 1e4,
    "sm__sass_inst_executed_op_tma_st.sum": 0,
    "dram__bytes_read.sum": 7e8,
    "dram__bytes_write.sum": 14e8,
    "lts__t_bytes.sum": 30e8,
    "lts__t_sector_hit_rate.pct": 70,
    "l1tex__t_sector_hit_rate.pct": 90,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 1e6,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 1e3,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 1e3,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0,
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 1e4,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 4e4,
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 1e4,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 4e4,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct": 100,
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": 100,
    "l1tex__m_l1tex2xbar_write_bytes.sum": 14e8,
    "l1tex__m_xbar2l1tex_read_bytes.sum": 14e8,
    "sm__inst_executed_pipe_tmem.sum": 1e4,
    "sm__mem_tensor_reads_op_ldt.sum": 1e4,
    "sm__mem_tensor_writes_op_utcmma.sum": 1e4,
    "sm__sass_inst_executed_op_utcmma.sum": 1e4,
    "sm__mem_tensor_cycles_active.avg.pct_of_peak_sustained_active": 40,
    "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active": 75,
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 75,
    "sm__inst_executed_pipe_tensor.sum": 1e4,
    "sm__inst_executed_pipe_tensor_op_gmma.sum": 1e4,
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum": 0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum": 1e6,
    "l1tex__data_pipe_tc_wavefronts_mem_shared_op_utcmma_matrix_a.sum": 1e6,
    "l1tex__data_pipe_tc_wavefronts_mem_shared_op_utcmma_matrix_b_scope_2cta.sum": 1e6,
}

SHOWN: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("baseline", "dram-bound"): {"dram__throughput" + PCT: 92},
    ("baseline", "l2-bound"): {"lts__throughput" + PCT: 88},
    ("baseline", "l1-bound"): {"l1tex__throughput.avg.pct_of_peak_sustained_active": 84},
    ("baseline", "compute-bound"): {"sm__throughput" + PCT: 93},
    ("baseline", "latency-bound"): {"sm__throughput" + PCT: 33},
    ("baseline", "sms-idle"): {"sm__cycles_active.avg": 700},
    ("stalls", "memory-latency"): {stall("long_scoreboard"): 4},
    ("stalls", "enough-warps"): {
        stall("not_selected"): 3,
        "smsp__issue_active.avg.per_cycle_active": 0.8,
    },
    ("stalls", "shared-latency"): {stall("short_scoreboard"): 3},
    ("stalls", "fixed-latency"): {
        stall("wait"): 5,
        "smsp__issue_active.avg.per_cycle_active": 0.5,
    },
    ("stalls", "mio-queue"): {stall("mio_throttle"): 2},
    ("stalls", "lsu-queue"): {stall("lg_throttle"): 2},
    ("stalls", "math-pipe"): {stall("math_pipe_throttle"): 3},
    ("stalls", "instruction-cache"): {stall("no_instruction"): 2},
    ("stalls", "branches"): {stall("branch_resolving"): 2},
    ("stalls", "drain"): {stall("drain"): 2},
    ("stalls", "asleep"): {stall("sleeping"): 3},
    ("stalls", "waits-for-wgmma"): {stall("gmma"): 4},
    ("predication", "divergence"): {"smsp__thread_inst_executed.sum": 20e6},
    ("predication", "predicated-off"): {"smsp__thread_inst_executed_pred_on.sum": 25e6},
    ("predication", "empty-stores"): {"smsp__inst_executed_op_global_st_pred_off_all.sum": 5e3},
    ("predication", "empty-loads"): {"smsp__inst_executed_op_global_ld_pred_off_all.sum": 5e3},
    ("memory", "bank-conflicts"): {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 5e5},
    ("memory", "spills"): {"smsp__inst_executed_op_local_ld.sum": 1e4},
    ("memory", "l2-misses"): {"dram__throughput" + PCT: 70, "lts__t_sector_hit_rate.pct": 20},
    ("memory", "l2-amplifies"): {"lts__throughput" + PCT: 70, "lts__t_bytes.sum": 9e9},
    ("barriers", "cta-barrier"): {stall("barrier"): 2},
    ("barriers", "membar"): {stall("membar"): 1},
    ("stores", "uncoalesced-stores"): {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct": 12.5
    },
    ("stores", "store-queue"): {stall("lg_throttle"): 1, stall("drain"): 1},
    ("stores", "staging-queue"): {stall("mio_throttle"): 2},
    ("tmem", "tmem-latency"): {stall("long_scoreboard"): 4},
    ("tmem", "tmem-busy"): {"sm__mem_tensor_cycles_active.avg.pct_of_peak_sustained_active": 85},
    ("tmem", "mma-idle"): {"sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active": 33},
    ("global-loads", "uncoalesced-loads"): {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": 25
    },
    ("global-loads", "load-queue"): {stall("lg_throttle"): 2},
    ("global-loads", "loads-wait"): {
        stall("long_scoreboard"): 4,
        "l1tex__t_sector_hit_rate.pct": 3,
    },
    ("tensor", "wgmma-bound"): {
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 95
    },
    ("tensor", "wgmma-starved"): {
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 30
    },
    ("tensor", "wgmma-bank-conflicts"): {
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum": 5e5
    },
    ("tensor", "utcmma-bound"): {"sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active": 95},
    ("tensor", "utcmma-starved"): {
        "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active": 33
    },
    ("source", "one-warp-a-scheduler"): {"smsp__warps_active.avg.per_cycle_active": 1.1},
}


def quiet(plan: ProfilePlan, chip: str) -> dict[str, float]:
    """Return the quiet kernel's numbers of what the plan measures on the chip, and no others."""
    found = {m: QUIET.get(m, 0.2) for m in plan.metrics_on(chip)}
    unknown = [m for m in found if m not in QUIET and "issue_stalled" not in m]
    assert unknown == [], "the quiet kernel has no such number"
    return found


def fired(plan: ProfilePlan, chip: str, changed: Mapping[str, float]) -> list[str]:
    results = judge_rules(plan, chip, {**quiet(plan, chip), **changed})
    assert [r.why_not for r in results if r.fired is None] == []
    return [r.rule.name for r in results if r.fired]


@pytest.mark.parametrize(("plan", "chip"), PLANS)
def test_no_rule_fires_on_a_kernel_with_nothing_to_complain_of(plan: str, chip: str) -> None:
    assert fired(PLANS[plan, chip], chip, {}) == []


@pytest.mark.parametrize(("plan", "chip", "rule"), RULES)
def test_a_rule_fires_on_what_shows_its_cause(plan: str, chip: str, rule: str) -> None:
    changed = SHOWN[plan, rule]
    assert set(changed) <= set(PLANS[plan, chip].metrics_on(chip)), "the plan measures them"
    assert rule in fired(PLANS[plan, chip], chip, changed)


def test_every_rule_has_numbers_that_show_its_cause_and_no_others_are_left() -> None:
    assert set(SHOWN) == {(plan, rule) for plan, _, rule in RULES}


def test_a_result_holds_the_numbers_that_were_compared() -> None:
    plan = PLANS["stores", "gh100"]
    pct = "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"
    first, *_ = judge_rules(plan, "gh100", quiet(plan, "gh100") | {pct: 12.5})
    assert (first.fired, first.numbers) == (True, {"requests": 1e4, "used": 12.5})


def test_a_rule_without_its_numbers_says_so_and_has_not_fired() -> None:
    plan = PLANS["stores", "gh100"]
    numbers = quiet(plan, "gh100")
    del numbers["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"]
    first, *_ = judge_rules(plan, "gh100", numbers)
    assert first.fired is None
    rule = "requests > 0 and used < 60"
    assert first.why_not == f"there is no number for 'used', which '{rule}' needs"


def test_a_ratio_that_a_kernel_without_stores_has_not_is_not_needed() -> None:
    plan = PLANS["stores", "gh100"]
    none = ("smsp__inst_executed_op_global_st", "l1tex__t_requests_pipe_lsu_mem_global_op_st")
    numbers = quiet(plan, "gh100") | {f"{name}.sum": 0 for name in none}
    del numbers["smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct"]
    assert [r.fired for r in judge_rules(plan, "gh100", numbers)] == [False, False, False]


@pytest.mark.parametrize(("plan", "op"), [("stores", "st"), ("global-loads", "ld")])
def test_accesses_that_are_off_in_all_lanes_use_no_sectors_badly(plan: str, op: str) -> None:
    # as ncu counts them on an H100 in a GEMM of cuBLASLt: executed, no request, 0% of sectors
    off = {
        f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum": 0,
        f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct": 0,
    }
    assert fired(PLANS[plan, "gh100"], "gh100", off) == []


def test_a_rule_of_another_chip_is_not_judged() -> None:
    rule = ProfileRule("x", "1 > 0", "a", "b", chips=("gb100",))
    plan = ProfilePlan("p", "q", "h", rules=(rule,))
    assert judge_rules(plan, "gh100", {}) == ()
    assert [r.fired for r in judge_rules(plan, "gb100", {})] == [True]
