"""`invoke run`: a CUDA program of anybody's, compiled and run with its kernels emulated."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernelrig.build.program_executable import check_executable, is_executable
from kernelrig.build.program_sources import SOURCES, BuiltProgram, build_program
from kernelrig.build.toolchain import find_toolchain, require_arch
from kernelrig.config.selection import choose
from kernelrig.emu.__main__ import MOST_SCHEDULES, brief, shown
from kernelrig.emu.cudart.devices import device_of
from kernelrig.emu.cudart.library_build import library_folder
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.modules import Resources
from kernelrig.emu.cudart.program_launch import HowToRun, LaunchRun
from kernelrig.emu.cudart.program_session import Note, Program, ProgramRun, run_program
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS
from kernelrig.emu.machine.findings import Finding as Found
from kernelrig.errors import ConfigError
from kernelrig.model import (
    EmulatedLaunch,
    EmulatedProgram,
    EmulatorEngine,
    Finding,
    HostNote,
    LaunchFinding,
    Toolchain,
)
from kernelrig.model.frame import Frame
from kernelrig.terminal.log import say, working

DEFAULT_ARCH = "sm_100a"
TOOL = "emulator"
ALL_ENGINES = tuple(engine.value for engine in EmulatorEngine)


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What to run, and how. `files` are sources; `arguments` the program's own."""

    files: tuple[Path, ...]
    arguments: tuple[str, ...] = ()
    arch: str = DEFAULT_ARCH
    nvcc_flags: tuple[str, ...] = ()
    schedules: int = 4
    seed: int = 0
    observe: tuple[str, ...] = ()
    engine: str = "auto"
    system_cuda: bool = False
    kernel: str = ""
    launch: int = 0
    ctas: int = 0
    clusters: int = 0


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """What a run is judged by: `text` for people, and the exit code."""

    program: EmulatedProgram
    text: str
    exit_code: int


def emulate_program(
    root: Path, request: ProgramRequest, stdout: IO[bytes] | None = None
) -> ProgramReport:
    """Compile and run a program. Its output goes to this process's streams, or to `stdout`.

    Raises ConfigError, BuildError, and CiError for what cannot be emulated.
    """
    _check(request)
    device = device_of(request.arch)
    engine = choose_engine(request.engine, say)
    if engine.why:
        say(f"{engine.why}: the engine is numpy")
    tools = find_toolchain(root, system=request.system_cuda)
    require_arch(tools, request.arch)
    libraries = library_folder(tools.root / "include", say)
    with tempfile.TemporaryDirectory(prefix="kernelrig-run-") as place:
        built = _built(request, tools, libraries, Path(place))
        resources = {
            r.name: Resources(r.registers, r.stack_bytes, r.shared_bytes) for r in built.resources
        }
        program = Program(
            built.path, request.arguments, libraries, str(request.files[0]), resources
        )
        how = HowToRun(
            Schedule(seed=request.seed, engine=engine.name),
            request.schedules,
            request.observe or ALL_OBSERVERS,
            kernel=request.kernel,
            launch=request.launch,
            ctas=request.ctas,
            clusters=request.clusters,
        )
        ran = run_program(program, device, how, say, stdout)
    record = EmulatedProgram(
        device.name,
        request.schedules,
        ran.exit_code,
        tuple(map(_launch_record, ran.launches)),
        tuple(map(_note_record, ran.notes)),
    )
    text = report_text(ran, device.name, request.schedules)
    return ProgramReport(record, text, exit_code(ran))


def _launch_record(ran: LaunchRun) -> EmulatedLaunch:
    findings = tuple(LaunchFinding(f.severity, _finding_record(ran, f)) for f in ran.findings)
    return EmulatedLaunch(
        ran.number, ran.place, ran.kernel, ran.grid, ran.block, ran.cluster, ran.observed, ran.ctas,
        ran.stopped, ran.instructions, findings, ran.differing,
    )  # fmt: skip


def _finding_record(ran: LaunchRun, found: Found) -> Finding:
    place, _, function = found.source.partition(" ")
    file, _, line = place.rpartition(":")
    return Finding(
        tool=TOOL,
        kind=found.kind,
        message=found.message,
        kernel=ran.kernel,
        file=file,
        line=int(line) if line.isdigit() else 0,
        threads=f"warp {found.warp} of CTA {found.cta}" if found.cta >= 0 else "",
        count=found.count,
        frames=found.frames or ((Frame(file, int(line), function),) if line.isdigit() else ()),
        related=found.related,
        fix=found.fix,
        section=found.section,
        objects=found.objects,
        schedules=found.schedules,
        warps=found.warps,
        ctas=found.ctas,
    )


def _note_record(note: Note) -> HostNote:
    kind = note.kind.name.lower().replace("_", "-")
    return HostNote(kind, note.place, _note_line(note).partition(": ")[2])


def _built(
    request: ProgramRequest, tools: Toolchain, libraries: Path, folder: Path
) -> BuiltProgram:
    """Return the program: compiled, or an executable that was given."""
    first = request.files[0]
    if is_executable(first):
        if len(request.files) > 1 or request.nvcc_flags:
            raise ConfigError(f"{first} is an executable: it takes no other files, and no flags")
        check_executable(first, libraries / "libcudart.so")
        return BuiltProgram(first.absolute(), ())
    with working(f"compiling {first.name} for {request.arch}"):
        return build_program(
            request.files, request.arch, tools, libraries, folder, request.nvcc_flags
        )


def _check(request: ProgramRequest) -> None:
    choose(ALL_ENGINES, request.engine, "engine")
    for name in request.observe:
        choose(ALL_OBSERVERS, name, "observer")
    try:
        re.compile(request.kernel)
    except re.error as e:
        raise ConfigError(f"--kernel is no regular expression: {e}") from e
    if request.ctas and request.clusters:
        raise ConfigError("--ctas and --clusters say the same", "pass one of them")
    if not 1 <= request.schedules <= MOST_SCHEDULES:
        raise ConfigError(f"--schedules is from 1 to {MOST_SCHEDULES}, not {request.schedules}")
    for file in request.files:
        if not file.is_file():
            raise ConfigError(f"no file {file}")
        if file.suffix not in SOURCES and not is_executable(file):
            known = ", ".join(SOURCES)
            raise ConfigError(f"{file} is no executable, and no source: those end in {known}")


def exit_code(ran: ProgramRun) -> int:
    """Return 1 for an error finding, a launch that did not end, or the program's own failure.

    Where none of these was seen and no launch was observed nothing was established: that is 2.
    """
    found = any(f.severity == "error" for launch in ran.launches for f in launch.findings)
    stopped = any(launch.stopped for launch in ran.launches)
    touched = any(note.kind is Noted.HOST_ACCESS for note in ran.notes)
    if found or stopped or touched or ran.exit_code:
        return 1
    return 0 if any(launch.observed for launch in ran.launches) else ConfigError.exit_code


def report_text(ran: ProgramRun, device: str, schedules: int) -> str:
    """Return the report: what each launch found, what host calls did, how the program ended."""
    lines = []
    for launch in ran.launches:
        lines += _launch_lines(launch)
    lines += [_note_line(note) for note in ran.notes]
    errors = sum(f.severity == "error" for launch in ran.launches for f in launch.findings)
    warnings = sum(len(launch.findings) for launch in ran.launches) - errors
    lines.append(f"the program {_ending(ran.exit_code)}")
    observed = sum(launch.observed for launch in ran.launches)
    count = _counted(observed)
    lines.append(
        f"emulated: {device}, {count}, {schedules} schedules each, "
        f"{errors} errors, {warnings} warnings"
    )
    lines += _not_established(ran, observed)
    return "\n".join(lines)


def _not_established(ran: ProgramRun, observed: int) -> list[str]:
    """Return what the verdict does not rest on."""
    lines = []
    if others := len(ran.launches) - observed:
        verb = "was" if others == 1 else "were"
        lines.append(f"{_counted(others)} {verb} not observed: run once, for what later ones read")
    if parts := [launch for launch in ran.launches if launch.ctas]:
        first = parts[0]
        whole = first.grid[0] * first.grid[1] * first.grid[2]
        lines.append(
            f"of {_counted(len(parts))} a part was run ({first.ctas} of {whole} CTAs of"
            f" {first.kernel}): what the rest would have written is not there, and the program's"
            " own check may fail for it"
        )
    if not observed:
        lines.append("nothing was established of kernels: none was observed")
    return lines


def _counted(launches: int) -> str:
    return f"{launches} launch{'' if launches == 1 else 'es'}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _launch_lines(launch: LaunchRun) -> list[str]:
    if not launch.findings and not launch.differing and not launch.stopped:
        return []
    lines = [f"{_at(launch.place)}launch {launch.number}: {_configuration(launch)}"]
    for finding in launch.findings:
        cause = None if finding.cause is None else launch.findings[finding.cause]
        lines.append(f"  follows from that: {brief(finding)}" if cause else shown(finding))
    if launch.differing:
        names = ", ".join(launch.differing)
        lines.append(f"note: schedules left different values in {names}")
    return lines


def _configuration(launch: LaunchRun) -> str:
    parts = [f"grid {_triple(launch.grid)}", f"block {_triple(launch.block)}"]
    if launch.cluster != (1, 1, 1):
        parts.append(f"cluster {_triple(launch.cluster)}")
    return f"{launch.kernel}, {', '.join(parts)}"


def _triple(values: Sequence[int]) -> str:
    shown_values = list(values)
    while len(shown_values) > 1 and shown_values[-1] == 1:
        shown_values.pop()
    return " x ".join(map(str, shown_values))


def _note_line(note: Note) -> str:
    at, where = _at(note.place), f"{note.allocation} + {note.offset:#x}"
    match note.kind:
        case Noted.FAILED_CALL:
            return f"warning: {at}{note.text} ({note.code})"
        case Noted.UNWRITTEN_COPY:
            return (
                f"warning: {at}{note.text} read {note.size} bytes that nothing wrote, the first at"
                f" {where}"
            )
        case Noted.HOST_ACCESS:
            return (
                f"error: the host touched device memory, {where}: only kernels reach what"
                " cudaMalloc made; copy it with cudaMemcpy"
            )
    return f"warning: {at}{note.text}"


def _at(place: str) -> str:
    return f"{place}: " if place else ""
