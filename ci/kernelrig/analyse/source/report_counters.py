"""Counters by instruction from a report of ncu, under the names that its source page has."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from kernelrig.errors import ProtocolError
from kernelrig.model import CountedInstruction, Metric, ProfiledLaunch, SourceCounters
from kernelrig.model.frame import Frame, source_path

_REASON = re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+?)(_not_issued)?")
_PAGE_NAMES = {
    "dispatch_stall": "dispatch",
    "imc_miss": "imc",
    "lg_throttle": "lg",
    "long_scoreboard": "long_sb",
    "math_pipe_throttle": "math",
    "mio_throttle": "mio",
    "no_instructions": "no_inst",
    "short_scoreboard": "short_sb",
    "sleeping": "sleep",
    "tex_throttle": "tex",
}
"""Of the reasons that the page calls otherwise than the metric."""
_COUNTERS = {
    "memory_l1_wavefronts_shared": "L1 Wavefronts Shared",
    "memory_l1_wavefronts_shared_ideal": "L1 Wavefronts Shared Ideal",
    "memory_l2_theoretical_sectors_global": "L2 Theoretical Sectors Global",
    "memory_l2_theoretical_sectors_global_ideal": "L2 Theoretical Sectors Global Ideal",
}
EXECUTED, SAMPLES = "inst_executed", "smsp__pcsamp_sample_count"
_WARP = 32


def launch_counters(launch: ProfiledLaunch) -> SourceCounters:
    """Return the counters of one launch; ProtocolError where it was not profiled by instruction."""
    metrics = launch.metrics
    for needed in (EXECUTED, SAMPLES):
        if needed not in metrics or not metrics[needed].by_pc:
            raise ProtocolError(
                f"the launch of {launch.kernel} has no {needed} by instruction",
                "profile with --section SourceCounters --import-source yes",
            )
    if not launch.instructions:
        raise ProtocolError(f"the report holds no code of {launch.kernel}")
    counted = set(metrics[EXECUTED].by_pc)
    stalls, not_issued = _stalls(metrics)
    kept = {page: metrics[name] for name, page in _COUNTERS.items() if name in metrics}
    return SourceCounters(
        launch.kernel,
        tuple(
            CountedInstruction(
                i.address,
                i.sass,
                _at(metrics.get(SAMPLES), i.address),
                sum(_at(m, i.address) for m in not_issued),
                _at(metrics.get(EXECUTED), i.address),
                _at(metrics.get("thread_inst_executed"), i.address),
                _at(metrics.get("thread_inst_executed_true"), i.address),
                {reason: n for reason, m in stalls.items() if (n := _at(m, i.address))},
                {page: float(n) for page, m in kept.items() if (n := _at(m, i.address))},
                Frame(source_path(i.file), i.line) if i.file and i.line else None,
            )
            # Numbers that are no addresses, such as counts of registers, may look like offsets.
            for i in sorted(launch.instructions, key=lambda i: i.address)
            if i.address in counted
        ),
        warps=_warps(metrics.get("launch__block_size")),
    )


def _stalls(metrics: Mapping[str, Metric]) -> tuple[dict[str, Metric], list[Metric]]:
    stalls, not_issued = {}, []
    for name, metric in metrics.items():
        if found := _REASON.fullmatch(name):
            if found[2]:
                not_issued.append(metric)
            else:
                stalls[_PAGE_NAMES.get(found[1], found[1])] = metric
    return stalls, not_issued


def _at(metric: Metric | None, address: int) -> int:
    return int(metric.by_pc.get(address, 0)) if metric else 0


def _warps(block_size: Metric | None) -> int:
    """Return the warps of a CTA; 0 where the report does not say."""
    if block_size is None or block_size.value is None or not 0 < block_size.value <= 1024:
        return 0
    return math.ceil(block_size.value / _WARP)
