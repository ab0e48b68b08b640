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
    Box,
    Builds,
    Check,
    Clocked,
    Command,
    Remote,
    Stage,
    StageJob,
    StageResult,
    Surroundings,
    Timed,
    Turn,
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
    turns_of,
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
    turns: Sequence[Turn],
    builds: Builds,
    box: Box | None,
    remote: Remote,
) -> StageJob:
    """Return the relay, or the processes in their order, as commands of one stage."""
    setups = [
        Setup(c.kernel, builds.by_variant[c.place], None, box, remote, c.place)
        for c in bench.contenders
    ]
    if bench.processes:
        commands = relay_commands(stage, bench, turns, setups)
    else:
        commands = tuple(
            _lone_command(stage, bench, number, turn, setups[turn.contender])
            for number, turn in enumerate(turns)
        )
    return StageJob(
        name=stage.name,
        kind=stage.kind,
        commands=in_one_order(commands, box),
        output_bytes=stage.output_mb << 20,
        disk_bytes=stage.disk_mb << 20,
    )


def _lone_command(stage: Stage, bench: Bench, number: int, turn: Turn, setup: Setup) -> Command:
    name, kernel = command_name(number, turn), setup.kernel
    if not kernel.level:
        argv, env = (setup.program, *kernel.args), {"KERNELRIG_SAMPLES": f"{name}.samples"}
        return Command(name, argv, stage.time_s, env=env, core_dump=kernel.cuda)
    command = timed_command(name, _of_turn(stage, bench, turn), setup)
    if kernel.baseline:
        return replace(command, env={CHOICE: choice_file(turn.contender)})
    return command


def command_name(number: int, turn: Turn) -> str:
    """`03-b`: sorts by time, and says whose it is."""
    return f"{number:02d}-{chr(ord('a') + turn.contender)}"


def read_bench(
    stage: Stage,
    bench: Bench,
    turns: Sequence[Turn],
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
    for name, contender, seen in read(stage, bench, turns, planned, result, folder, contexts):
        if isinstance(seen, Verdict):
            said = replace(seen, summary=f"process {name}: {seen.summary}")
            bad.setdefault(contender, []).append(said)
        else:
            timed += seen
    timed.sort(key=lambda t: _place(turns, t))
    checks = tuple(
        _contender_check(
            c.name, bad.get(i, []), [t for t in timed if t.contender == i], contexts[i]
        )
        for i, c in enumerate(bench.contenders)
    )
    return checks, tuple(timed)


_Seen = tuple[str, int, "Sequence[Timed] | Verdict"]
"""A process by its name, whose it was, and its turns or why it has none."""


def _read_lone(
    stage: Stage,
    bench: Bench,
    turns: Sequence[Turn],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[_Seen]:
    for number, turn in enumerate(turns):
        name, context = command_name(number, turn), contexts[turn.contender]
        if name not in planned:
            yield name, turn.contender, broken(f"{name} was never planned")
            continue
        of_turn = _of_turn(stage, bench, turn)
        seen = _read_process(of_turn, turn, planned[name], result, folder, context)
        yield name, turn.contender, seen if isinstance(seen, Verdict) else (seen,)


def _read_relay(
    stage: Stage,
    bench: Bench,
    turns: Sequence[Turn],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[_Seen]:
    for contender, context in enumerate(contexts):
        wrong = read_choice(stage, contender, planned, result, folder, context)
        if wrong is not None:
            yield "that chooses", contender, wrong
    for (contender, process), own in turns_of(turns).items():
        context = contexts[contender]
        place = bench.contenders[contender].place
        setup = Setup(context.kernel, context.build, None, context.box, context.remote, place)
        whole, command = process_command(stage, bench, turns, contender, process, setup)
        ended = ended_process(command, result, folder)
        if isinstance(ended, Verdict):
            yield command.name, contender, ended
            continue
        seen = read_timed(whole, command, ended, folder, context)
        if isinstance(seen, Verdict):
            yield command.name, contender, seen
            continue
        each_s = ended.seconds / len(turns)
        yield command.name, contender, _parts(seen, [turns[n] for n in own], each_s)


def _parts(seen: HarnessResult, own: Sequence[Turn], each_s: float) -> tuple[Timed, ...]:
    """Deal out what one process measured to its turns: as many samples of each, in their order."""
    samples = tuple(s for s in seen.samples_ms if s is not None)
    during = [c for c in seen.clocks.during if c is not None]
    of_turn, count = len(samples) // len(own), len(own)
    return tuple(
        Timed(
            turn.contender,
            turn.round,
            samples[of_turn * i : of_turn * (i + 1)],
            each_s,
            _around(seen),
            _clocked(during[len(during) * i // count : len(during) * (i + 1) // count]),
            turn.process,
        )
        for i, turn in enumerate(own)
    )


def _place(turns: Sequence[Turn], timed: Timed) -> int:
    return turns.index(Turn(timed.contender, timed.round, timed.process))


def _of_turn(stage: Stage, bench: Bench, turn: Turn) -> Stage:
    return stage if turn.round else replace(stage, warmup_s=bench.settle_s)


def _read_process(
    stage: Stage,
    turn: Turn,
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
        around, clocked = _around(seen), _clocked(under_load or list(seen.clocks))
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
        gpu = visible_gpu(context.remote, context.box) if context.kernel.cuda else {}
        samples, clocked = found, Clocked()
        around = Surroundings(gpu.get("uuid", ""), context.box.driver if gpu else "")
    return Timed(turn.contender, turn.round, samples, ended.seconds, around, clocked, turn.process)


def _printed(text: str) -> tuple[float, ...]:
    found = []
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line.strip()):
            try:
                found.append(float(sample[1]))
            except ValueError:
                found.append(math.nan)
    return tuple(found)


def _around(seen: HarnessResult) -> Surroundings:
    limits = [c.power_limit_w for c in seen.clocks]
    return Surroundings(
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


def _contender_check(
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
