"""The timing stage: `--mode time` of the harness, on random data."""

from __future__ import annotations

from kernelrig.model import Command, Pattern, Stage
from kernelrig.stages.checksum.command import watchdog_s
from kernelrig.stages.context import Setup, problem_words

COMMAND = "timing"


def timing_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the one timed run."""
    return (timed_command(COMMAND, stage, setup),)


def timed_command(name: str, stage: Stage, setup: Setup) -> Command:
    """Return a process that times itself: random data, since zeros run a quarter faster."""
    argv = (
        *(setup.program, "--mode", "time", *problem_words(setup, stage)),
        *("--pattern", Pattern.RANDOM.value, "--seed", str(setup.seed(stage.seeds[0]))),
        *("--warmup-s", f"{stage.warmup_s:g}", "--samples", str(stage.samples)),
        *("--watchdog", watchdog_s(stage), "--result", f"{name}.json"),
    )
    return Command(name, argv, stage.time_s, core_dump=True)
