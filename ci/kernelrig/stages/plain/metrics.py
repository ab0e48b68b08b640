"""The timing stage of a plain program: the metrics of kernels.yaml, as its output has them.

They are the program's own claims: what is checked is that they are numbers, and that a time is no
longer than the process that printed it. Where none of them is a time, the kernels are measured, in
further processes (stages.plain.kernel_figures).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from kernelrig.errors import ProtocolError
from kernelrig.model import (
    TIME_UNITS,
    Check,
    Command,
    Kernel,
    Outcome,
    PrintedMetric,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    passed,
    unreadable,
)
from kernelrig.stages.context import Context, Setup
from kernelrig.stages.plain.command import program_command
from kernelrig.stages.plain.kernel_figures import (
    PROCESSES,
    kernel_commands,
    measured_kernels,
)
from kernelrig.stages.plain.kernel_times import is_timed
from kernelrig.stages.plain.pattern_search import find_patterns
from kernelrig.stages.plain.reader import right_start
from kernelrig.stages.record import stage_record
from kernelrig.stages.timing.reader import judge_gate

SECONDS = dict(zip(TIME_UNITS, (1e-9, 1e-6, 1e-3, 1.0), strict=True))
_SLACK_S = 0.001
"""The agent rounds the seconds of a command to a thousandth."""


def metric_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the starts whose output is read: several, to see how far they differ.

    Those under CUPTI are further ones: what a program prints there is not its own.
    """
    printed = range(PROCESSES if setup.kernel.metrics else 0)
    starts = tuple(program_command(f"program-{n + 1}", stage, setup) for n in printed)
    return (*starts, *kernel_commands(stage, setup))


def read_metrics(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each metric by what every process printed of it; one value is not more than another."""
    if (gate := judge_gate(context)) is not None:
        return stage_record(stage, result, context, [Check("metrics", gate)])
    printed: list[dict[str, tuple[float, ...]]] = []
    plain = [c for c in job.commands if not is_timed(c)]
    for command in plain:
        found = _of_process(command, result, folder, context)
        if isinstance(found, Verdict):
            return stage_record(stage, result, context, [Check(command.name, found)])
        printed.append(found)
    checks = [
        _check(metric, [found[name] for found in printed], stage, context)
        for name, metric in context.kernel.metrics.items()
    ]
    said = ", ".join(f"{c.name} {c.facts['median']}" for c in checks if c.facts)
    summary = f"{said}: printed by the program" if said else ""
    measured, notes = measured_kernels(stage, job, result, folder, context)
    if measured:
        summary = "; ".join(filter(None, (summary, measured[0].verdict.summary)))
    record = stage_record(stage, result, context, (*checks, *measured), notes)
    if record.verdict.outcome is not Outcome.PASS:
        return record
    summary = f"{summary}, median of {PROCESSES} processes, {context.machine}"
    return replace(record, verdict=passed(summary, *record.verdict.evidence))


def _of_process(
    command: Command, result: StageResult, folder: Path, context: Context
) -> dict[str, tuple[float, ...]] | Verdict:
    ended = right_start(command, result, folder, context)
    if isinstance(ended, Verdict):
        return ended
    try:
        return printed_values(context.kernel, folder, command.name, ended.seconds)
    except ProtocolError as e:
        return unreadable(f"{command.name}: {e.message}", e.hint)


def printed_values(
    kernel: Kernel, folder: Path, name: str, wall_s: float
) -> dict[str, tuple[float, ...]]:
    """Return the values that a process printed of each metric; ProtocolError if one has none.

    `wall_s` is how long the agent saw the process run.
    """
    outputs = [folder / f"{name}.stdout.log", folder / f"{name}.stderr.log"]
    patterns = {m.name: m.regex for m in kernel.metrics.values()}
    found = find_patterns(patterns, [path for path in outputs if path.is_file()])
    values = {}
    for metric in kernel.metrics.values():
        if not found[metric.name]:
            raise ProtocolError(
                f"no line has the metric {metric.name}", f"its regex is {metric.regex}"
            )
        values[metric.name] = tuple(_number(metric, text, wall_s) for text in found[metric.name])
    return values


def printed_times_ms(kernel: Kernel, folder: Path, name: str, wall_s: float) -> tuple[float, ...]:
    """Return the values of the kernel's first metric that is a time, none if it has no such."""
    first = next((m for m in kernel.metrics.values() if m.unit in SECONDS), None)
    if first is None:
        return ()
    scale = SECONDS[first.unit] * 1e3
    return tuple(v * scale for v in printed_values(kernel, folder, name, wall_s)[first.name])


def _number(metric: PrintedMetric, text: str, wall_s: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ProtocolError(f"the metric {metric.name} is '{text[:60]}', which is no number")
    scale = SECONDS.get(metric.unit)
    if scale is None:
        return value
    if value <= 0:
        raise ProtocolError(f"the metric {metric.name} is {text} {metric.unit}, which is no time")
    if value * scale > wall_s + _SLACK_S:
        raise ProtocolError(
            f"the metric {metric.name} is {text} {metric.unit},"
            f" and the process that printed it ran {wall_s:.3f} s"
        )
    return value


def _check(
    metric: PrintedMetric, printed: Sequence[Sequence[float]], stage: Stage, context: Context
) -> Check:
    """Return a metric's check: of each process the median of what it printed counts."""
    each = [median(values) for values in printed]
    if not each:
        return Check(metric.name, broken("no process was started"))
    middle, unit = median(each), f" {metric.unit}" if metric.unit else ""
    least, most = min(each), max(each)
    spread = f"{least:.6g} to {most:.6g}{unit}"
    facts = {
        "device": f"{context.device.value} {context.machine}",
        "label": context.label,
        "metric": metric.name,
        "median": f"{middle:.6g}{unit}",
        "least": repr(least),
        "value": repr(middle),
        "most": repr(most),
        "unit": metric.unit,
        "better": metric.better,
        "processes": str(len(each)),
        "samples": str(sum(map(len, printed))),
        "case": stage.case or "full",
        "regex": metric.regex,
    }
    said = f"{middle:.6g}{unit} ({spread}), {metric.better} is better, printed by the program"
    return Check(metric.name, passed(said), facts={k: v for k, v in facts.items() if v})
