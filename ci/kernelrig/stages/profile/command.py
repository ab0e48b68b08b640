"""The profile stage: a run of the program under ncu for each group of plans that share launches."""

from __future__ import annotations

from kernelrig.model import Command, Pattern, ProfileRun, Stage
from kernelrig.stages.checksum.command import watchdog_s
from kernelrig.stages.context import Setup, problem_words
from kernelrig.stages.plain.invocation import program_env, program_words

PATTERN = Pattern.RANDOM


def profile_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the profiled runs of the program; their reports are read here, not exported there."""
    assert setup.profiling is not None, "a run of a profile stage says what it measures"
    env = program_env(setup.kernel, stage.case)
    return tuple(
        Command(
            run.name,
            (*_ncu_argv(run, setup), *_program_argv(run, stage, setup)),
            stage.time_s,
            env=env,
        )
        for run in setup.profiling.runs
    )


def _ncu_argv(run: ProfileRun, setup: Setup) -> tuple[str, ...]:
    tool = setup.host.tools.get("ncu") if setup.host else None
    options = (w for name, value in run.options.items() for w in (f"--{name}", str(value)))
    return (
        tool.path if tool else "ncu",
        *(word for section in run.sections for word in ("--section", section)),
        *(("--metrics", ",".join(run.metrics)) if run.metrics else ()),
        *("--replay-mode", run.replay, "--clock-control", run.clocks),
        *("--cache-control", run.caches),
        *("--launch-skip", str(run.launch_skip), "--launch-count", str(run.launch_count)),
        *_kernel_option(run.kernel or setup.kernel.kernel_regex),
        *options,
        *("--force-overwrite", "--export", run.name),
    )


def _kernel_option(pattern: str) -> tuple[str, ...]:
    """Return which kernels are meant; a plain program may leave it open."""
    return ("--kernel-name", f"regex:{pattern}") if pattern else ()


def _program_argv(run: ProfileRun, stage: Stage, setup: Setup) -> tuple[str, ...]:
    if setup.kernel.level == 0:
        return (setup.program, *program_words(setup.kernel, stage.case))
    return (
        *(setup.program, "--mode", "once", "--samples", str(run.launch_skip + run.launch_count)),
        *problem_words(setup, stage),
        *("--pattern", PATTERN.value, "--seed", str(setup.seed(stage.seeds[0]))),
        *("--watchdog", watchdog_s(stage), "--result", f"{run.name}.json"),
    )
