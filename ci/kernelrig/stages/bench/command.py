"""Bench stages: the timed processes of several builds on one GPU, as the commands of one job.

Harness programs take measurement slots in a relay: all processes are started together, each waits
with its inputs in place, so that the GPU stays at the clocks of long load and the start of a
process, which takes as long as some slots, is paid once. The agent runs the relay as one command, a
shell that starts them and leaves the exit code of each in `<process>.exit`. What they hand on is a
file with a byte a slot (relay.cuh); a process that fails ends it for all.

Where a plain program takes part, each slot is a process that is started when the one before has
ended. One that has no way to say its times is measured by CUPTI (stages.plain.kernel_times).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from kernelrig.bench import interleave
from kernelrig.model import Bench, Command, Kernel, Pattern, Slot, Stage
from kernelrig.stages.checksum.command import watchdog_s
from kernelrig.stages.context import Setup, problem_words
from kernelrig.stages.plain.command import program_command
from kernelrig.stages.plain.kernel_figures import measured_command
from kernelrig.stages.plain.kernel_times import times_itself
from kernelrig.stages.timing.command import timed_command

RELAY, CHOICE = "relay", "KERNELRIG_CHOICE_FILE"
SUM = "sha256sum"
"""Names each result of the relay in its output as soon as its process has ended: whoever shares the
folder may write into it later.
"""
SLOT_S = 12.0
"""The time of a slot after which the relay has hung, on top of a lone process's limit."""


def process_name(candidate: int, process: int) -> str:
    """`b2`: the second process of the second candidate."""
    return f"{chr(ord('a') + candidate)}{process + 1}"


def bench_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the commands of the whole comparison, in one job: one lock on the GPU holds them."""
    bench, builds = setup.bench, setup.builds
    assert bench is not None, "a plan may not hold a bench stage: `invoke bench` makes it"
    assert builds is not None
    setups = [
        replace(
            setup,
            kernel=c.kernel,
            build=builds.by_variant[c.place],
            selftest=None,
            variant=c.place,
        )
        for c in bench.candidates
    ]
    return slot_commands(stage, bench, bench_slots(bench), setups)


def bench_slots(bench: Bench) -> tuple[Slot, ...]:
    return interleave(len(bench.candidates), bench.rounds, bench.processes)


def slot_commands(
    stage: Stage, bench: Bench, slots: Sequence[Slot], setups: Sequence[Setup]
) -> tuple[Command, ...]:
    """Return the relay, or a process for each slot in their order."""
    if bench.processes:
        return relay_commands(stage, bench, slots, setups)
    return tuple(
        _lone_command(stage, bench, number, slot, setups[slot.candidate])
        for number, slot in enumerate(slots)
    )


def _lone_command(stage: Stage, bench: Bench, number: int, slot: Slot, setup: Setup) -> Command:
    name, kernel = command_name(number, slot), setup.kernel
    if not kernel.level:
        measured = kernel.prints_no_time and not times_itself(setup.build.binary)
        start = measured_command if measured else program_command
        command = start(name, stage, setup)
        return replace(command, env={**command.env, "KERNELRIG_SAMPLES": f"{name}.samples"})
    command = timed_command(name, slot_stage(stage, bench, slot), setup)
    if _chooses(kernel):
        return replace(command, env={CHOICE: choice_file(slot.candidate)})
    return command


def command_name(number: int, slot: Slot) -> str:
    """`03-b`: sorts by time, and names the candidate."""
    return f"{number:02d}-{chr(ord('a') + slot.candidate)}"


def slot_stage(stage: Stage, bench: Bench, slot: Slot) -> Stage:
    return stage if slot.round else replace(stage, warmup_s=bench.settle_s)


def relay_commands(
    stage: Stage, bench: Bench, slots: Sequence[Slot], setups: Sequence[Setup]
) -> tuple[Command, ...]:
    """Return a command for each baseline that may have to choose, then the relay itself."""
    choosing = [i for i, s in enumerate(setups) if _chooses(s.kernel)]
    limited = _limited(stage, slots)
    lines = [f"dd if=/dev/zero of={RELAY} bs={len(slots)} count=1 2>{RELAY}.dd || exit 1"]
    for (candidate, process), own in slots_of(slots).items():
        command = _process(limited, bench, candidate, process, own, setups[candidate])
        before = f"{CHOICE}={choice_file(candidate)} " if candidate in choosing else ""
        lines.append(
            f"( {before}{shlex.join(command.argv)} >{command.name}.stdout.log"
            f" 2>{command.name}.stderr.log; code=$?; echo $code >{command.name}.exit;"
            f" {SUM} {command.name}.json {command.name}.exit 2>/dev/null;"
            f" [ $code = 0 ] || echo {command.name} >>{RELAY} ) &"
        )
    script = "\n".join((*lines, "wait"))
    return (
        *(choose_command(stage, i, setups[i]) for i in choosing),
        Command(RELAY, ("sh", "-c", script), limited.time_s, core_dump=True),
    )


def _chooses(kernel: Kernel) -> bool:
    """Return whether a library may choose the kernels: an operation's launch is its own."""
    return kernel.baseline and not kernel.is_operation


def choice_file(candidate: int) -> str:
    """Where a baseline keeps what it chose: of its processes the first chooses for all."""
    return f"choice-{chr(ord('a') + candidate)}"


def choose_command(stage: Stage, candidate: int, setup: Setup) -> Command:
    """Return a checked launch before the relay: what a library chooses, it chooses alone."""
    name = f"choose-{chr(ord('a') + candidate)}"
    argv = (
        *(setup.program, "--mode", "check", *problem_words(setup, stage)),
        *("--pattern", Pattern.RANDOM.value, "--seed", str(setup.seed(stage.seeds[0]))),
        *("--watchdog", watchdog_s(stage), "--result", f"{name}.json"),
    )
    env = {CHOICE: choice_file(candidate)}
    return Command(name, argv, stage.time_s, env=env, core_dump=True)


def slots_of(slots: Sequence[Slot]) -> dict[tuple[int, int], list[int]]:
    """Return the numbers of the slots of each process of each candidate."""
    own: dict[tuple[int, int], list[int]] = {}
    for number, slot in enumerate(slots):
        own.setdefault((slot.candidate, slot.process), []).append(number)
    return own


def process_command(
    stage: Stage, bench: Bench, slots: Sequence[Slot], candidate: int, process: int, setup: Setup
) -> tuple[Stage, Command]:
    """Return the command of a process, and the stage that its samples belong to."""
    own = slots_of(slots)[candidate, process]
    limited = _limited(stage, slots)
    whole = replace(limited, samples=stage.samples * len(own))
    return whole, _process(limited, bench, candidate, process, own, setup)


def _process(
    stage: Stage, bench: Bench, candidate: int, process: int, own: Sequence[int], setup: Setup
) -> Command:
    command = timed_command(process_name(candidate, process), stage, setup)
    more = ("--relay", RELAY, "--turns", ",".join(map(str, own)))
    return replace(command, argv=(*command.argv, *more, "--settle-s", f"{bench.settle_s:g}"))


def _limited(stage: Stage, slots: Sequence[Slot]) -> Stage:
    return replace(stage, time_s=stage.time_s + SLOT_S * len(slots))
