"""The table of stages: for each kind the commands that it runs and the reader of what they left.

A kind has up to four pairs: for a program that speaks the harness's command line and for a plain
program, on a host and in the emulator. A kind without a pair cannot be run that way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelrig.model import (
    Command,
    DeviceKind,
    Kernel,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.stages.bench.command import bench_commands
from kernelrig.stages.bench.reader import read_bench
from kernelrig.stages.checksum.command import checksum_commands
from kernelrig.stages.checksum.reader import read_checksum
from kernelrig.stages.context import Context, Setup
from kernelrig.stages.emulation.command import (
    emulated_checksum_commands,
    emulated_fault_commands,
    emulated_sanitizer_commands,
    why_not_emulated,
)
from kernelrig.stages.emulation.reader import read_emulated_checksum, read_emulated_sanitizer
from kernelrig.stages.fault.reader import read_fault
from kernelrig.stages.plain.command import program_commands
from kernelrig.stages.plain.emulated_program import emulated_program_commands
from kernelrig.stages.plain.kernel_figures import has_figures
from kernelrig.stages.plain.metrics import metric_commands, read_metrics
from kernelrig.stages.plain.program_findings import read_emulated_program
from kernelrig.stages.plain.reader import read_program
from kernelrig.stages.profile.command import profile_commands
from kernelrig.stages.profile.reader import read_profile
from kernelrig.stages.sanitizer.command import sanitizer_commands
from kernelrig.stages.sanitizer.reader import read_sanitizer
from kernelrig.stages.timing.command import timing_commands
from kernelrig.stages.timing.reader import read_timing

Builder = Callable[[Stage, Setup], tuple[Command, ...]]
Reader = Callable[[Stage, StageJob, StageResult, Path, Context], StageRecord]


@dataclass(frozen=True, slots=True)
class Pair:
    """The command builder and the reader of one kind of stage."""

    commands: Builder
    read: Reader


@dataclass(frozen=True, slots=True)
class Row:
    """The pairs of a kind; None where the kind cannot be run that way."""

    harness: Pair | None = None
    plain: Pair | None = None
    emulated: Pair | None = None
    emulated_plain: Pair | None = None


_SANITIZER = Pair(sanitizer_commands, read_sanitizer)
_EMULATED_PROGRAM = Pair(emulated_program_commands, read_emulated_program)
_PROFILE = Pair(profile_commands, read_profile)
_BENCH = Pair(bench_commands, read_bench)

TABLE: Mapping[StageKind, Row] = {
    StageKind.CHECKSUM: Row(
        harness=Pair(checksum_commands, read_checksum),
        plain=Pair(program_commands, read_program),
        emulated=Pair(emulated_checksum_commands, read_emulated_checksum),
        emulated_plain=_EMULATED_PROGRAM,
    ),
    StageKind.SANITIZER: Row(
        harness=_SANITIZER,
        plain=_SANITIZER,
        emulated=Pair(emulated_sanitizer_commands, read_emulated_sanitizer),
        emulated_plain=_EMULATED_PROGRAM,
    ),
    StageKind.TIMING: Row(
        harness=Pair(timing_commands, read_timing), plain=Pair(metric_commands, read_metrics)
    ),
    StageKind.PROFILE: Row(harness=_PROFILE, plain=_PROFILE),
    StageKind.BENCH: Row(harness=_BENCH, plain=_BENCH),
    StageKind.FAULT: Row(emulated=Pair(emulated_fault_commands, read_fault)),
}

_NEED_CUDA = (StageKind.SANITIZER, StageKind.PROFILE)


def find_pair(kernel: Kernel, kind: StageKind, device: DeviceKind) -> Pair | None:
    """Return how a stage of `kind` is run and read on `device`, None if it cannot be."""
    row = TABLE.get(kind, Row())
    if device is DeviceKind.EMULATOR:
        return row.emulated if kernel.level else row.emulated_plain
    return row.harness if kernel.level else row.plain


def why_not(kernel: Kernel, arch: str, stage: Stage, device: DeviceKind = DeviceKind.GPU) -> str:
    """Return why a stage has nothing to run for this kernel on `arch`, empty if it has.

    `device` is what would execute it (kernelrig.model.executor).
    """
    lacking = kernel.lacks(stage.variant, arch) if stage.variant else ""
    if device is DeviceKind.EMULATOR:
        return lacking or why_not_emulated(kernel, stage)
    if find_pair(kernel, stage.kind, device) is None:
        return f"{kernel.name} is a plain program: it has no {stage.kind} mode"
    if stage.kind is StageKind.TIMING and not kernel.level and not has_figures(kernel):
        return f"{kernel.name} is a CPU program without 'metrics': nothing says its times"
    if stage.kind in _NEED_CUDA and not kernel.cuda:
        return f"{kernel.name} is a CPU program (cuda: false)"
    return lacking
