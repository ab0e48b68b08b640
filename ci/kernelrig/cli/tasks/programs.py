"""Tasks on CUDA programs of anybody's: no entry in kernels.yaml, no harness."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import name_list, number_list, optional_whole_number, whole_number
from kernelrig.cli.project import in_project, tools_root
from kernelrig.cli.reply import Reply
from kernelrig.cli.rest import rest_of_command
from kernelrig.errors import ConfigError
from kernelrig.terminal.command_name import COMMAND

if TYPE_CHECKING:
    from kernelrig.run.program import ProgramRequest

ARCH = (
    "the GPU that the program sees, sm_100a (B200) or sm_90a (H200); default: what the source has"
    " instructions of or names, else sm_100a"
)


@command(
    iterable=["also"],
    help={
        "file": "a source (prog.cu) or an executable; the program's own arguments go after --",
        "also": "another source of the program; further words are taken as such",
        "arch": ARCH,
        "nvcc_flags": "more flags for nvcc, as one word: --nvcc-flags='-Iinclude -DN=64'",
        "schedules": "schedules of each launch; default: 4",
        "seed": "seed of the schedules",
        "observe": "memory, races, init, sync; default: all",
        "kernel": "observe the kernels that this regular expression finds; others are run once",
        "launch": "observe only the launches of these numbers, as 1,3; others are run once",
        "ctas": "run only the first CTAs of each grid, as many as this; default: all",
        "clusters": "run only the first clusters of each grid",
        "max_steps": "end a launch when a wave of its CTAs took so many steps; default: 20 million",
        "accumulate": "fp32, or hardware: the published models of tensor cores",
        "engine": "native, numpy, or auto: native where it can be built",
        "accepted": "file of accepted findings: they fail nothing; default with --accept:"
        " STEM.accepted.yaml",
        "accept": "accept the errors of this run, for this reason, in the file of --accepted",
    },
)
def run(
    file: str,
    also: list[str],
    arch: str = "",
    nvcc_flags: str = "",
    schedules: str = "4",
    seed: str = "0",
    observe: str = "",
    kernel: str = "",
    launch: str = "",
    ctas: str = "0",
    clusters: str = "0",
    max_steps: str = "",
    accumulate: str = "fp32",
    engine: str = "auto",
    severity: str = "",
    strict: bool = False,
    accepted: str = "",
    accept: str = "",
    system_cuda: bool = False,
) -> Reply:
    """Compile and run a CUDA program on this machine, its kernels emulated; never time."""
    request = _asked(
        file,
        also=also, arch=arch, nvcc_flags=nvcc_flags, schedules=schedules, seed=seed, kernel=kernel,
        launch=launch, ctas=ctas, clusters=clusters, max_steps=max_steps, accumulate=accumulate,
        engine=engine, system_cuda=system_cuda,
    )  # fmt: skip
    return _answer(
        replace(
            request,
            after_a_pass=_after_a_pass(request.files[0]),
            observe=name_list("observe", observe),
            severities=name_list("severity", severity),
            strict=strict,
            accepted=Path(accepted) if accepted else None,
            accept=accept,
        )
    )


@command(
    iterable=["also"],
    help={
        "file": "a source (prog.cu) or an executable; the program's own arguments go after --",
        "also": "another source of the program; further words are taken as such",
        "out": "the new folder; default: STEM-launches, here",
        "arch": ARCH,
        "nvcc_flags": "more flags for nvcc, as one word: --nvcc-flags='-Iinclude -DN=64'",
        "kernel": "record launches of the kernels that this regular expression finds; default: all",
        "launch": "record only the launches of these numbers, as 1,3",
        "ctas": "run and record only the first CTAs of each grid, as many as this",
        "clusters": "run and record only the first clusters of each grid",
        "schedules": "schedules of each recorded launch; what any of them reads is kept",
        "seed": "seed of the schedules",
        "max_steps": "end a launch when a wave of its CTAs took so many steps; default: 20 million",
        "accumulate": "fp32, or hardware: the published models of tensor cores",
        "engine": "native, numpy, or auto: native where it can be built",
    },
)
def record(
    file: str,
    also: list[str],
    out: str = "",
    arch: str = "",
    nvcc_flags: str = "",
    kernel: str = "",
    launch: str = "",
    ctas: str = "0",
    clusters: str = "0",
    schedules: str = "4",
    seed: str = "0",
    max_steps: str = "",
    accumulate: str = "fp32",
    engine: str = "auto",
    system_cuda: bool = False,
) -> Reply:
    """Run a CUDA program as `run` does, and write its launches with the memory that they read."""
    request = _asked(
        file,
        also=also, arch=arch, nvcc_flags=nvcc_flags, schedules=schedules, seed=seed, kernel=kernel,
        launch=launch, ctas=ctas, clusters=clusters, max_steps=max_steps, accumulate=accumulate,
        engine=engine, system_cuda=system_cuda,
    )  # fmt: skip
    return _answer(replace(request, record=Path(out or f"{Path(file).stem}-launches")))


def _asked(
    file: str,
    *,
    also: list[str],
    arch: str,
    nvcc_flags: str,
    schedules: str,
    seed: str,
    kernel: str,
    launch: str,
    ctas: str,
    clusters: str,
    max_steps: str,
    accumulate: str,
    engine: str,
    system_cuda: bool,
) -> ProgramRequest:
    """Return what `run` and `record` are both asked."""
    from kernelrig.run.program import ProgramRequest

    return ProgramRequest(
        files=(Path(file), *map(Path, also)),
        arguments=rest_of_command(),
        arch=arch,
        nvcc_flags=_flags(nvcc_flags),
        schedules=whole_number("schedules", schedules),
        seed=whole_number("seed", seed),
        kernel=kernel,
        launches=number_list("launch", launch),
        ctas=whole_number("ctas", ctas),
        clusters=whole_number("clusters", clusters),
        max_steps=optional_whole_number("max-steps", max_steps),
        accumulate=accumulate,
        engine=engine,
        system_cuda=system_cuda,
    )


def _flags(nvcc_flags: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(nvcc_flags))
    except ValueError as e:
        raise ConfigError(f"--nvcc-flags cannot be read: {e}") from e


def _after_a_pass(file: Path) -> str:
    """Return what comes after a program has passed; nothing where its folder is a project."""
    if in_project() or file.suffix not in (".cu", ".cpp", ".cc"):
        return ""
    return (
        f"{COMMAND} init {shlex.quote(str(file))} makes a project of it: a verdict on every save"
        " (watch), and all stages here or on a host with a GPU (remote-test)"
    )


def _answer(request: ProgramRequest) -> Reply:
    from kernelrig.run.program import emulate_program

    # With --json stdout is for the document: the program's own output goes where progress goes.
    free = sys.stderr.buffer if sys.stdout is sys.stderr else None
    report = emulate_program(tools_root(), request, free)
    # The program's own output may end within a line: the report begins behind an empty one.
    return Reply(f"\n{report.text}", exit_code=report.exit_code, program=report.program)
