"""Bench stages: the timed processes of several builds on one GPU, as the commands of one job.

Harness programs take measurement slots in a relay: all processes are started together, each waits
with its inputs in place, so that the GPU stays at the clocks of long load and the start of a
process, which takes as long as some slots, is paid once. The agent runs the relay as one command, a
shell that starts them and leaves the exit code of each in `<process>.exit`. What they hand on is a
file with a byte a slot (relay.cuh); a process that fails ends it for all. More builds than the GPU
has room for are measured in groups: the shell runs one relay after the other.

Where a plain program takes part, each slot is a process that is started when the one before has
ended. One that has no way to say its times is measured by CUPTI (stages.plain.kernel_times).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from kernelrig.bench import candidate_letters, interleave_groups, relays
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
HEAD_START_S = 0.3
"""The first process has the driver to itself until it warms the card up; the
others start meanwhile. 16 that start at once wait for one another, and the card waits for all.
"""
SLOT_S = 12.0
"""The time of a slot after which the relay has hung, on top of a lone process's limit."""


def process_name(candidate: int, process: int) -> str:
    """`b2`: the second process of the second candidate."""
    return f"{candidate_letters(candidate)}{process + 1}"


def relay_file(number: int) -> str:
    """Return what the processes of a relay share; most commands run one alone."""
    return f"{RELAY}-{number + 1}" if number else RELAY


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
    count = len(bench.candidates)
    return interleave_groups(count, bench.rounds, bench.processes, bench.together)


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
    return f"{number:02d}-{candidate_letters(slot.candidate)}"


def slot_stage(stage: Stage, bench: Bench, slot: Slot) -> Stage:
    return stage if slot.round else replace(stage, warmup_s=bench.settle_s)


def relay_commands(
    stage: Stage, bench: Bench, slots: Sequence[Slot], setups: Sequence[Setup]
) -> tuple[Command, ...]:
    """Return a command for each baseline that may have to choose, then that of the relays."""
    choosing = [i for i, s in enumerate(setups) if _chooses(s.kernel)]
    groups = relays(slots)
    script = "\n".join(
        line
        for number, group in enumerate(groups)
        for line in _relay_lines(stage, bench, relay_file(number), group, setups)
    )
    limit_s = sum(_limited(stage, group).time_s for group in groups)
    return (
        *(choose_command(stage, i, setups[i]) for i in choosing),
        Command(RELAY, ("sh", "-c", script), limit_s, core_dump=True),
    )


def _relay_lines(
    stage: Stage, bench: Bench, file: str, slots: Sequence[Slot], setups: Sequence[Setup]
) -> list[str]:
    """Return what starts the processes of one relay, and waits for their end."""
    limited = _limited(stage, slots)
    lines = [f"dd if=/dev/zero of={file} bs={len(slots)} count=1 2>{file}.dd || exit 1"]
    for number, ((candidate, process), own) in enumerate(slots_of(slots).items()):
        if number == 1:
            lines.append(f"sleep {HEAD_START_S}")
        setup = setups[candidate]
        command = _process(limited, bench, file, candidate, process, own, setup)
        before = f"{CHOICE}={choice_file(candidate)} " if _chooses(setup.kernel) else ""
        lines.append(
            f"( {before}{shlex.join(command.argv)} >{command.name}.stdout.log"
            f" 2>{command.name}.stderr.log; code=$?; echo $code >{command.name}.exit;"
            f" {SUM} {command.name}.json {command.name}.exit 2>/dev/null;"
            f" [ $code = 0 ] || echo {command.name} >>{file} ) &"
        )
    return [*lines, "wait"]


def _chooses(kernel: Kernel) -> bool:
    """Return whether a library may choose the kernels: an operation's launch is its own."""
    return kernel.baseline and not kernel.is_operation


def choice_file(candidate: int) -> str:
    """Where a baseline keeps what it chose: of its processes the first chooses for all."""
    return f"choice-{candidate_letters(candidate)}"


def choosing_name(candidate: int) -> str:
    return f"choose-{candidate_letters(candidate)}"


def choose_command(stage: Stage, candidate: int, setup: Setup) -> Command:
    """Return a checked launch before the relay: what a library chooses, it chooses alone."""
    name = choosing_name(candidate)
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
    stage: Stage,
    bench: Bench,
    file: str,
    slots: Sequence[Slot],
    candidate: int,
    process: int,
    setup: Setup,
) -> tuple[Stage, Command]:
    """Return the command of a process of a relay, and the stage that its samples belong to."""
    own = slots_of(slots)[candidate, process]
    limited = _limited(stage, slots)
    whole = replace(limited, samples=stage.samples * len(own))
    return whole, _process(limited, bench, file, candidate, process, own, setup)


def _process(
    stage: Stage,
    bench: Bench,
    file: str,
    candidate: int,
    process: int,
    own: Sequence[int],
    setup: Setup,
) -> Command:
    command = timed_command(process_name(candidate, process), stage, setup)
    more = ("--relay", file, "--turns", ",".join(map(str, own)))
    return replace(command, argv=(*command.argv, *more, "--settle-s", f"{bench.settle_s:g}"))


def _limited(stage: Stage, slots: Sequence[Slot]) -> Stage:
    return replace(stage, time_s=stage.time_s + SLOT_S * len(slots))
