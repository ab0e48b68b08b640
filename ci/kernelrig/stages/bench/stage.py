"""The bench stage: timed processes of several builds in turn, as one job in one lease.

Level 1 times itself, and its processes take turns in a relay (relay.py). A program of level 0
prints a line `sample_ms NUMBER` for each of its samples, or writes it into the file that its
environment calls KERNELRIG_SAMPLES; where one takes part, each turn is a process that is started
when the one before has ended. What the times come to is kernelrig.bench's business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.model import (
    Bench,
    Builds,
    Check,
    Clocked,
    Command,
    Environment,
    Host,
    Remote,
    Slot,
    Stage,
    StageJob,
    StageResult,
    Timed,
    Verdict,
    broken,
    passed,
    visible_gpu,
)
from kernelrig.stages.bench.relay import (
    CHOICE,
    choice_file,
    ended_process,
    process_command,
    read_choice,
    relay_commands,
    slots_of,
)
from kernelrig.stages.context import Context, Setup
from kernelrig.stages.harness.ended import judge_end, judge_missing
from kernelrig.stages.harness.result import Clock, HarnessResult
from kernelrig.stages.jobs import in_one_order
from kernelrig.stages.plain.reader import judge_program
from kernelrig.stages.record import find_command, log_tail, read_log, read_text
from kernelrig.stages.timing.stage import read_timed, timed_command

_SAMPLE = re.compile(r"sample_ms\s+(\S+)")


def bench_job(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    builds: Builds,
    host: Host | None,
    remote: Remote,
) -> StageJob:
    """Return the relay, or the processes in their order, as commands of one stage."""
    setups = [
        Setup(c.kernel, builds.by_variant[c.place], None, host, remote, c.place)
        for c in bench.candidates
    ]
    if bench.processes:
        commands = relay_commands(stage, bench, slots, setups)
    else:
        commands = tuple(
            _lone_command(stage, bench, number, slot, setups[slot.candidate])
            for number, slot in enumerate(slots)
        )
    return StageJob(
        name=stage.name,
        kind=stage.kind,
        commands=in_one_order(commands, host),
        output_bytes=stage.output_mb << 20,
        disk_bytes=stage.disk_mb << 20,
    )


def _lone_command(stage: Stage, bench: Bench, number: int, slot: Slot, setup: Setup) -> Command:
    name, kernel = command_name(number, slot), setup.kernel
    if not kernel.level:
        argv, env = (setup.program, *kernel.args), {"KERNELRIG_SAMPLES": f"{name}.samples"}
        return Command(name, argv, stage.time_s, env=env, core_dump=kernel.cuda)
    command = timed_command(name, _of_slot(stage, bench, slot), setup)
    if kernel.baseline:
        return replace(command, env={CHOICE: choice_file(slot.candidate)})
    return command


def command_name(number: int, slot: Slot) -> str:
    """`03-b`: sorts by time, and says whose it is."""
    return f"{number:02d}-{chr(ord('a') + slot.candidate)}"


def read_bench(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    job: StageJob,
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> tuple[tuple[Check, ...], tuple[Timed, ...]]:
    """Return a check for each contender, and each turn that measured something.

    A contender passes if all its processes did: what computes wrongly once has no time.
    """
    planned = {c.name: c for c in job.commands}
    bad: dict[int, list[Verdict]] = {}
    timed: list[Timed] = []
    read = _read_relay if bench.processes else _read_lone
    for name, candidate, seen in read(stage, bench, slots, planned, result, folder, contexts):
        if isinstance(seen, Verdict):
            said = replace(seen, summary=f"process {name}: {seen.summary}")
            bad.setdefault(candidate, []).append(said)
        else:
            timed += seen
    timed.sort(key=lambda t: _place(slots, t))
    checks = tuple(
        _candidate_check(
            c.name, bad.get(i, []), [t for t in timed if t.candidate == i], contexts[i]
        )
        for i, c in enumerate(bench.candidates)
    )
    return checks, tuple(timed)


_Seen = tuple[str, int, "Sequence[Timed] | Verdict"]
"""A process by its name, whose it was, and its turns or why it has none."""


def _read_lone(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[_Seen]:
    for number, slot in enumerate(slots):
        name, context = command_name(number, slot), contexts[slot.candidate]
        if name not in planned:
            yield name, slot.candidate, broken(f"{name} was never planned")
            continue
        of_slot = _of_slot(stage, bench, slot)
        seen = _read_process(of_slot, slot, planned[name], result, folder, context)
        yield name, slot.candidate, seen if isinstance(seen, Verdict) else (seen,)


def _read_relay(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[_Seen]:
    for candidate, context in enumerate(contexts):
        wrong = read_choice(stage, candidate, planned, result, folder, context)
        if wrong is not None:
            yield "that chooses", candidate, wrong
    for (candidate, process), own in slots_of(slots).items():
        context = contexts[candidate]
        place = bench.candidates[candidate].place
        setup = Setup(context.kernel, context.build, None, context.host, context.remote, place)
        whole, command = process_command(stage, bench, slots, candidate, process, setup)
        ended = ended_process(command, result, folder)
        if isinstance(ended, Verdict):
            yield command.name, candidate, ended
            continue
        seen = read_timed(whole, command, ended, folder, context)
        if isinstance(seen, Verdict):
            yield command.name, candidate, seen
            continue
        each_s = ended.seconds / len(slots)
        yield command.name, candidate, _parts(seen, [slots[n] for n in own], each_s)


def _parts(seen: HarnessResult, own: Sequence[Slot], each_s: float) -> tuple[Timed, ...]:
    """Deal out what one process measured to its turns: as many samples of each, in their order."""
    samples = tuple(s for s in seen.samples_ms if s is not None)
    during = [c for c in seen.clocks.during if c is not None]
    of_slot, count = len(samples) // len(own), len(own)
    return tuple(
        Timed(
            slot.candidate,
            slot.round,
            samples[of_slot * i : of_slot * (i + 1)],
            each_s,
            _around(seen),
            _clocked(during[len(during) * i // count : len(during) * (i + 1) // count]),
            slot.process,
        )
        for i, slot in enumerate(own)
    )


def _place(slots: Sequence[Slot], timed: Timed) -> int:
    return slots.index(Slot(timed.candidate, timed.round, timed.process))


def _of_slot(stage: Stage, bench: Bench, slot: Slot) -> Stage:
    return stage if slot.round else replace(stage, warmup_s=bench.settle_s)


def _read_process(
    stage: Stage,
    slot: Slot,
    command: Command,
    result: StageResult,
    folder: Path,
    context: Context,
) -> Timed | Verdict:
    ended = find_command(result, command.name)
    if ended is None:
        return judge_missing(command)
    if context.kernel.level:
        seen = read_timed(stage, command, ended, folder, context)
        if isinstance(seen, Verdict):
            return seen
        samples = tuple(s for s in seen.samples_ms if s is not None)
        under_load = [c for c in seen.clocks.during if c is not None]
        environment, clocked = _around(seen), _clocked(under_load or list(seen.clocks))
    else:
        if (verdict := judge_end(command, ended, folder)) is not None:
            return verdict
        wrong = judge_program(command, ended, folder, context)
        written = read_text(folder / f"{command.name}.samples")
        found = _printed(written or read_log(folder, command.name) or "")
        if wrong.outcome != "pass":
            return wrong
        if not found or not all(math.isfinite(s) and s > 0 for s in found):
            said = log_tail(folder, command.name)
            return broken("it told no `sample_ms NUMBER` that is a time", *said)
        gpu = visible_gpu(context.remote, context.host) if context.kernel.cuda else {}
        samples, clocked = found, Clocked()
        environment = Environment(gpu.get("uuid", ""), context.host.driver if gpu else "")
    return Timed(
        slot.candidate, slot.round, samples, ended.seconds, environment, clocked, slot.process
    )


def _printed(text: str) -> tuple[float, ...]:
    found = []
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line.strip()):
            try:
                found.append(float(sample[1]))
            except ValueError:
                found.append(math.nan)
    return tuple(found)


def _around(seen: HarnessResult) -> Environment:
    limits = [c.power_limit_w for c in seen.clocks]
    return Environment(
        gpu=seen.device.uuid if seen.device else "",
        driver=seen.device.driver if seen.device else "",
        power_limit_w=min(limits, default=0.0),
        regime=seen.regime or "",
        case=",".join(f"{name}={value}" for name, value in seen.case.items()),
    )


def _clocked(seen: Sequence[Clock]) -> Clocked:
    return Clocked(
        sm_mhz=tuple(c.sm_mhz for c in seen),
        power_w=tuple(c.power_w for c in seen),
        temperature_c=tuple(c.temperature_c for c in seen),
        throttle_reasons=tuple(dict.fromkeys(c.throttle_reasons for c in seen)),
    )


def _candidate_check(
    name: str, bad: Sequence[Verdict], timed: Sequence[Timed], context: Context
) -> Check:
    """Of several that went wrong the kernel's own fault speaks before what was lost."""
    seconds = sum(t.seconds for t in timed)
    if bad:
        worst = next((v for v in bad if v.outcome == "fail"), bad[0])
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return Check(name, replace(worst, summary=worst.summary + more), seconds)
    facts = {
        "build": f"{context.build.kernel}-{context.build.arch}-{context.build.variant}"
        f" {context.build.key[:12]}",
        "label": context.label,
        "SM clock": _span([m for t in timed for m in t.clocked.sm_mhz], "MHz"),
        "power": _span([w for t in timed for w in t.clocked.power_w], "W"),
        "temperature": _span([c for t in timed for c in t.clocked.temperature_c], "C"),
        "throttle reasons": ", ".join(
            sorted({r for t in timed for r in t.clocked.throttle_reasons})
        ),
    }
    processes = len({t.process for t in timed})
    said = f"{len(timed)} turns of {processes} processes,"
    said += f" {sum(len(t.samples_ms) for t in timed)} samples"
    right = ", every output right behind each" if context.kernel.level else ""
    return Check(name, passed(said + right), seconds, facts={k: v for k, v in facts.items() if v})


def _span(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:.0f} {unit}" if low == high else f"{low:.0f} to {high:.0f} {unit}"
