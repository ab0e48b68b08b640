"""`invoke trace`: the order in which warps and asynchronous operations of a launch go on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelrig import build, config, report
from kernelrig.config.selection import choose, choose_kernel, choose_targets
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate
from kernelrig.emu.launch.loader import Loaded, load
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.native.core_observer import each_of
from kernelrig.emu.observe.event_timeline import TimelineObserver
from kernelrig.errors import ConfigError
from kernelrig.files import rundir
from kernelrig.model import Builds, Pattern, Timeline
from kernelrig.run.builds import make_builds
from kernelrig.run.emulation import one_case, read_case
from kernelrig.run.launches import prepare_launches
from kernelrig.run.spec import BuildSpec, find_tools
from kernelrig.stages import Launch
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.log import say

CASE = "images=2,ctas=2"
"""A few tiles: rings wrap, and a person can still read it."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One launch, and the schedule that is recorded of it; `launch` names a launch file."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    pattern: str = ""
    schedule: int = 0
    seed: int = 0
    engine: str = "auto"
    launch: str = ""
    module: str = ""
    system_cuda: bool = False


@dataclass(frozen=True, slots=True)
class Traced:
    """What was recorded, and how the schedule ended: errors that were found, whether it stopped."""

    timeline: Timeline
    errors: int
    stopped: bool


def trace(root: Path, request: TraceRequest, file: str) -> Traced:
    """Emulate one schedule and write its timeline to `file` in the Trace Event format.

    ConfigError for input that cannot be emulated, or a file that cannot be written; CiError where
    the emulator or its process fails.
    """
    if request.launch:
        _require_no_kernel(request)
        module = Path(request.module) if request.module else None
        traced = _trace(load(Path(request.launch), module), Path(request.launch).name, request)
    else:
        with TemporaryDirectory(prefix="kernelrig-") as folder:
            loaded, name = _of_kernel(root, request, Path(folder))
            traced = _trace(loaded, name, request)
    try:
        rundir.write_atomic(Path(file), report.render_timeline(traced.timeline))
    except OSError as e:
        raise ConfigError(f"--output: {file} cannot be written: {e.strerror}") from e
    return traced


def _require_no_kernel(request: TraceRequest) -> None:
    for flag in ("kernel", "arch", "variant", "case", "pattern"):
        if getattr(request, flag):
            raise ConfigError(f"--launch traces one launch file: it takes no --{flag}")


def _of_kernel(root: Path, request: TraceRequest, folder: Path) -> tuple[Loaded, str]:
    """Build the kernel and describe the launch in `folder`; return it, and its name."""
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    if not kernel.level or not kernel.cuda:
        raise ConfigError(
            f"{kernel.name} is not a harness program, whose single launches `trace` runs",
            f"`{COMMAND} record FILE` writes its launches for `{COMMAND} trace --launch`",
        )
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    case = read_case(kernel, request.case or one_case(kernel, CASE))
    named = choose(tuple(Pattern), request.pattern or Pattern.RANDOM.value, "pattern")
    pattern = Pattern(named)
    wanted = {"": BuildSpec(build.Request(kernel, arch, variant))}
    requests = [spec.request for spec in wanted.values()]
    tools = find_tools(root, requests, system_cuda=request.system_cuda)
    built = make_builds(root, wanted, tools, system_cuda=request.system_cuda)[""]
    launch = Launch("", case, pattern, request.seed)
    prepare_launches(folder, [launch], kernel, Builds(built))
    loaded = load(folder / launch.file, built.folder / f"{built.program}.ptx", kernel.sources[arch])
    return loaded, f"{kernel.name} {arch} {case.name} {pattern.value}"


def _trace(loaded: Loaded, name: str, request: TraceRequest) -> Traced:
    engine = choose_engine(request.engine, say)
    schedule = Schedule(request.schedule, request.seed, engine=engine.name)
    title = f"{name}, emulated, schedule {schedule.number} of seed {schedule.seed}"

    def timeline_of(machine: Machine) -> Timeline:
        observer = next(o for o in each_of(machine.hooks) if isinstance(o, TimelineObserver))
        return observer.timeline(title)

    outcome = emulate(loaded, [schedule], (), keep=timeline_of, also=(TimelineObserver,))
    (timeline,) = outcome.kept
    assert isinstance(timeline, Timeline)
    errors = sum(finding.severity == "error" for finding in outcome.findings)
    return Traced(timeline, errors, bool(outcome.stopped))
