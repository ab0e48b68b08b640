"""The verdict that `invoke watch` shows on each save: rules of PTX, and one small case emulated.

The verdict is the one that `emulate` reaches: the same commands of the emulator, in this process,
and the same reader of what they left. What is left out is nvcc's host compiler and linker: while
the host code is the same, so is the launch that the program describes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from kernelrig import __version__, build, config, report, stages, static
from kernelrig.config.selection import choose_kernel, choose_targets
from kernelrig.emu.__main__ import main as emulator
from kernelrig.emu.native.core_build import NotBuilt
from kernelrig.emu.native.library import library
from kernelrig.errors import BuildError, ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Build,
    Builds,
    Command,
    CommandResult,
    DeviceKind,
    EndedBy,
    Host,
    Kernel,
    Plan,
    Provenance,
    Purpose,
    RecordedRemote,
    Run,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
    Toolchain,
    join_checks,
)
from kernelrig.proc import process_threads
from kernelrig.run.emulated_programs import prepare_programs
from kernelrig.run.emulation import plan_for
from kernelrig.run.launches import prepare_launches
from kernelrig.run.requests import EmulateRequest
from kernelrig.run.spec import find_tools
from kernelrig.run.store import RunDirectory
from kernelrig.terminal.log import working

KEPT = Path("artifacts/watch")
MOST_KEPT = 16
"""Launches that are kept, each of a few MB."""
SMOKE = "smoke"
Redirect = Callable[[TextIO], contextlib.AbstractContextManager[object]]
SCHEDULES = 2
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What is judged on each save; an empty `case` is the kernel's case `smoke`."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    schedules: int = SCHEDULES
    system_cuda: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """The verdict on one state of the sources: `text` for people. `inputs` are the files it is of,
    relative to the root."""

    text: str
    exit_code: int
    inputs: tuple[str, ...]
    run: Run | None = None


def sources_of(root: Path, request: WatchRequest) -> tuple[str, ...]:
    """Return what is watched before the first verdict: kernels.yaml and the kernel's source.

    Raises ConfigError for a kernel, an arch or a variant that is not there.
    """
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    return build.Request(kernel, arch, variant).source, "kernel/kernels.yaml"


def import_all() -> None:
    """Import what a verdict takes, and load the emulator's core: once, for all processes."""
    _ = (build.compile_device_code, report.render_attempt, stages.read_stage, static.inspect_ptx)
    with contextlib.suppress(NotBuilt):  # the engine is numpy then
        library()


def judge_sources(root: Path, request: WatchRequest) -> Attempt:
    """Judge the sources as they are now.

    Raises BuildError if they do not compile, ConfigError for what cannot be watched.
    """
    began = time.monotonic()
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    if not kernel.cuda:
        raise ConfigError(
            f"{kernel.name} is a CPU program (cuda: false): nothing of it is emulated"
        )
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    wanted = build.Request(kernel, arch, variant)
    tools = find_tools(root, [wanted], system_cuda=request.system_cuda)
    assert tools is not None, "a CUDA kernel needs tools"
    judged = _judge_harness_program if kernel.level else _judge_plain_program
    with tempfile.TemporaryDirectory(prefix="kernelrig-watch-") as place:
        rundir.build_folder(Path(place), "").mkdir(parents=True)
        run, inputs = judged(root, Path(place), wanted, tools, request)
    seconds = time.monotonic() - began
    case = f", case {run.plan.stages[-1].case}" if run.plan.stages[-1].case else ""
    what = f"{kernel.name} {arch} {variant}{case}, emulated, {seconds:.1f} s"
    return Attempt(report.render_attempt(run, what), report.exit_code(run), inputs, run)


def _judge_harness_program(
    root: Path, folder: Path, wanted: build.Request, tools: Toolchain, request: WatchRequest
) -> tuple[Run, tuple[str, ...]]:
    """Judge one small launch, as the program describes it; return the record and the inputs."""
    kernel = wanted.kernel
    case = request.case or (SMOKE if SMOKE in kernel.cases else next(iter(kernel.cases)))
    asked = EmulateRequest(case=case, schedules=request.schedules)
    kernel, whole = plan_for(kernel, asked)
    plan = Plan("watch", tuple(s for s in whole.stages if s.kind is StageKind.SANITIZER))
    (folder / "host").mkdir()
    own = rundir.build_folder(folder, "")
    with process_threads(2) as pool:
        made = pool.submit(build.compile_device_code, root, wanted, tools, own)
        read = pool.submit(build.read_host_code, root, wanted, tools, folder / "host")
        while wait((made,), LOOK_S).not_done or wait((read,), LOOK_S).not_done:
            pass  # a signal that comes just before a wait is heard at its end
    built, code = made.result(), read.result()
    run = _run_of(kernel, wanted, plan, asked)
    launches = _launches(root, wanted, tools, code, run, Builds(built))
    (folder / "launches").symlink_to(launches)
    return _judged(root, folder, run, built), tuple(dict.fromkeys((*built.inputs, *code.inputs)))


def _judge_plain_program(
    root: Path, folder: Path, wanted: build.Request, tools: Toolchain, request: WatchRequest
) -> tuple[Run, tuple[str, ...]]:
    """Judge the whole program: it describes no launch, it makes them."""
    kernel, case = wanted.kernel, request.case
    observed = (
        Stage(tool, StageKind.SANITIZER, case, tool=tool)  # type: ignore[arg-type]
        for tool in stages.OBSERVERS
    )
    plan = Plan("watch", (Stage("program", StageKind.CHECKSUM, case), *observed))
    own = rundir.build_folder(folder, "")
    built = build.compile_device_code(root, wanted, tools, own)
    run = _run_of(kernel, wanted, plan, EmulateRequest(schedules=request.schedules))
    directory = RunDirectory(root, folder, run)
    directory.made = {"": built}
    directory.keep_sources(built, root)
    files = stages.input_files(plan, kernel)
    for name in files:
        kept = folder / stages.FILES / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, kept)
    prepare_programs(directory, system_cuda=request.system_cuda)
    return _judged(root, folder, run, built), (*built.inputs, *files)


def _judged(root: Path, folder: Path, run: Run, built: Build) -> Run:
    stages_judged = (_check(run.kernel, built, root), *_emulate(folder, run, built, root))
    return replace(run, stages=stages_judged, state="finished")


def _run_of(kernel: Kernel, wanted: build.Request, plan: Plan, how: EmulateRequest) -> Run:
    """Return the record that the stages are judged in; nothing of it is filed."""
    return Run(
        id="",
        kernel=kernel,
        variant=wanted.variant,
        arch=wanted.arch,
        remote=None,
        plan=plan,
        provenance=Provenance("", "", __version__, "", "", {}, ""),
        started_utc=rundir.utc_now(),
        state="prepared",
        host=Host(platform.node(), platform.python_version(), "", 0),
        purpose=Purpose.EMULATE,
        emulation=how.emulation(),
    )


def _check(kernel: Kernel, built: Build, root: Path) -> StageRecord:
    began, utc = time.monotonic(), rundir.utc_now()
    checks = static.inspect_ptx(kernel, built, root)
    return StageRecord(
        name="ptx",
        kind=StageKind.CHECK,
        device=DeviceKind.STATIC,
        machine="",
        verdict=join_checks(checks),
        checks=checks,
        started_utc=utc,
        seconds=time.monotonic() - began,
        variant=built.variant,
    )


def _launches(
    root: Path,
    wanted: build.Request,
    tools: Toolchain,
    code: build.HostCode,
    run: Run,
    builds: Builds,
) -> Path:
    """Return the folder of the launches as the program describes them, compiled if that may differ
    from what earlier ones described."""
    needed = stages.launches(run.plan, run.kernel, builds, _here(run.arch))
    named = "\0".join((code.key, serialization.to_json(run.kernel), *map(str, needed)))
    kept = root / KEPT / hashlib.sha256(named.encode()).hexdigest()[:20]
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=kept.parent, prefix=".part-") as place,
            working(f"compiling the host code of {wanted.name}, which tells the launch parameters"),
        ):
            folder = Path(place)
            described = build.compile_described(root, wanted, {}, tools, folder)
            if not isinstance(described, Build):
                reasons = (*described.refused, described.complaint)
                raise BuildError(f"{wanted.name} does not compile", details="\n".join(reasons))
            prepare_launches(folder, needed, run.kernel, Builds(described))
            with contextlib.suppress(OSError):  # another call made it meanwhile: the same
                (folder / "launches").rename(kept)
    kept.touch()
    _remove_oldest(kept.parent)
    return kept


def _remove_oldest(folder: Path) -> None:
    found = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for path in sorted(found, key=lambda p: p.stat().st_mtime)[:-MOST_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _emulate(folder: Path, run: Run, built: Build, root: Path) -> Sequence[StageRecord]:
    """Carry out the plan's commands one after the other, and judge each stage by its files."""
    remote, builds = _here(run.arch), Builds(built)
    here = run.host
    assert run.emulation is not None
    assert here is not None
    jobs = stages.stage_jobs(run.plan, run.kernel, builds, None, remote, run.emulation)
    records: dict[str, StageRecord] = {}
    for index, (stage, job) in enumerate(zip(run.plan.stages, jobs, strict=True), start=1):
        place = rundir.stage_folder(folder, index, job.name)
        place.mkdir(parents=True)
        with contextlib.chdir(place):
            done = [_carry_out(command) for command in job.commands]
        context = stages.Context(
            kernel=run.kernel,
            build=built,
            host=here,
            remote=remote,
            earlier=records,
            today=datetime.now(UTC).date(),
            source_root=root,
            builds=builds,
            run_folder=folder,
        )
        result = StageResult(job.name, tuple(done))
        records[stage.name] = stages.read_stage(stage, job, result, place, context)
    return tuple(records.values())


def _carry_out(command: Command) -> CommandResult:
    """Run the emulator's command in this process and this folder, its output into the logs."""
    _, _, _, *words = command.argv  # python -m kernelrig.emu
    began, utc = time.monotonic(), rundir.utc_now()
    before = dict(os.environ)
    os.environ.update(command.env)
    try:
        with (
            _written_to(f"{command.name}.stdout.log", 1, contextlib.redirect_stdout),
            _written_to(f"{command.name}.stderr.log", 2, contextlib.redirect_stderr),
        ):
            code = emulator(words)
    finally:
        os.environ.clear()
        os.environ.update(before)
    seconds = time.monotonic() - began
    return CommandResult(command.name, EndedBy.EXIT, code, started_utc=utc, seconds=seconds)


@contextlib.contextmanager
def _written_to(name: str, number: int, redirected: Redirect) -> Iterator[None]:
    """Let a stream of this process, and of those that it starts, go to a file meanwhile."""
    kept = os.dup(number)
    try:
        with Path(name).open("w") as file, redirected(file):
            os.dup2(file.fileno(), number)
            yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def _here(arch: str) -> RecordedRemote:
    return RecordedRemote("here", arch, kind="embedded", device=DeviceKind.EMULATOR)
