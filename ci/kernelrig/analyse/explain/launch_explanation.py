"""The explanation of a profiled launch, from its numbers, its code and what is known besides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelrig.analyse.explain.access_causes import SECTORS, WAVEFRONTS
from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.launch_evidence import LANES, Evidence, gather
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    CostCause,
    Explanation,
    FiredRule,
    Occupancy,
    PowerUse,
    ProfiledLaunch,
    RuleResult,
    SharedMap,
    SharedPiece,
)

MOST_SUGGESTIONS, MOST_CAUSES, MOST_STALLS, MOST_RULES = 3, 6, 8, 8
BUSY = 0.6
"""Of a unit's peak: below it none bounds the launch."""
DEVICE = "device__attribute_display_name"
WORTH = 0.08
"""Of the launch's time: what a cause must explain at the most to be worth trying."""
_LIMIT = "launch__occupancy_limit_"
_STALL = "smsp__average_warps_issue_stalled_"
_PER_ISSUE = "_per_issue_active.ratio"
_NO_ADVICE = frozenset({"power"})
"""Causes that are said, and are no advice: what data there are is not the kernel's to choose."""


def join_launches(launches: Sequence[ProfiledLaunch]) -> ProfiledLaunch:
    """Return one launch with the metrics of all: runs of a program measure different ones of it.

    ProtocolError where they are of several kernels.
    """
    names = dict.fromkeys(launch.kernel for launch in launches)
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise ProtocolError(f"{len(names)} kernels were profiled: {listed}", "--kernel names one")
    held = max(launches, key=lambda launch: len(launch.instructions))
    joined = {n: m for launch in reversed(launches) for n, m in launch.metrics.items()}
    return replace(held, metrics=joined | held.metrics)


def explain_launch(
    launch: ProfiledLaunch,
    rules: Sequence[RuleResult] = (),
    *,
    roofline: Mapping[str, float] | None = None,
    pieces: Sequence[SharedPiece] = (),
    power: PowerUse | None = None,
    notes: Sequence[str] = (),
) -> Explanation:
    """Return what the launch is bound by, what costs it time, and what is worth trying.

    `roofline` are the shares of its cycles that its shape needs at least, in percent by unit.
    """
    e = replace(gather(launch), power=power)
    if not e.units:
        raise ProtocolError(
            f"the profile of {launch.kernel} has no throughput of a unit",
            "profile with --plans baseline, or --section SpeedOfLight",
        )
    causes = find_causes(e)
    now, most = replace(e, power=None).clocks
    said = list(notes)
    if e.source is None:
        said.append("no counters by instruction: causes in the code are not looked for")
    device = launch.metrics[DEVICE].text if DEVICE in launch.metrics else ""
    return Explanation(
        kernel=launch.kernel,
        device=device,
        bound=_bound(e, causes),
        units={unit: _percent(use) for unit, use in sorted(e.units.items(), key=lambda u: -u[1])},
        roofline={unit: round(percent, 1) for unit, percent in (roofline or {}).items()},
        sm_mhz=round(now),
        most_sm_mhz=round(most),
        occupancy=_occupancy(e),
        stalls=_stalls(e),
        lanes=_lanes(e),
        memory=_memory(e),
        tensor=_tensor(e),
        shared=_shared(e, pieces),
        power=power,
        causes=causes[:MOST_CAUSES],
        suggestions=_suggestions(causes),
        rules=tuple(
            FiredRule(r.plan, r.rule.name, {n: _short(v) for n, v in r.numbers.items()})
            for r in rules
            if r.fired
        )[:MOST_RULES],
        notes=tuple(said),
    )


def _suggestions(causes: Sequence[CostCause]) -> tuple[str, ...]:
    """Return the names of what is worth trying."""
    kept = (c for c in causes if c.most_percent >= 100 * WORTH and c.name not in _NO_ADVICE)
    return tuple(c.name for c in kept)[:MOST_SUGGESTIONS]


def _bound(e: Evidence, causes: Sequence[CostCause]) -> str:
    """Say the busiest unit; power where NVML saw it at the limit, else what the clock shows."""
    unit = max(e.units, key=e.units.__getitem__)
    use = f"{_percent(e.units[unit]):.0f}% of the cycles"
    if e.power and e.power.is_limit:
        return f"power, with {unit} busy {use}"
    busy = f"{unit}, busy {use}"
    if e.units[unit] < BUSY:
        busy = f"latency: the busiest unit is {unit} with {use}"
    if not any(c.name == "power" for c in causes):
        return busy
    now, most = e.clocks
    return f"{busy}; the SM clock is {_percent(now / most):.0f}% of its highest: power may limit it"


def _occupancy(e: Evidence) -> Occupancy | None:
    limits = {n.removeprefix(_LIMIT): int(v) for n, v in e.values.items() if n.startswith(_LIMIT)}
    active = e.value("sm__warps_active.avg.per_cycle_active")
    block = e.value("launch__block_size")
    if not limits or not block:
        return None
    ctas = min(limits.values())
    return Occupancy(
        active_warps=round(active, 1),
        possible_warps=ctas * math.ceil(block / LANES),
        most_warps=int(e.value("device__attribute_max_warps_per_multiprocessor")),
        ctas=ctas,
        waves=round(e.value("launch__waves_per_multiprocessor"), 2),
        limits=limits,
    )


def _stalls(e: Evidence) -> dict[str, float]:
    """Return the shares of a warp's time by what it waits for, in percent, most first."""
    latency = e.value("smsp__average_warp_latency_per_inst_issued.ratio")
    if not latency:
        return {}
    found = {
        n.removeprefix(_STALL).removesuffix(_PER_ISSUE): _percent(v / latency)
        for n, v in e.values.items()
        if n.startswith(_STALL) and n.endswith(_PER_ISSUE)
    }
    ranked = sorted(found.items(), key=lambda pair: -pair[1])[:MOST_STALLS]
    return {name: percent for name, percent in ranked if percent >= 0.5}


def _lanes(e: Evidence) -> dict[str, float]:
    measured = {
        "active": e.value("smsp__thread_inst_executed_per_inst_executed.ratio"),
        "predicated_on": e.value("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"),
    }
    return {name: round(lanes, 1) for name, lanes in measured.items() if lanes}


def _memory(e: Evidence) -> dict[str, float]:
    """Return bytes of DRAM, hit rates, work of accesses that need not be: what was measured."""
    names = {
        "dram_read_bytes": "dram__bytes_read.sum",
        "dram_write_bytes": "dram__bytes_write.sum",
        "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
        "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    }
    found = {name: e.values[metric] for name, metric in names.items() if metric in e.values}
    if e.source:
        for name, unit in (("excess_sectors", SECTORS), ("bank_conflict_waves", WAVEFRONTS)):
            held = (x for x in e.source.excess if x.unit == unit)
            found[name] = float(sum(x.moved - x.needed for x in held))
    return {name: _short(value) for name, value in found.items()}


def _tensor(e: Evidence) -> dict[str, float]:
    found = {o.opcode: float(o.executed) for o in e.source.tensor} if e.source else {}
    names = {
        "tmem_loads": "sm__mem_tensor_reads_op_ldt.sum",
        "tma_loads": "sm__sass_inst_executed_op_tma_ld.sum",
        "tma_stores": "sm__sass_inst_executed_op_tma_st.sum",
    }
    found |= {name: value for name, metric in names.items() if (value := e.value(metric))}
    return {name: _short(value) for name, value in found.items()}


def _shared(e: Evidence, pieces: Sequence[SharedPiece]) -> SharedMap | None:
    """Return what a CTA uses; what is the driver's and what is static lie before the dynamic."""
    used = int(e.value("launch__shared_mem_per_block_allocated"))
    most = int(e.value("device__attribute_max_shared_memory_per_multiprocessor"))
    ctas = max(1, min((int(v) for n, v in e.values.items() if n.startswith(_LIMIT)), default=1))
    if not most:
        return None
    driver = int(e.value("launch__shared_mem_per_block_driver"))
    static = int(e.value("launch__shared_mem_per_block_static"))
    dynamic = int(e.value("launch__shared_mem_per_block_dynamic"))
    before = [("driver", -driver - static, driver), ("static", -static, static)]
    rest = [("dynamic", 0, dynamic)] if not pieces else []
    named = [SharedPiece(name, at, size) for name, at, size in (*before, *rest) if size]
    return SharedMap(used, max(0, most // ctas - used), (*named, *pieces))


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
