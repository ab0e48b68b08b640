"""The timing stage: every sample as measured; impossible samples are an error.

Statistics here are order statistics: each is a sample that was observed. Comparisons are
kernelrig.bench's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.model import (
    Check,
    Command,
    CommandResult,
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
)
from kernelrig.stages.checksum.outputs import judge_compared, judge_sampled
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked, HarnessResult, load_result
from kernelrig.stages.record import find_command, stage_record
from kernelrig.stages.timing.command import COMMAND
from kernelrig.stages.timing.speed_of_light import Lightspeed, lightspeed, product_flop


def read_timing(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge one timed run; a time counts only where every checksum of this run passed.

    There must be one of the timed variant. One of another variant may be skipped, but not fail.
    """
    gate = _judge_gate(context)
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


def load_timing(folder: Path) -> HarnessResult:
    """Return the result file that a recorded timing stage was judged by."""
    return load_result(folder / f"{COMMAND}.json")


def _judge_gate(context: Context) -> Verdict | None:
    checksums = [r for r in context.earlier.values() if r.kind is StageKind.CHECKSUM]
    own = [r for r in checksums if r.variant == context.build.variant]
    if not own:
        what = f"no checksum stage of variant {context.build.variant} is in this run"
        return broken(f"not counted: {what}; add one to --only")
    others = [r for r in checksums if r not in own and r.verdict.outcome is not Outcome.SKIP]
    bad = [r.name for r in (*own, *others) if r.verdict.outcome is not Outcome.PASS]
    return skipped(f"not counted: checksum stage {bad[0]} did not pass") if bad else None


def _judge(
    stage: Stage, command: Command, ended: CommandResult, folder: Path, context: Context
) -> tuple[Verdict, dict[str, str]]:
    seen = read_timed(stage, command, ended, folder, context)
    if isinstance(seen, Verdict):
        return seen, {}
    samples = sorted(s for s in seen.samples_ms if s is not None)
    light = lightspeed(seen.shape, seen.device, seen.clocks) if seen.device else None
    if light is None:
        return _no_lightspeed(), {}
    facts = timing_facts(seen, samples, light, context)
    return passed(_headline(seen, samples, facts, context)), facts


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
    wrong = _judge_verified(seen, context) or _judge_samples(stage, seen) or _judge_true(seen)
    return wrong or seen


def _judge_true(seen: HarnessResult) -> Verdict | None:
    light = lightspeed(seen.shape, seen.device, seen.clocks) if seen.device else None
    if light is None:
        return _no_lightspeed()
    least = min(s for s in seen.samples_ms if s is not None)
    if least >= light.floor_ms:
        return None
    return broken(
        f"a sample of {least:.4f} ms beats the speed of light, {light.floor_ms:.4f} ms"
        f" ({light.bound} bound at {light.sm_mhz:.0f} MHz): the time is not true"
    )


def _no_lightspeed() -> Verdict:
    return broken("no speed of light is known for this device: its samples cannot be verified")


def _judge_verified(seen: HarnessResult, context: Context) -> Verdict | None:
    """Judge the output of a launch after the timed ones, on inputs that they did not have."""
    verified = seen.verified_after_timing
    if verified is None:
        return broken("the output was not verified after timing")
    if verified.seed == seen.seed:
        return broken("the output was verified on the timed inputs, not on fresh ones")
    wrong = judge_compared(verified, Pattern.RANDOM, verified.seed, seen, context)
    if wrong is None:
        return judge_sampled(seen, verified.seed, context)
    return replace(wrong, summary=f"after timing: {wrong.summary}")


def _judge_samples(stage: Stage, seen: HarnessResult) -> Verdict | None:
    samples = seen.samples_ms
    if len(samples) != stage.samples or not samples:
        return broken(f"{len(samples)} samples came back, {stage.samples} were asked for")
    bad = [(i, s) for i, s in enumerate(samples) if s is None or not math.isfinite(s) or s <= 0]
    if bad:
        return broken(f"sample {bad[0][0]} is no time: {bad[0][1]}")
    if not seen.regime:
        return broken("the result names no regime: burst and steady times must not be mixed")
    return None


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
        "label": seen.label or context.label,
        "median": f"{median:.4f} ms",
        "p5": f"{nearest_rank(ordered, 5):.4f} ms",
        "p95": f"{nearest_rank(ordered, 95):.4f} ms",
        "least": f"{ordered[0]:.4f} ms",
        "most": f"{ordered[-1]:.4f} ms",
        "samples": str(len(ordered)),
        "throughput": f"{product_flop(seen.shape) / median / 1e9:.2f} TFLOP/s",
        "fraction of speed of light": f"{light.floor_ms / median:.3f}",
        "speed of light": f"{light.floor_ms:.4f} ms ({light.bound} bound)",
        "speed of light at": f"{light.sm_mhz:.0f} MHz, {light.clock_source}",
        "regime": seen.regime or "",
        "data": seen.pattern,
        "case": ",".join(f"{name}={value}" for name, value in seen.case.items()),
    }
    if clocks:
        facts |= {
            "SM clock": span([c.sm_mhz for c in clocks], "MHz"),
            "memory clock": span([c.memory_mhz for c in clocks], "MHz"),
            "power": span([c.power_w for c in clocks], "W"),
            "power limit": span([c.power_limit_w for c in clocks], "W"),
            "temperature": span([c.temperature_c for c in clocks], "C"),
            "throttle reasons": ", ".join(sorted({c.throttle_reasons for c in clocks})),
        }
    else:
        facts["SM clock"] = "not sampled"
    return {label: value for label, value in facts.items() if value}


def span(values: Sequence[float], unit: str) -> str:
    """Return the least and the largest value, `1410 to 1980 MHz`; empty without values."""
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"


def _headline(
    seen: HarnessResult, ordered: Sequence[float], facts: dict[str, str], context: Context
) -> str:
    label = f" [{facts['label']}]" if "label" in facts else ""
    return (
        f"{nearest_rank(ordered, 50):.3f} ms, {facts['throughput']}, median of {len(ordered)},"
        f" {seen.regime}, {seen.pattern} data, {context.machine}{label}"
    )
