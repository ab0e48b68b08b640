"""The profile stage: ncu over one launch, and two exports of its report as CSV."""

from __future__ import annotations

from kernelrig.model import Command, Pattern, Stage
from kernelrig.stages.checksum.command import watchdog_s
from kernelrig.stages.context import Setup, case_text, stage_case

PROFILE, RAW, DETAILS = "profile", "raw", "details"
RAW_CSV, DETAILS_CSV = "profile-raw.csv", "profile-details.csv"
REPORT = "profile.ncu-rep"
SKIP, LAUNCHES = 2, 3
PATTERN = Pattern.RANDOM


def profile_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the profiled run and the two exports of its report as CSV.

    Clocks are left as they are, and the third launch is taken: the first two warm up.
    """
    tool = setup.host.tools.get("ncu") if setup.host else None
    ncu = tool.path if tool else "ncu"
    profiled = (
        *(ncu, "--set", "detailed", "--section", "WarpStateStats", "--section", "SchedulerStats"),
        *("--clock-control", "none", "--import-source", "yes"),
        *("--launch-skip", str(SKIP), "--launch-count", "1"),
        *("-k", f"regex:{setup.kernel.kernel_regex}", "-f", "-o", PROFILE),
        *_program_argv(stage, setup),
    )
    return (
        Command(PROFILE, profiled, stage.time_s),
        *(
            Command(
                page,
                (ncu, "--import", REPORT, "--page", page, "--csv"),
                stage.time_s,
                stdout=csv_file,
            )
            for page, csv_file in ((RAW, RAW_CSV), (DETAILS, DETAILS_CSV))
        ),
    )


def _program_argv(stage: Stage, setup: Setup) -> tuple[str, ...]:
    if setup.kernel.level == 0:
        return (setup.program, *setup.kernel.args)
    return (
        *(setup.program, "--mode", "once", "--samples", str(LAUNCHES)),
        *("--case", case_text(stage_case(setup.kernel, stage))),
        *("--pattern", PATTERN.value, "--seed", str(setup.seed(stage.seeds[0]))),
        *("--watchdog", watchdog_s(stage), "--result", f"{PROFILE}.json"),
    )
