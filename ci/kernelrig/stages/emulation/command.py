"""Emulated stages: command lines of `python -m kernelrig.emu`, and what each of them launches.

To this package the emulator is a program, as compute-sanitizer is one: nothing here imports it.
The sanitizers' stages of a case share one emulation; each then takes the findings of its own kinds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrig.config.operation_sizes import operation_at
from kernelrig.files.rundir import stage_folder
from kernelrig.model import (
    Builds,
    Case,
    Command,
    DeviceKind,
    Emulation,
    Kernel,
    Pattern,
    Plan,
    RecordedRemote,
    Stage,
    StageKind,
    executor,
    input_seed,
)
from kernelrig.stages.checksum.command import check_runs
from kernelrig.stages.context import Setup, stage_case

PACKAGE = Path(__file__).parents[3]
OBSERVERS = {"memcheck": "memory", "racecheck": "races", "initcheck": "init", "synccheck": "sync"}
"""Each sanitizer, and the observer of the emulator that takes its place."""

RUN = "emulate"
"""The command that the sanitizers' stages share; its findings are RUN.json."""

CHECKED = "memory,sync"
"""Observers where outputs are judged: they cost little, and name the cause of a wrong output."""

CHECKED_OPERATION = f"{CHECKED},init"
"""Any number may be right in an output, and so may what was there before: init finds what no thread
has written."""

OUTPUT = "C"
MAX_IMAGES = 16
"""A larger case takes minutes and gigabytes: it is emulated where a stage asks for it."""

MAX_BYTES = 1 << 22
"""Of all tensors of an operation, the same."""

STEPS_PER_IMAGE = 50_000
"""Of a schedule at most, from which the step limit of a larger case follows."""

LEAST_S = 900.0
"""The least time limit of a command: plans give limits for GPUs, and the emulator is slower."""

PATTERN = Pattern.INTEGER


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch to be emulated; `variant` is empty for the run's own build."""

    variant: str
    case: Case
    pattern: Pattern
    seed: int

    @property
    def place(self) -> Path:
        """Its folder in the run's folder, here and on the host."""
        shape = "x".join(map(str, self.case.values.values()))
        return Path("launches", self.variant or "own", f"{shape}-{self.pattern.value}-{self.seed}")

    @property
    def file(self) -> Path:
        return self.place / "launch.json"


def emulated_case(kernel: Kernel, stage: Stage) -> Case | None:
    """Return the stage's case, or in place of one that is too large the largest that is not."""
    case = stage_case(kernel, stage)
    if not is_large(kernel, case) or stage.whole:
        return case
    small = [c for c in kernel.cases.values() if not is_large(kernel, c)]
    return max(small, key=lambda c: problem_size(kernel, c), default=None)


def is_large(kernel: Kernel, case: Case) -> bool:
    """Return whether a case is emulated only where that is asked for."""
    most = MAX_BYTES if kernel.is_operation else MAX_IMAGES
    return problem_size(kernel, case) > most


def problem_size(kernel: Kernel, case: Case) -> int:
    """Return the bytes of an operation's tensors, or the images of patch_embed."""
    return operation_at(kernel, case).bytes if kernel.is_operation else case.images


def output_names(kernel: Kernel) -> tuple[str, ...]:
    """Return the buffers that a launch of the kernel writes."""
    return tuple(kernel.outputs) or (OUTPUT,)


def why_not_emulated(kernel: Kernel, stage: Stage) -> str:
    """Return why a stage has nothing to emulate, empty if it has."""
    if stage.kind not in (StageKind.CHECKSUM, StageKind.SANITIZER, StageKind.FAULT):
        return f"emulated: no {stage.kind}, as the emulator models results and ordering, not time"
    if not kernel.level:
        plain = (StageKind.CHECKSUM, StageKind.SANITIZER)
        return "" if stage.kind in plain else f"{kernel.name} is a plain program: no {stage.kind}"
    if emulated_case(kernel, stage) is None:
        most = f"{MAX_BYTES} bytes" if kernel.is_operation else f"{MAX_IMAGES} images"
        return f"{kernel.name} has no case of {most} or fewer to emulate"
    return ""


def launches(
    plan: Plan, kernel: Kernel, builds: Builds, remote: RecordedRemote, seed: int | None = None
) -> tuple[Launch, ...]:
    """Return what the plan's commands launch on an emulator, each once; elsewhere nothing."""
    if not kernel.level or executor(kernel, remote.device, None)[0] is not DeviceKind.EMULATOR:
        return ()
    found: dict[Launch, None] = {}
    for stage in plan.on_host:
        lacking = stage.variant and kernel.lacks(stage.variant, builds.own.arch)
        if lacking or why_not_emulated(kernel, stage):
            continue
        if stage.kind is not StageKind.SANITIZER or stage == shared_by(stage, plan, kernel)[0]:
            found |= dict.fromkeys(_launches_of(stage, kernel, builds.variant_for(stage), seed))
    return tuple(found)


def _launches_of(stage: Stage, kernel: Kernel, variant: str, drawn: int | None) -> Iterator[Launch]:
    case = emulated_case(kernel, stage)
    if case is not None and stage.kind in (StageKind.SANITIZER, StageKind.FAULT):
        yield Launch(variant, case, PATTERN, input_seed(drawn, stage.seeds[0]))
    elif case is not None:
        for _, pattern, seed in check_runs(stage):
            yield Launch(variant, case, pattern, input_seed(drawn, seed))


def shared_by(stage: Stage, plan: Plan, kernel: Kernel) -> tuple[Stage, ...]:
    """Return the sanitizers' stages that share an emulation with `stage`; the first one runs it."""
    what = (stage.variant, emulated_case(kernel, stage))
    return tuple(
        other
        for other in plan.on_host
        if other.kind is StageKind.SANITIZER
        and (other.variant, emulated_case(kernel, other)) == what
    )


def emulated_checksum_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return an emulation for each pattern and seed, of which the outputs are wanted."""
    schedules = setup.emulation.checked_schedules
    launched = _launches_of(stage, setup.kernel, setup.variant, setup.drawn)
    named = zip(check_runs(stage), launched, strict=True)
    observed = CHECKED_OPERATION if setup.kernel.is_operation else CHECKED
    return tuple(
        _run(name, launch, observed, schedules, stage, setup) for (name, _, _), launch in named
    )


def emulated_sanitizer_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the command that takes this tool's findings; the first stage also runs the emulation.

    The emulation itself may exit with findings: each stage judges those of its own kinds.
    """
    sharing = shared_by(stage, setup.plan, setup.kernel)
    first = sharing[0]
    commands: tuple[Command, ...] = ()
    findings = Path(f"{RUN}.json")
    if stage == first:
        (launch,) = _launches_of(stage, setup.kernel, setup.variant, setup.drawn)
        observed = ",".join(dict.fromkeys(OBSERVERS[s.tool] for s in sharing))
        schedules = setup.emulation.schedules
        commands = (_run(RUN, launch, observed, schedules, stage, setup, ok_exit=(0, 1)),)
    else:
        index = setup.plan.on_host.index(first) + 1
        findings = stage_folder(Path("../.."), index, first.name) / findings
    said = _severity_words(setup.emulation)
    words = ("split", str(findings), "--observe", OBSERVERS[stage.tool], *said)
    return (
        *commands,
        emulator_command(stage.tool, (*words, "--json", f"{stage.tool}.json"), LEAST_S),
    )


def emulated_fault_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return the one emulation that is to show a fault, with the observers that were asked for."""
    (launch,) = _launches_of(stage, setup.kernel, setup.variant, setup.drawn)
    tools = setup.emulation.tools or OBSERVERS
    observed = ",".join(OBSERVERS[tool] for tool in tools)
    schedules = setup.emulation.schedules
    return (_run(RUN, launch, observed, schedules, stage, setup, ok_exit=(0, 1)),)


def _run(
    name: str,
    launch: Launch,
    observed: str,
    schedules: int,
    stage: Stage,
    setup: Setup,
    *,
    ok_exit: tuple[int, ...] = (0,),
) -> Command:
    how = setup.emulation
    words = (
        *("run", str(Path("../..") / launch.file), "--module", f"{setup.program}.ptx"),
        *("--source", setup.kernel.sources[setup.build.arch], "--observe", observed),
        *("--schedules", str(schedules), "--seed", str(how.seed), "--accumulate", how.accumulate),
        *("--engine", how.engine.value),
        *_severity_words(how),
        *(w for dump in dumped(setup.kernel, name).items() for w in ("--dump", "=".join(dump))),
        *("--json", f"{name}.json"),
        *(_large_words(launch.case) if is_large(setup.kernel, launch.case) else ()),
    )
    return emulator_command(name, words, max(stage.time_s, LEAST_S), ok_exit)


def _severity_words(how: Emulation) -> tuple[str, ...]:
    said = tuple(word for said in how.severities for word in ("--severity", said))
    return (*said, "--strict") if how.strict else said


def dumped(kernel: Kernel, command: str) -> dict[str, str]:
    """Return the file that a command leaves each output in."""
    if not kernel.is_operation:
        return {OUTPUT: f"{command}.npy"}
    return {name: f"{command}.{name}.npy" for name in kernel.outputs}


def _large_words(case: Case) -> tuple[str, ...]:
    steps = ("--max-steps", str(case.images * STEPS_PER_IMAGE)) if case.images else ()
    return ("--large", "--jobs", "1", *steps)


def emulator_command(
    name: str, words: tuple[str, ...], time_s: float, ok_exit: tuple[int, ...] = (0,)
) -> Command:
    """Return a command of this package's emulator: an emulator's host is this machine."""
    argv = (sys.executable, "-m", "kernelrig.emu", *words)
    return Command(name, argv, time_s, ok_exit, env={"PYTHONPATH": str(PACKAGE)})
