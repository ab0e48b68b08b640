"""The kernels of a plain program that prints no time, measured: a check for each, and their sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Check,
    Command,
    Kernel,
    Stage,
    StageJob,
    StageKind,
    StageResult,
    Verdict,
    passed,
    unreadable,
)
from kernelrig.stages.context import Context, Setup
from kernelrig.stages.plain.command import COMMAND, program_command
from kernelrig.stages.plain.kernel_times import (
    SOURCE,
    KernelTimes,
    is_timed,
    read_kernel_times,
    timer_env,
)
from kernelrig.stages.plain.reader import right_start
from kernelrig.stages.timing.reader import nearest_rank

PROCESSES = 3
MEASURED = "kernels-"
"""What the commands under CUPTI begin with."""
TOTAL = "kernel time"
"""The check of what all counted kernels take."""
MOST_SHOWN = 20


def has_figures(kernel: Kernel) -> bool:
    """Return whether a timing stage of a plain program has anything to read."""
    return bool(kernel.metrics) or kernel.prints_no_time


def kernel_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the starts under CUPTI, none where the program prints a time of its own."""
    count = PROCESSES if setup.kernel.prints_no_time else 0
    return tuple(measured_command(f"{MEASURED}{n + 1}", stage, setup) for n in range(count))


def measured_command(name: str, stage: Stage, setup: Setup) -> Command:
    """Return one start of the program under CUPTI; no debugger beside it."""
    command = program_command(name, stage, setup)
    return replace(command, env={**command.env, **timer_env(name)}, core_dump=False)


def kernel_times_of(check: Check) -> str:
    """Return the regime of a check that holds measured kernels, empty for any other."""
    regime = check.facts.get("regime", "")
    return regime if regime.startswith(SOURCE) and check.facts.get("unit") == "ms" else ""


def measured_kernels(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> tuple[list[Check], list[str]]:
    """Return what the kernels took, first their sum, and notes; nothing if none were measured."""
    commands = [c for c in job.commands if is_timed(c)]
    times: list[KernelTimes] = []
    walls: list[float] = []
    for command in commands:
        seen = times_of_process(command, result, folder, context)
        if isinstance(seen, Verdict):
            return [Check(TOTAL, seen)], []
        times.append(seen[0])
        walls.append(seen[1])
    if not times:
        return [], []
    counted = [name for name in times[0].counted if all(name in t.counted for t in times)]
    if len(counted) < max(len(t.counted) for t in times):
        said = "its processes did not launch the same kernels: their times cannot be put together"
        return [Check(TOTAL, unreadable(said))], []
    totals = [sum(sum(t.durations_ns[name]) for t in times) for name in counted]
    order = [name for _, name in sorted(zip(totals, counted, strict=True), reverse=True)]
    notes = [_added(walls, context)]
    if len(order) > MOST_SHOWN:
        rest = sum(sorted(totals)[:-MOST_SHOWN]) / sum(totals)
        notes.append(f"{len(order) - MOST_SHOWN} further kernels took {rest:.1%} of the time")
    shown = [_kernel_check(name, times, stage, context) for name in order[:MOST_SHOWN]]
    return [_total_check(times, stage, context), *shown], notes


def times_of_process(
    command: Command, result: StageResult, folder: Path, context: Context
) -> tuple[KernelTimes, float] | Verdict:
    """Return what a start under CUPTI measured, and its seconds; a wrong program has no time."""
    ended = right_start(command, result, folder, context)
    if isinstance(ended, Verdict):
        return ended
    try:
        seen = read_kernel_times(context.kernel, folder, command.name, ended.seconds)
    except ProtocolError as e:
        return unreadable(f"kernels were not measured: {e.message}", e.hint)
    return seen, ended.seconds


def _added(walls: Sequence[float], context: Context) -> str:
    """Say what measuring adds to the program, by its start without it in the same run."""
    under = f"{median(walls):.3f} s under CUPTI"
    kind = context.kernel.judged_as(StageKind.CHECKSUM)
    bare = [
        c.seconds
        for record in context.earlier.values()
        if record.kind is kind and record.variant == context.build.variant
        for c in record.commands
        if c.name == COMMAND and not c.reused_from
    ]
    if not bare:
        return f"the program ran {under}"
    return f"the program ran {under}, {bare[-1]:.3f} s without it"


def _total_check(times: Sequence[KernelTimes], stage: Stage, context: Context) -> Check:
    """Return the figure that baselines and the history keep: of each process one value."""
    each = [median(t.samples_ms) for t in times]
    samples = [s for t in times for s in t.samples_ms]
    facts = _facts(each, samples, stage, context) | {"of": times[0].basis}
    facts |= {"metric": "time_ms", "regime": f"{SOURCE}, {times[0].basis}"}
    facts |= {"CUPTI": times[0].version}
    for name, share in (("p5", 5), ("p95", 95)):
        facts[name] = repr(nearest_rank(sorted(samples), share))
    said = f"{median(each):.6g} ms ({min(samples):.6g} to {max(samples):.6g}),"
    return Check(TOTAL, passed(f"{said} {times[0].basis}, by {SOURCE}"), facts=facts)


def _kernel_check(name: str, times: Sequence[KernelTimes], stage: Stage, context: Context) -> Check:
    each = [median(t.durations_ns[name]) / 1e6 for t in times]
    samples = [ns / 1e6 for t in times for ns in t.durations_ns[name]]
    counts = [len(t.durations_ns[name]) for t in times]
    launches = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    facts = _facts(each, samples, stage, context) | {"launches": launches}
    words = "_".join(re.findall(r"[A-Za-z0-9]+", name))
    facts |= {"metric": f"kernel_ms.{words}", "regime": f"{SOURCE}, a launch"}
    spread = f"{median(each):.6g} ms ({min(samples):.6g} to {max(samples):.6g})"
    said = f"{spread}, {launches} launches a process"
    return Check(name, passed(f"{said}, by {SOURCE}"), facts=facts)


def _facts(
    each: Sequence[float], samples: Sequence[float], stage: Stage, context: Context
) -> dict[str, str]:
    facts = {
        "device": f"{context.device.value} {context.machine}",
        "label": context.label,
        "median": f"{median(each):.6g} ms",
        "least": repr(min(samples)),
        "value": repr(median(each)),
        "most": repr(max(samples)),
        "unit": "ms",
        "better": "lower",
        "processes": str(len(each)),
        "samples": str(len(samples)),
        "case": stage.case or "full",
    }
    return {k: v for k, v in facts.items() if v}
