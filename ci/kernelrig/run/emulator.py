"""`invoke emulate`: a kernel's launches in the emulator, here, judged and filed like any run.

And `--only-fault`: is a kernel that is known to be broken found to be? There the verdict is on the
emulator: caught is a pass, missed a failure.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.config.selection import choose, choose_kernel, choose_targets
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import rundir
from kernelrig.model import (
    Build,
    Builds,
    Case,
    Command,
    CommandResult,
    DeviceKind,
    Emulation,
    EndedBy,
    Host,
    Kernel,
    Pattern,
    Plan,
    Remote,
    Run,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.proc import run_process
from kernelrig.run import store
from kernelrig.run.launches import prepare_launches
from kernelrig.run.prepare import build_requests
from kernelrig.terminal.log import say

PLAN = "emulate"
CASES = ("images=1,ctas=2", "images=2,ctas=2", "images=3,ctas=2", "images=7,ctas=4")
"""Less than a tile, whole and part of them, and 8 tiles a cluster and more, where rings wrap."""

LIMIT_S = 3600.0
_CASE = re.compile(r"images=(\d{1,4})(?:,ctas=(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class EmulateRequest:
    """What the user asked to have emulated; empty = what stands in CASES, every pattern."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    pattern: str = ""
    observe: str = ""
    schedules: int | None = None
    seed: int = 0
    accumulate: str = "fp32"
    system_cuda: bool = False

    def emulation(self) -> Emulation:
        how = Emulation(seed=self.seed)
        if self.schedules is not None:
            if self.schedules < 1:
                raise ConfigError("--schedules must be 1 or more, not 0")
            how = replace(how, schedules=self.schedules, checked_schedules=self.schedules)
        if self.accumulate == "hardware":
            return replace(how, accumulate="hardware")
        choose(("fp32", "hardware"), self.accumulate, "way to accumulate")
        return how


def emulate(root: Path, request: EmulateRequest) -> Run:
    """Build, describe, emulate and judge; each finding is a verdict of the stage it belongs to."""
    how = request.emulation()
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    kernel, plan = plan_for(kernel, request)
    _require_level(kernel)
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    wanted = build.Request(kernel, arch, variant)
    (built,) = build_requests(root, [wanted], system_cuda=request.system_cuda)
    run, folder, place = open_emulation(root, kernel, built, plan, root)
    judged: dict[str, StageRecord] = {}
    jobs = stages.stage_jobs(plan, kernel, Builds(built), None, place.remote, how)
    try:
        needed = stages.launches(plan, kernel, Builds(built), place.remote)
        prepare_launches(folder, needed, kernel, Builds(built))
    except CiError as e:
        return store.finish(folder, run, [lost(run, stage, e) for stage in plan.stages])
    for index, (stage, job) in enumerate(zip(plan.stages, jobs, strict=True), 1):
        say(f"emulating {stage.name} ({stage.case}, {stage.kind})")
        home = rundir.stage_folder(folder, index, stage.name)
        try:
            result = run_job(job, home)
            place = replace(place, earlier=dict(judged))
            judged[stage.name] = replace(
                stages.read_stage(stage, job, result, home, place), build=built.key
            )
        except Exception as e:  # a reader that fails is an error of ours, not a lost run
            judged[stage.name] = lost(run, stage, e)
        run = replace(run, stages=tuple(judged.values()))
        store.save(folder, run)
    return store.finish(folder, run, run.stages)


def run_launch(launch: Path, module: str, request: EmulateRequest) -> int:
    """Do what `python -m kernelrig.emu run` does, with the same words and the same exit codes."""
    from kernelrig.emu.__main__ import main

    how = request.emulation()
    words = ["run", str(launch), "--schedules", str(how.schedules), "--seed", str(how.seed)]
    words += ["--accumulate", how.accumulate]
    words += ["--module", module] if module else []
    words += ["--observe", request.observe] if request.observe else []
    return main(words)


def plan_for(kernel: Kernel, request: EmulateRequest) -> tuple[Kernel, Plan]:
    """Return the plan, and the kernel with the cases it names."""
    cases = [read_case(kernel, text) for text in ([request.case] if request.case else CASES)]
    patterns = tuple(Pattern)
    if request.pattern:
        patterns = (Pattern(choose(tuple(Pattern), request.pattern, "pattern")),)
    tools = tuple(stages.OBSERVERS)
    if request.observe:
        by_observer = {observer: tool for tool, observer in stages.OBSERVERS.items()}
        named = [n for n in request.observe.split(",") if n]
        tools = tuple(by_observer[choose(by_observer, n, "observer")] for n in named)
    checked = tuple(
        Stage(
            f"checksum-{c.images}x{c.ctas}",
            StageKind.CHECKSUM,
            case=c.name,
            patterns=patterns,
            seeds=(request.seed,),
            time_s=LIMIT_S,
        )
        for c in cases
    )
    last = cases[-1].name
    observed = tuple(
        Stage(tool, StageKind.SANITIZER, last, seeds=(request.seed,), tool=tool, time_s=LIMIT_S)  # type: ignore[arg-type]
        for tool in dict.fromkeys(tools)
    )
    known = {**kernel.cases, **{c.name: c for c in cases}}
    return replace(kernel, cases=known), Plan(PLAN, (*checked, *observed))


def read_case(kernel: Kernel, text: str) -> Case:
    """Read `images=N,ctas=N`, or the name of a case of the kernel."""
    found = _CASE.fullmatch(text)
    case = Case(text, int(found[1]), int(found[2] or 0)) if found else kernel.cases.get(text)
    if case is None:
        known = ", ".join(kernel.cases)
        raise ConfigError(f"'{text}' is no case; write images=N,ctas=N, or one of {known}")
    if not 1 <= case.images <= stages.MAX_IMAGES:
        raise ConfigError(
            f"case {text} is not emulated: it may have 1 to {stages.MAX_IMAGES} images"
        )
    return case


def _require_level(kernel: Kernel) -> None:
    if not kernel.level or not kernel.cuda:
        raise ConfigError(f"{kernel.name} describes no launch to emulate: it is no level-1 kernel")


def open_emulation(
    root: Path, kernel: Kernel, built: Build, plan: Plan, sources: Path
) -> tuple[Run, Path, stages.Context]:
    """Make the run directory with the build in it; `sources` is the tree that it was made from."""
    run = store.new_run(root, kernel, None, plan, (built,), arch=built.arch, variant=built.variant)
    host = Host(platform.node(), platform.python_version(), "", "", 0)
    run = replace(run, host=host)
    folder = root / store.RUNS / run.id
    shutil.copytree(built.folder, rundir.build_folder(folder))
    store.keep_sources(sources, folder, built)
    store.save(folder, run)
    say(f"run {run.id}")
    here = Remote("here", built.arch, kind="embedded", device=DeviceKind.EMULATOR)
    place = stages.Context(
        kernel, built, host, here, {}, datetime.now(UTC).date(), folder / store.SOURCES
    )
    return run, folder, place


def lost(run: Run, stage: Stage, error: Exception) -> StageRecord:
    """Return the record of a stage of which nothing is known."""
    record = store.record(run, stage, store.as_verdict(error))
    return replace(record, device=DeviceKind.EMULATOR)


def run_job(job: StageJob, home: Path) -> StageResult:
    """Run a stage's commands as the agent on a box would, and leave the same files."""
    home.mkdir(parents=True, exist_ok=True)
    return StageResult(job.name, tuple(_run_command(c, home) for c in job.commands))


def _run_command(command: Command, home: Path) -> CommandResult:
    utc, began = rundir.utc_now(), time.monotonic()
    env = [f"{name}={value}" for name, value in sorted(command.env.items())]
    line = shlex.join([*(["env", *env] if env else []), *command.argv])
    rundir.write_atomic(home / f"{command.name}.command", f"{line}\n")
    try:
        done = run_process(
            command.argv, cwd=home, env={**os.environ, **command.env}, timeout_s=command.time_s
        )
    except ConfigError as e:
        return CommandResult(command.name, EndedBy.NOT_STARTED, detail=e.message)
    except CiError as e:
        seconds = time.monotonic() - began
        return CommandResult(
            command.name, EndedBy.TIME_LIMIT, None, None, utc, seconds, detail=e.message
        )
    rundir.write_atomic(home / f"{command.name}.stdout.log", done.stdout)
    rundir.write_atomic(home / f"{command.name}.stderr.log", done.stderr)
    code = done.exit_code
    if code < 0:
        return CommandResult(command.name, EndedBy.SIGNAL, None, -code, utc, done.seconds)
    return CommandResult(command.name, EndedBy.EXIT, code, None, utc, done.seconds)
