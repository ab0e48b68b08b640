"""`invoke run`: a CUDA program of anybody's, compiled and run with its kernels emulated."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kernelrig.build.libraries import extra_of_header
from kernelrig.build.program_executable import check_functions, functions_of, is_executable
from kernelrig.build.program_sources import SOURCES, BuiltProgram, build_program
from kernelrig.build.toolchain import find_toolchain, require_arch, wheel_headers
from kernelrig.config.new_project import program_needs
from kernelrig.config.selection import choose
from kernelrig.emu.__main__ import MOST_SCHEDULES, SCHEDULES
from kernelrig.emu.cudart.devices import Device, device_of
from kernelrig.emu.cudart.library_build import HEADERS, library_folder
from kernelrig.emu.cudart.modules import Resources
from kernelrig.emu.cudart.program_launch import HowToRun
from kernelrig.emu.cudart.program_session import Program, ProgramRun, run_program
from kernelrig.emu.cudart.program_text import report_text
from kernelrig.emu.cudart.program_verdict import exit_code
from kernelrig.emu.cudart.recorder import FILE, Recorder
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import DEFAULT_STEPS, Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS
from kernelrig.emu.launch.severities import read_severities
from kernelrig.emu.launch.verdict_word import counted
from kernelrig.errors import ConfigError
from kernelrig.model import (
    EmulatedProgram,
    EmulatorEngine,
    Toolchain,
)
from kernelrig.run.program_report import program_record
from kernelrig.run.program_review import Review
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.log import say, working

DEFAULT_ARCH = "sm_100a"
ALL_ENGINES = tuple(engine.value for engine in EmulatorEngine)


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What to run, and how. `files` are sources; `arguments` the program's own."""

    files: tuple[Path, ...]
    arguments: tuple[str, ...] = ()
    arch: str = ""  # empty: what the first source shows
    nvcc_flags: tuple[str, ...] = ()
    schedules: int = 4
    seed: int = 0
    observe: tuple[str, ...] = ()
    accumulate: str = "fp32"
    engine: str = "auto"
    system_cuda: bool = False
    max_steps: int | None = None
    kernel: str = ""
    launches: tuple[int, ...] = ()
    ctas: int = 0
    clusters: int = 0
    severities: tuple[str, ...] = ()
    strict: bool = False
    record: Path | None = None  # the folder that its observed launches are written into
    accepted: Path | None = None  # the file of reviewed findings
    accept: str = ""  # why all errors of this run are no faults
    after_a_pass: str = ""  # what its user may do next

    @property
    def whole(self) -> bool:
        """Whether every finding of the program can be seen."""
        parts = (self.observe, self.kernel, self.launches, self.ctas, self.clusters)
        return not any(parts)


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
    arch = request.arch or _arch_shown(request.files[0])
    request = replace(request, arch=arch, files=tuple(map(nameable, request.files)))
    review = Review.of(_reviewed_file(request))
    severities = read_severities(request.severities, strict=request.strict)
    device = device_of(request.arch)
    first = request.files[0]
    wanted = functions_of(first) if is_executable(first) else None  # before anything is compiled
    engine = choose_engine(request.engine, say)
    if engine.why:
        say(f"{engine.why}: the engine is numpy")
    tools = find_toolchain(root, system=request.system_cuda)
    require_arch(tools, request.arch)
    libraries = library_folder(tools.root / "include", say)
    with tempfile.TemporaryDirectory(prefix="kernelrig-run-") as place:
        if wanted is not None:
            check_functions(wanted, libraries / "libcudart.so")
            built = BuiltProgram(first.absolute(), ())
        else:
            built = _built(root, request, tools, libraries, Path(place))
        resources = {
            r.name: Resources(r.registers, r.stack_bytes, r.shared_bytes) for r in built.resources
        }
        program = Program(
            built.path, request.arguments, libraries, str(request.files[0]), resources
        )
        how = HowToRun(
            Schedule(
                seed=request.seed,
                engine=engine.name,
                max_steps=request.max_steps or DEFAULT_STEPS,
                hardware_accumulation=request.accumulate == "hardware",
            ),
            request.schedules,
            request.observe or ALL_OBSERVERS,
            kernel=request.kernel,
            launches=request.launches,
            ctas=request.ctas,
            clusters=request.clusters,
            severities=severities,
        )
        ran, recorded = _run(program, device, how, request, stdout)
    said = list(review.unseen(ran)) if request.whole and not ran.interrupted else []
    if request.accept:
        said.append(_accepted(review, ran, request.accept))
    record = program_record(ran, device.name, request.schedules, review)
    ran = review.applied(ran)
    code = exit_code(ran)
    said += recorded
    if request.after_a_pass and code == 0:
        said.append(f"next: {request.after_a_pass}")
    text = report_text(ran, str(first), device.name, request.schedules, severities.text, said)
    return ProgramReport(record, text, code)


def _accepted(review: Review, ran: ProgramRun, reason: str) -> str:
    """Accept the errors of a run. The verdict is told too where their file cannot be written."""
    try:
        count = review.accept(ran, reason)
    except ConfigError as e:
        return f"nothing was accepted: {e.message}; {e.hint}"
    if count:
        return f"accepted: {counted(count, 'error')}, written to {review.file}"
    return f"accepted: no new error; {review.file} is as it was"


def _reviewed_file(request: ProgramRequest) -> Path | None:
    """Return the file of reviewed findings; one that --accept is to write may not be there yet."""
    if not request.accept:
        return request.accepted
    return request.accepted or Path(f"{request.files[0].stem}.accepted.yaml")


def _run(
    program: Program,
    device: Device,
    how: HowToRun,
    request: ProgramRequest,
    stdout: IO[bytes] | None,
) -> tuple[ProgramRun, list[str]]:
    """Run a program, recorded if that is asked for; return what is said of the recording too."""
    if request.record is None:
        return run_program(program, device, how, say, stdout), []
    source = program.source
    with Recorder(request.record, source, request.schedules, request.seed) as recorder:
        ran = run_program(program, device, how, say, stdout, recorder)
        if not recorder.launches:
            return ran, ["recorded: nothing, as no launch was observed"]
        recorder.finish()
    file = request.record / FILE
    count = f"{recorder.launches} launch{'' if recorder.launches == 1 else 'es'}"
    return ran, [
        f"recorded: {count}, {recorder.stored_bytes} bytes of memory, in {file}",
        f"next: {COMMAND} emulate --launch {shlex.quote(str(file))}"
        + (f" --schedules {request.schedules}" if request.schedules != SCHEDULES else "")
        + (f" --seed {request.seed}" if request.seed else "")
        + (f" --accumulate {request.accumulate}" if request.accumulate != "fp32" else ""),
    ]


def _built(
    root: Path, request: ProgramRequest, tools: Toolchain, libraries: Path, folder: Path
) -> BuiltProgram:
    """Return the compiled program. A header that the toolkit's wheels lack is fetched, if known."""

    def find_header(name: str) -> Path | None:
        extra = "" if request.system_cuda else extra_of_header(name)
        return wheel_headers(root, extra) if extra else None

    first = request.files[0]
    flags = request.nvcc_flags
    with working(f"compiling {first.name} for {request.arch}"):
        return build_program(
            *(request.files, request.arch, tools, libraries, folder, flags, HEADERS),
            find_header=find_header,
        )


def nameable(file: Path) -> Path:
    """Return a source by a path that line tables can have: they drop `..` with the stand-in for the
    current folder, and findings would name files that are not there."""
    return file.resolve() if ".." in file.parts else file


def _arch_shown(file: Path) -> str:
    """Return the one arch that a source shows it is for, as `init` reads it."""
    archs = () if is_executable(file) else program_needs(file).archs
    return archs[0] if len(archs) == 1 else DEFAULT_ARCH


def _check(request: ProgramRequest) -> None:
    if request.record is not None and os.path.lexists(request.record):
        raise ConfigError(f"{request.record} is there already", "pass --out with another folder")
    choose(ALL_ENGINES, request.engine, "engine")
    choose(("fp32", "hardware"), request.accumulate, "accumulate")
    for name in request.observe:
        choose(ALL_OBSERVERS, name, "observer")
    try:
        re.compile(request.kernel)
    except re.error as e:
        raise ConfigError(f"--kernel is no regular expression: {e}") from e
    if request.accepted is not None and not request.accept and not request.accepted.is_file():
        raise ConfigError(f"no file {request.accepted}", "--accept REASON writes it")
    if request.max_steps is not None and request.max_steps < 1:
        raise ConfigError("--max-steps starts at 1")
    if request.ctas and request.clusters:
        raise ConfigError("--ctas and --clusters say the same", "pass one of them")
    if not 1 <= request.schedules <= MOST_SCHEDULES:
        raise ConfigError(f"--schedules is from 1 to {MOST_SCHEDULES}, not {request.schedules}")
    for file in request.files:
        if not file.is_file():
            later = file is not request.files[0]
            hint = "arguments of the program go after --: FILE -- ARGUMENTS" if later else ""
            raise ConfigError(f"{file} is a folder" if file.is_dir() else f"no file {file}", hint)
        if file.suffix not in SOURCES and not is_executable(file):
            known = ", ".join(SOURCES)
            raise ConfigError(f"{file} is no executable, and no source: those end in {known}")
    if is_executable(request.files[0]) and (len(request.files) > 1 or request.nvcc_flags):
        raise ConfigError(
            f"{request.files[0]} is an executable: it takes no other files, and no flags"
        )
