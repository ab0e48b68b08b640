"""Stages: for each kind the commands that an agent runs, and the reader of what they left.

Nothing here opens a connection or starts what is judged: whoever holds a run directory reaches the
same verdicts from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.stages.chains import Chains
    from kernelrig.stages.checksum.declared_outputs import wanted_at
    from kernelrig.stages.checksum.every_output import expected_rows
    from kernelrig.stages.context import Context
    from kernelrig.stages.emulation.command import (
        MAX_IMAGES,
        OBSERVERS,
        OUTPUT,
        Launch,
        is_large,
        launches,
        output_names,
    )
    from kernelrig.stages.harness.result import Clock, load_result
    from kernelrig.stages.jobs import inspect_early, runs_without_tool, stage_jobs
    from kernelrig.stages.plain.emulated_program import emulated_programs, program_place
    from kernelrig.stages.plain.invocation import FILES, input_files
    from kernelrig.stages.plain.kernel_figures import TOTAL, has_figures, kernel_times_of
    from kernelrig.stages.plain.kernel_times import TIMER, times_itself
    from kernelrig.stages.preflight.gpu_speed import speed_checks
    from kernelrig.stages.preflight.reader import host_checks, judge_preflight
    from kernelrig.stages.profile.merged_plans import WARM_UP, merge_plans
    from kernelrig.stages.table import why_not
    from kernelrig.stages.timing.phase_capture import phase_capture, releases_early
    from kernelrig.stages.timing.phase_trace import phase_timeline
    from kernelrig.stages.timing.plausibility import THROTTLE_REASONS
    from kernelrig.stages.timing.reader import load_timing, nearest_rank
    from kernelrig.stages.verdicts import read_stage

__all__ = [
    "FILES",
    "MAX_IMAGES",
    "OBSERVERS",
    "OUTPUT",
    "THROTTLE_REASONS",
    "TIMER",
    "TOTAL",
    "WARM_UP",
    "Chains",
    "Clock",
    "Context",
    "Launch",
    "emulated_programs",
    "expected_rows",
    "has_figures",
    "host_checks",
    "input_files",
    "inspect_early",
    "is_large",
    "judge_preflight",
    "kernel_times_of",
    "launches",
    "load_result",
    "load_timing",
    "merge_plans",
    "nearest_rank",
    "output_names",
    "phase_capture",
    "phase_timeline",
    "program_place",
    "read_stage",
    "releases_early",
    "runs_without_tool",
    "speed_checks",
    "stage_jobs",
    "times_itself",
    "wanted_at",
    "why_not",
]

__getattr__ = lazy_exports(__name__)
