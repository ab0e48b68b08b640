"""Evidence of launches that are made up: an H200's figures with nothing to gain, and changes."""

from __future__ import annotations

from collections.abc import Mapping

from kernelrig.analyse.explain.cost_causes import find_causes
from kernelrig.analyse.explain.launch_evidence import MOST_STALLED, Evidence
from kernelrig.analyse.source import analyse_source, read_counter_page
from kernelrig.model import CostCause, CountedInstruction

from tests.analyse.listings import Row, page

LAUNCH = {
    "sm__cycles_elapsed.max": 1e6,
    "sm__cycles_elapsed.avg": 1e6,
    "gpc__cycles_elapsed.avg.per_second": 1.98e9,
    "device__attribute_clock_rate": 1.98e6,
    "device__attribute_max_warps_per_multiprocessor": 64.0,
    "device__attribute_max_shared_memory_per_multiprocessor": 233472.0,
    "launch__sm_count": 100.0,
    "launch__block_size": 256.0,
    "launch__waves_per_multiprocessor": 1.0,
    "launch__occupancy_limit_shared_mem": 8.0,
    "launch__shared_mem_per_block_allocated": 20480.0,
    "smsp__issue_active.avg.per_cycle_active": 0.2,
    "sm__warps_active.avg.per_cycle_active": 60.0,
    "sm__cycles_active.avg": 1e6,
    "sm__cycles_active.max": 1e6,
    "dram__bytes_read.sum": 1e9,
    "profiler__replayer_bytes_mem_accessible.max": 1e9,
}
QUIET = {"dram": 0.3, "l2": 0.3, "l1": 0.2, "issue": 0.2}


def code(*lines: tuple[str, int, int, dict[str, int]]) -> tuple[CountedInstruction, ...]:
    """Return instructions of (sass, executed, lanes that work, stalls)."""
    return tuple(
        CountedInstruction(16 * i, sass, sum(s.values()), 0, n, 32 * n, lanes * n, s)
        for i, (sass, n, lanes, s) in enumerate(lines)
    )


WORK = ("FFMA R1, R2, R3, R4", 1000, 32, {"wait": 100, "selected": 50})


def causes(
    *lines: tuple[str, int, int, dict[str, int]],
    units: Mapping[str, float] | None = None,
    changes: Mapping[str, float] | None = None,
) -> dict[str, CostCause]:
    """Return the causes of a launch of this code by name, what explains most first."""
    values = LAUNCH | dict(changes or {})
    evidence = Evidence(values, QUIET | dict(units or {}), code(WORK, *lines), None)
    return {c.name: c for c in find_causes(evidence)}


def names(
    *lines: tuple[str, int, int, dict[str, int]],
    units: Mapping[str, float] | None = None,
    changes: Mapping[str, float] | None = None,
) -> list[str]:
    return list(causes(*lines, units=units, changes=changes))


def of_code(rows: tuple[Row, ...]) -> dict[str, tuple[str, ...]]:
    """Return the causes of a launch of this code, with the places that they name."""
    return {c.name: c.at for c in find_causes(evidence_of(rows))}


def evidence_of(rows: tuple[Row, ...], changes: Mapping[str, float] | None = None) -> Evidence:
    counters = read_counter_page(page(rows))
    source = analyse_source(counters, top=MOST_STALLED)
    return Evidence(LAUNCH | dict(changes or {}), QUIET, counters.instructions, source)


def without(rows: tuple[Row, ...], *texts: str) -> tuple[Row, ...]:
    """Return the rows without the samples of those that have one of these texts."""
    return tuple((t, n, {} if any(x in t for x in texts) else s) for t, n, s in rows)
