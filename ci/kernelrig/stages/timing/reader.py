"""The timing stage: every sample as measured; impossible samples are an error.

Statistics here are order statistics: each is a sample that was observed. Comparisons are
kernelrig.bench's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelrig.analyse.phases import phase_facts
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Check,
    Command,
    CommandResult,
    Host,
    Outcome,
    Pattern,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    passed,
    skipped,
    unreadable,
)
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked, HarnessResult, load_result
from kernelrig.stages.record import find_command, stage_record
from kernelrig.stages.timing.command import COMMAND
from kernelrig.stages.timing.gpus import figures_of
from kernelrig.stages.timing.phase_capture import stage_phases
from kernelrig.stages.timing.plausibility import (
    find_odd_clock,
    find_other_device,
    find_uneven,
    find_untimely,
    name_reasons,
)
from kernelrig.stages.timing.speed_of_light import Lightspeed, lightspeed, problem_of, throughput
from kernelrig.stages.timing.spot_checks import (
    judge_rotation,
    judge_timed_outputs,
    spot_check_facts,
)
from kernelrig.stages.timing.timed_operation import (
    judge_operation_rotation,
    judge_timed_operation,
)

_NOTE = 200
"""Letters of what a program says of itself that are kept: a library's choice of algorithm."""


def read_timing(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge one timed run; a time counts only where every checksum of this run passed.

    There must be one of the timed variant. One of another variant may be skipped, but not fail.
    """
    gate = judge_gate(context)
    if gate is not None:
        return stage_record(stage, result, context, [Check("time", gate)])
    command = next((c for c in job.commands if c.name == COMMAND), None)
    ended = find_command(result, COMMAND)
    if command is None or ended is None:
        lost = broken("the timed run was planned, and the journal has no record of it")
        return stage_record(stage, result, context, [Check("time", lost)])
    verdict, facts = _judge(stage, command, ended, folder, context)
    check = Check("time", verdict, ended.seconds, facts=facts)
    return stage_record(stage, result, context, [check])


def regime(stage: Stage, command: Command) -> str:
    """Return what the harness calls the load that it was asked for (session.cuh)."""
    warmup_s = float(f"{stage.warmup_s:g}")
    if "--relay" in command.argv:
        return f"steady after {warmup_s:g} s of each slot of a relay"
    return f"steady after {warmup_s:.1f} s"


def load_timing(folder: Path) -> HarnessResult:
    """Return the result file that a recorded timing stage was judged by."""
    return load_result(folder / f"{COMMAND}.json")


def judge_gate(context: Context) -> Verdict | None:
    """Return why a time does not count: its build was not found right in this run. None if it was.

    Of a plain program what is right is its exit status, and its output.
    """
    kind = context.kernel.judged_as(StageKind.CHECKSUM)
    checksums = [r for r in context.earlier.values() if r.kind is kind]
    own = [r for r in checksums if r.variant == context.build.variant]
    if not own:
        what = f"no {kind} stage of variant {context.build.variant} is in this run"
        return broken(f"not counted: {what}; add one to --only")
    bad = [r.name for r in checksums if r.verdict.outcome in (Outcome.FAIL, Outcome.ERROR)]
    if bad:
        return skipped(f"not counted: {kind} stage {bad[0]} did not pass")
    unjudged = next((r for r in own if r.verdict.outcome is Outcome.SKIP), None)
    if unjudged is None:
        return None
    return broken(f"not counted: {unjudged.name} was skipped: {unjudged.verdict.summary}")


def _judge(
    stage: Stage, command: Command, ended: CommandResult, folder: Path, context: Context
) -> tuple[Verdict, dict[str, str]]:
    seen = read_timed(stage, command, ended, folder, context)
    if isinstance(seen, Verdict):
        return seen, {}
    samples = sorted(s for s in seen.samples_ms if s is not None)
    gpu = figures_of(context.host.gpu)
    if isinstance(gpu, str):
        return broken(gpu), {}
    facts = timing_facts(seen, samples, lightspeed(problem_of(seen, context.kernel), gpu), context)
    said = _headline(seen, samples, facts, context)
    try:
        phases = stage_phases(seen, context)
    except ProtocolError as e:
        return unreadable(f"its phases mean nothing: {e.message}"), {}
    if phases is None:
        return passed(said), facts
    return passed(f"{said}; {phases.headline}"), facts | phase_facts(phases)


def read_timed(
    stage: Stage, command: Command, ended: CommandResult, folder: Path, context: Context
) -> HarnessResult | Verdict:
    """Return the result of one timed process, or the verdict for which its time does not count."""
    asked = Asked(
        "time", stage_case(context.kernel, stage), context.seed(stage.seeds[0]), Pattern.RANDOM
    )
    seen = read_harness(command, ended, asked, folder, context)
    if isinstance(seen, Verdict):
        return seen
    return (
        _judge_outputs(stage, asked, seen, folder, command, context)
        or _judge_times(stage, command, ended, seen, context)
        or _judge_rotation(asked, seen, context)
        or seen
    )


def _judge_outputs(
    stage: Stage,
    asked: Asked,
    seen: HarnessResult,
    folder: Path,
    command: Command,
    context: Context,
) -> Verdict | None:
    if context.kernel.is_operation:
        return judge_timed_operation(stage.samples, asked, seen, folder, command.name, context)
    return judge_timed_outputs(stage.samples, seen, context)


def _judge_rotation(asked: Asked, seen: HarnessResult, context: Context) -> Verdict | None:
    if context.kernel.is_operation:
        return judge_operation_rotation(seen, asked, context)
    return judge_rotation(seen, context)


def _judge_times(
    stage: Stage, command: Command, ended: CommandResult, seen: HarnessResult, context: Context
) -> Verdict | None:
    """Judge the samples by what the agent saw and by what the host's GPU can do at the most."""
    gpu = figures_of(context.host.gpu)
    if isinstance(gpu, str):
        return broken(gpu)
    if seen.device is None:
        return broken("the result names no device")
    if len(seen.samples_ms) != stage.samples:
        count = len(seen.samples_ms)
        return broken(f"{count} samples came back, {stage.samples} were asked for")
    if seen.regime != (asked := regime(stage, command)):
        return broken(f"the regime is '{(seen.regime or '')[:80]}', asked for was '{asked}'")
    if odd := find_untimely(seen.samples_ms, ended.seconds) or find_other_device(seen.device, gpu):
        return broken(f"{odd}; the times are not counted")
    least = min(s for s in seen.samples_ms if s is not None)
    light = lightspeed(problem_of(seen, context.kernel), gpu)
    if least < light.floor_ms:
        return broken(
            f"a sample of {least:.4g} ms beats the speed of light, {light.floor_ms:.4g} ms"
            f" ({light.bound} bound at {light.sm_mhz:.0f} MHz): the time is not true"
        )
    odd = find_uneven(seen.samples_ms, gpu.event_ns) or find_odd_clock(seen.clocks, gpu)
    return broken(f"{odd}; the times are not counted") if odd else None


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """Return the sample at a percentile: one that was observed, never a value between two."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def timing_facts(
    seen: HarnessResult, ordered: Sequence[float], light: Lightspeed, context: Context
) -> dict[str, str]:
    """Return the conditions of a time: what must be equal where two times are compared."""
    median = nearest_rank(ordered, 50)
    clocks = list(seen.clocks)
    facts = {
        "device": f"{context.device.value} {context.machine}",
        "label": context.label,
        "program's note": seen.label[:_NOTE] if seen.label != context.label else "",
        "median": f"{median:.4f} ms",
        "p5": f"{nearest_rank(ordered, 5):.4f} ms",
        "p95": f"{nearest_rank(ordered, 95):.4f} ms",
        "least": f"{ordered[0]:.4f} ms",
        "most": f"{ordered[-1]:.4f} ms",
        "samples": str(len(ordered)),
        "throughput": throughput(problem_of(seen, context.kernel), median),
        "fraction of speed of light": f"{light.floor_ms / median:.3f}",
        "speed of light": f"{light.floor_ms:.4f} ms ({light.bound} bound)",
        "speed of light at": f"{light.sm_mhz:.0f} MHz, figures of {light.source}",
        "regime": seen.regime or "",
        "data": seen.pattern,
        "case": ",".join(f"{name}={value}" for name, value in seen.case.items()),
        "SM clock": span([c.sm_mhz for c in clocks], "MHz"),
        "memory clock": span([c.memory_mhz for c in clocks], "MHz"),
        "power": span([c.power_w for c in clocks], "W"),
        "power limit": span([c.power_limit_w for c in clocks], "W"),
        "temperature": span([c.temperature_c for c in clocks], "C"),
        "throttle reasons": throttle_text(c.throttle_reasons for c in clocks),
        "spot checks": spot_check_facts(seen),
        "other GPUs": _other_gpus(context.host),
        "sets of inputs": str(seen.sets) if context.kernel.is_operation else "",
    }
    return {label: value for label, value in facts.items() if value}


def _other_gpus(host: Host) -> str:
    """Say what the host's other GPUs did meanwhile, with which this one shares power and heat."""
    others = len(host.gpus_beside) - 1
    if others < 1:
        return ""
    if host.shared_power or len(host.leased) < len(host.gpus):
        return f"{others}, shared power: they could be in use"
    return f"{others}, leased and left idle by this run"


def span(values: Sequence[float], unit: str) -> str:
    """Return the least and the largest value, `1410 to 1980 MHz`; empty without values."""
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"


def throttle_text(reasons: Iterable[str]) -> str:
    return "; ".join(sorted({name_reasons(bits) for bits in reasons}))


def _headline(
    seen: HarnessResult, ordered: Sequence[float], facts: dict[str, str], context: Context
) -> str:
    label = f" [{facts['label']}]" if "label" in facts else ""
    return (
        f"{nearest_rank(ordered, 50):.3f} ms, {facts['throughput']}, median of {len(ordered)},"
        f" {seen.regime}, {seen.pattern} data, {context.machine}{label}"
    )
