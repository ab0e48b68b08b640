"""What the processes of relays measured: each is judged by itself, and all together by their time.

A process leaves 300 KB of JSON: those of a relay are read on all cores, as the GPU of a sweep waits
for what they say. What they must have computed is the same for all that took as many samples, and
made once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelrig.bench import relays
from kernelrig.model import (
    Bench,
    Clocked,
    Command,
    Environment,
    Slot,
    Stage,
    StageResult,
    Timed,
    Verdict,
    broken,
)
from kernelrig.proc.forked_map import forked_map
from kernelrig.stages.bench.command import RELAY, process_command, relay_file, slots_of
from kernelrig.stages.bench.process import ended_process, read_choice
from kernelrig.stages.context import Context, Setup
from kernelrig.stages.harness.result import Clock, HarnessResult
from kernelrig.stages.timing.reader import read_timed

Seen = tuple[str, int, "Sequence[Timed] | Verdict"]
"""A process by its name, its candidate, and its slots or why it has none."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a relay: its command, the stage that its samples belong to, its slots."""

    candidate: int
    file: str
    stage: Stage
    command: Command
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a good process measured; its relay took `relay_s`."""

    parts: tuple[Timed, ...]
    samples_ms: float
    relay_s: float


def read_relay(
    stage: Stage,
    bench: Bench,
    slots: Sequence[Slot],
    planned: Mapping[str, Command],
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> Iterator[Seen]:
    """Yield what each process measured, and before it what is wrong with a baseline's choice."""
    for candidate, context in enumerate(contexts):
        wrong = read_choice(stage, candidate, planned, result, folder, context)
        if wrong is not None:
            yield "that chooses", candidate, wrong
    processes = _processes(stage, bench, slots, contexts)
    read = partial(
        _read_process,
        relay=planned[RELAY],
        count=len(slots),
        result=result,
        folder=folder,
        contexts=contexts,
    )
    measured_ms = 0.0
    for process, seen in zip(processes, _read_all(processes, read), strict=True):
        name, candidate = process.command.name, process.candidate
        if isinstance(seen, Verdict):
            yield name, candidate, seen
            continue
        measured_ms += seen.samples_ms
        if measured_ms / 1e3 > seen.relay_s:  # one slot after the other: no two overlap
            said = f"with it the samples of all slots add up to {measured_ms / 1e3:.4g} s,"
            yield name, candidate, broken(f"{said} the {RELAY} ran {seen.relay_s:.3f} s")
            continue
        yield name, candidate, seen.parts


def _processes(
    stage: Stage, bench: Bench, slots: Sequence[Slot], contexts: Sequence[Context]
) -> list[Process]:
    found = []
    for number, group in enumerate(relays(slots)):
        for (candidate, process), own in slots_of(group).items():
            context, file = contexts[candidate], relay_file(number)
            setup = Setup(
                context.kernel,
                context.build,
                None,
                context.host,
                context.remote,
                bench.candidates[candidate].place,
                drawn=context.drawn,
            )
            whole, command = process_command(stage, bench, file, group, candidate, process, setup)
            own_slots = tuple(group[n] for n in own)
            found.append(Process(candidate, file, whole, command, own_slots))
    return found


def _read_all(
    processes: Sequence[Process], read: partial[_Measured | Verdict]
) -> list[_Measured | Verdict]:
    """Read one process of each number of samples here, and the others, which then find what is
    computed from that number, on all cores.
    """
    first = {process.stage.samples: process for process in reversed(processes)}.values()
    here = [p for p in processes if any(p is one for one in first)]
    there = [p for p in processes if not any(p is one for one in first)]
    seen = {id(p): read(p) for p in here}
    seen |= {id(p): said for p, said in zip(there, forked_map(read, there), strict=True)}
    return [seen[id(p)] for p in processes]


def _read_process(
    process: Process,
    *,
    relay: Command,
    count: int,
    result: StageResult,
    folder: Path,
    contexts: Sequence[Context],
) -> _Measured | Verdict:
    context, command = contexts[process.candidate], process.command
    ended = ended_process(command, relay, process.file, result, folder, context)
    if isinstance(ended, Verdict):
        return ended
    seen = read_timed(process.stage, command, ended, folder, context)
    if isinstance(seen, Verdict):
        return seen
    measured_ms = sum(s for s in seen.samples_ms if s is not None)
    return _Measured(_parts(seen, process.slots, ended.seconds / count), measured_ms, ended.seconds)


def _parts(seen: HarnessResult, own: Sequence[Slot], each_s: float) -> tuple[Timed, ...]:
    """Split the samples of one process into its slots: as many for each, in their order."""
    samples = tuple(s for s in seen.samples_ms if s is not None)
    during = [c for c in seen.clocks.during if c is not None]
    of_slot, count = len(samples) // len(own), len(own)
    return tuple(
        Timed(
            slot.candidate,
            slot.round,
            samples[of_slot * i : of_slot * (i + 1)],
            each_s,
            around(seen),
            clocked_of(during[len(during) * i // count : len(during) * (i + 1) // count]),
            slot.process,
            spot_checked=seen.schema > 1,
        )
        for i, slot in enumerate(own)
    )


def around(seen: HarnessResult) -> Environment:
    """Return what must be equal where the times of two processes are compared."""
    limits = [c.power_limit_w for c in seen.clocks]
    return Environment(
        gpu=seen.device.uuid if seen.device else "",
        driver=seen.device.driver if seen.device else "",
        power_limit_w=min(limits, default=0.0),
        regime=seen.regime or "",
        case=",".join(f"{name}={value}" for name, value in seen.case.items()),
    )


def clocked_of(seen: Sequence[Clock]) -> Clocked:
    return Clocked(
        sm_mhz=tuple(c.sm_mhz for c in seen),
        power_w=tuple(c.power_w for c in seen),
        temperature_c=tuple(c.temperature_c for c in seen),
        throttle_reasons=tuple(dict.fromkeys(c.throttle_reasons for c in seen)),
    )
