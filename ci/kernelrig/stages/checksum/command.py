"""Checksum stages: `--mode check` of the harness, once for each pattern and seed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelrig.model import Command, Pattern, Stage
from kernelrig.stages.context import Setup, problem_words

WATCHDOG_MARGIN_S = 30
"""The agent's limit comes first, as it dumps the hang; the program's own is the last resort."""


def watchdog_s(stage: Stage) -> str:
    return str(math.ceil(stage.time_s) + WATCHDOG_MARGIN_S)


def check_runs(stage: Stage) -> Iterator[tuple[str, Pattern, int]]:
    """Yield the name, pattern and the plan's seed of each command; constants need one alone."""
    for pattern in stage.patterns:
        for seed in stage.seeds[:1] if pattern is Pattern.CONSTANT else stage.seeds:
            yield f"{pattern.value}-{seed}", pattern, seed


def checksum_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return one `--mode check` command for each pattern and seed."""
    problem = problem_words(setup, stage)
    return tuple(
        Command(
            name,
            (
                *(setup.program, "--mode", "check", *problem),
                *("--pattern", pattern.value, "--seed", str(setup.seed(seed))),
                *("--watchdog", watchdog_s(stage), "--result", f"{name}.json"),
            ),
            stage.time_s,
            core_dump=True,
        )
        for name, pattern, seed in check_runs(stage)
    )
