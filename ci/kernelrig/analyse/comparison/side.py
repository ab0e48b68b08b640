"""One side of a comparison: the counters of a profile, of a source page, or of phase clocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from kernelrig.analyse.source import EXECUTED, launch_counters
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Counted,
    CounterSide,
    LineSamples,
    PhaseCapture,
    ProfiledLaunch,
    SourceCounters,
    merge_values,
)

DEVICE = "device__attribute_display_name"
_CLOCK = "sm__cycles_elapsed.avg.per_second"
_SAMPLED = "smsp__pcsamp_warps_issue_stalled_"


def profile_side(name: str, launches: Sequence[ProfiledLaunch]) -> CounterSide:
    """Return the counters of launches of one kernel: the mean where several have a counter."""
    units = {n: m.unit for launch in launches for n, m in launch.metrics.items()}
    values = merge_values(launches)
    devices = [x.metrics[DEVICE].text for x in launches if DEVICE in x.metrics]
    lines: dict[str, LineSamples] = {}
    for launch in launches:
        if EXECUTED in launch.metrics and launch.metrics[EXECUTED].by_pc and not lines:
            try:
                lines = _by_line(launch_counters(launch))
            except ProtocolError:  # counted by instruction, and not sampled
                continue
    return CounterSide(
        name,
        kernel=launches[0].kernel,
        counters={n: Counted(v, units[n]) for n, v in values.items()},
        lines=lines,
        conditions={"GPU": devices[0]} if devices else {},
        sm_hz=values.get(_CLOCK, 0.0),
    )


def source_side(name: str, counted: SourceCounters) -> CounterSide:
    """Return the sums over the instructions of a source page, under the names that it has."""
    total: Counter[str] = Counter()
    for i in counted.instructions:
        total["inst_executed"] += i.executed
        total["thread_inst_executed"] += i.threads
        total["thread_inst_executed_true"] += i.predicated_on
        for reason, samples in i.stalls.items():
            total[f"{_SAMPLED}{reason}"] += samples
        for counter, value in i.counters.items():
            total[counter.lower().replace(" ", "_")] += int(value)
    return CounterSide(
        name,
        kernel=counted.kernel,
        counters={n: Counted(float(v)) for n, v in total.items()},
        lines=_by_line(counted),
    )


def phase_side(name: str, capture: PhaseCapture) -> CounterSide:
    """Return the mean cycles of each phase, by `role: phase`."""
    phases: dict[str, float] = {}
    rows: dict[str, float] = {}
    for role in capture.roles:
        named = {f"{role.role}: {p.name}": p.mean_cycles for p in role.phases}
        known = {n: c for n, c in named.items() if c is not None}
        whole = role.total.mean_cycles if role.total else None
        rows |= dict.fromkeys(known, whole if whole is not None else sum(known.values()))
        phases |= known
    return CounterSide(name, phases=phases, phase_row=rows)


def _by_line(counted: SourceCounters) -> dict[str, LineSamples]:
    samples: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for i in counted.instructions:
        if i.line and i.line.line and i.samples:
            where = f"{PurePath(i.line.file).name}:{i.line.line}"
            samples[where] += i.samples
            reasons[where].update(i.stalls)
    most = {where: max(by, key=by.__getitem__, default="") for where, by in reasons.items()}
    return {where: LineSamples(n, most[where]) for where, n in samples.items()}
