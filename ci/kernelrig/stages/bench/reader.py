"""The bench stage: what each candidate measured in its slots, and the result of each pair.

Harness programs time themselves. A plain program prints a line `sample_ms NUMBER` for each of its
samples, or writes it into the file that its environment calls KERNELRIG_SAMPLES; where it does
neither, its first metric counts that is a time, and without one its kernels are measured. The
statistics are kernelrig.bench's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files import serialization
from kernelrig.files.rundir import write_atomic
from kernelrig.model import (
    Bench,
    BenchResult,
    Check,
    Clocked,
    Command,
    CommandResult,
    Environment,
    Slot,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Timed,
    Verdict,
    broken,
    passed,
    unreadable,
)
from kernelrig.stages.bench.command import bench_slots, command_name, slot_stage
from kernelrig.stages.bench.pairs import compare_pairs, join_pairs
from kernelrig.stages.bench.process import STOPPED
from kernelrig.stages.bench.relay import Seen, around, clocked_of, read_relay
from kernelrig.stages.context import Context
from kernelrig.stages.harness.ended import judge_end, judge_missing
from kernelrig.stages.plain.kernel_times import SOURCE, is_timed, read_kernel_times
from kernelrig.stages.plain.metrics import printed_times_ms
from kernelrig.stages.plain.reader import judge_program
from kernelrig.stages.preflight.smi_figures import figure
from kernelrig.stages.record import find_command, log_tail, read_log, read_text, stage_record
from kernelrig.stages.timing.plausibility import find_untimely
from kernelrig.stages.timing.reader import read_timed, span, throttle_text

RESULT = "bench.json"

_SAMPLE = re.compile(r"sample_ms\s+(\S+)")


def read_bench(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each candidate, then each pair of those that passed, and file the figures."""
    bench, builds = context.bench, context.builds
    assert bench is not None, "a plan may not hold a bench stage: `invoke bench` makes it"
    assert builds is not None
    contexts = [
        replace(context, kernel=c.kernel, build=builds.by_variant[c.place], commit=c.commit)
        for c in bench.candidates
    ]
    own, timed = read_slots(stage, bench, bench_slots(bench), job, result, folder, contexts)
    pairs, compared, unlike = compare_pairs(bench, own, timed)
    if context.run_folder is not None:
        names = tuple(c.name for c in bench.candidates)
        figures = BenchResult(context.run_folder.name, names, timed, compared)
        write_atomic(context.run_folder / RESULT, serialization.to_json(figures, indent=None))
    checks = (*own, *pairs)
    if result.gpu_healthy_after is False:
        lost = broken("the GPU no longer answered after it: what it wrote is not to be trusted")
        checks = (*checks, Check("GPU", lost))
    notes = [f"compared by --force, though {u} differ" for u in unlike if bench.force]
    record = stage_record(stage, result, context, checks, notes)
    return replace(record, verdict=join_pairs(checks, compared))


def read_slots(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    job: StageJob,
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> tuple[tuple[Check, ...], tuple[Timed, ...]]:
    """Return a check for each candidate, and each slot in which something was measured.

    A candidate passes if all its processes did: after one wrong output none of its times count.
    """
    planned = {c.name: c for c in job.commands}
    bad: dict[int, list[Verdict]] = {}
    timed: list[Timed] = []
    read = read_relay if bench.processes else _read_lone
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


def _read_lone(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[Seen]:
    for number, slot in enumerate(slots):
        name, context = command_name(number, slot), contexts[slot.candidate]
        if name not in planned:
            yield name, slot.candidate, broken(f"{name} was never planned")
            continue
        of_slot = slot_stage(stage, bench, slot)
        seen = _read_process(of_slot, slot, planned[name], result, folder, context)
        yield name, slot.candidate, seen if isinstance(seen, Verdict) else (seen,)


def _place(slots: Sequence[Slot], timed: Timed) -> int:
    return slots.index(Slot(timed.candidate, timed.round, timed.process))


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
        environment, clocked = around(seen), clocked_of(under_load or list(seen.clocks))
        checked = seen.schema > 1
    else:
        found = _plain_times(command, ended, folder, context)
        if isinstance(found, Verdict):
            return found
        samples, regime = found
        gpu = context.host.gpu if context.kernel.cuda else {}
        clocked, checked = Clocked(), False
        environment = Environment(
            gpu=gpu.get("uuid", ""),
            driver=context.host.driver if gpu else "",
            power_limit_w=figure(gpu, "power.limit") or 0.0,  # as the host's probe read it
            regime=regime,
        )
    return Timed(
        slot.candidate,
        slot.round,
        samples,
        ended.seconds,
        environment,
        clocked,
        slot.process,
        spot_checked=checked,
    )


def _plain_times(
    command: Command, ended: CommandResult, folder: Path, context: Context
) -> tuple[tuple[float, ...], str] | Verdict:
    """Return a plain program's samples in ms, and how they were measured if not by itself."""
    if (verdict := judge_end(command, ended, folder, context)) is not None:
        return verdict
    wrong = judge_program(command, ended, folder, context)
    if wrong.outcome != "pass":
        return wrong
    kernel = context.kernel
    try:
        if is_timed(command):
            seen = read_kernel_times(kernel, folder, command.name, ended.seconds)
            return seen.samples_ms, f"{SOURCE}, {seen.basis}"
        written = read_text(folder / f"{command.name}.samples")
        found = _printed(written or read_log(folder, command.name) or "")
        found = found or printed_times_ms(kernel, folder, command.name, ended.seconds)
    except ProtocolError as e:
        return unreadable(e.message, e.hint)
    said = log_tail(folder, command.name)
    if not found:
        return broken("it printed no `sample_ms NUMBER`, and no metric of it is a time", *said)
    if untimely := find_untimely(found, ended.seconds):
        return broken(f"{untimely}; the times are not counted", *said)
    return found, ""


def _printed(text: str) -> tuple[float, ...]:
    found = []
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line.strip()):
            try:
                found.append(float(sample[1]))
            except ValueError:
                found.append(math.nan)
    return tuple(found)


def _candidate_check(
    name: str, bad: Sequence[Verdict], timed: Sequence[Timed], context: Context
) -> Check:
    """Return a candidate's check; of several processes without a time, a failed one goes first."""
    seconds = sum(t.seconds for t in timed)
    if bad:
        own = [v for v in bad if STOPPED not in v.summary] or bad
        worst = next((v for v in own if v.outcome == "fail"), own[0])
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return Check(name, replace(worst, summary=worst.summary + more), seconds)
    facts = {
        "build": f"{context.build.kernel}-{context.build.arch}-{context.build.variant}"
        f" {context.build.key[:12]}",
        "label": context.label,
        "SM clock": span([m for t in timed for m in t.clocked.sm_mhz], "MHz"),
        "power": span([w for t in timed for w in t.clocked.power_w], "W"),
        "temperature": span([c for t in timed for c in t.clocked.temperature_c], "C"),
        "throttle reasons": throttle_text(r for t in timed for r in t.clocked.throttle_reasons),
    }
    processes = len({t.process for t in timed})
    said = f"{len(timed)} slots of {processes} processes,"
    said += f" {sum(len(t.samples_ms) for t in timed)} samples"
    return Check(
        name,
        passed(said + _checked(timed, context)),
        seconds,
        facts={k: v for k, v in facts.items() if v},
    )


def _checked(timed: Sequence[Timed], context: Context) -> str:
    if not context.kernel.level:
        return ""
    if all(t.spot_checked for t in timed):
        return ", outputs of timed launches right in each"
    return ", outputs right behind each; built with an older harness, which checks no timed launch"
