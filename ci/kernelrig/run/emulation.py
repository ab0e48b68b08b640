"""`invoke emulate`: which launches are emulated, and of which build; or a launch file by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.config.operation_sizes import operation_at
from kernelrig.config.selection import choose, choose_kernel, choose_targets, require_tunables
from kernelrig.engines import chosen_engine
from kernelrig.errors import ConfigError
from kernelrig.files.record_names import is_identifier
from kernelrig.model import Case, Kernel, Pattern, Plan, Stage, StageKind
from kernelrig.run.fault import CASE, read_fault
from kernelrig.run.requests import EmulateRequest
from kernelrig.run.spec import BuildSpec, RunSpec
from kernelrig.terminal.command_name import COMMAND

PLAN, FAULT_PLAN, TUNABLES_PLAN = "emulate", "fault", "emulate-tunables"
CASES = ("images=1,ctas=2", "images=2,ctas=2", "images=3,ctas=2", "images=7,ctas=4")
"""Less than a tile, whole and part of them, and 8 tiles a cluster and more, where rings wrap."""

GROUPED = {"sm_90a": ("images=1,ctas=3", "images=2,ctas=3", "images=3,ctas=3", "images=7,ctas=6")}
"""By arch, the same where a tile is the work of a group of three CTAs: two make none."""

TUNABLES_CASE = "images=3,ctas=4"
"""9 tiles of one cluster, or of one group of three CTAs."""

LIMIT_S = 3600.0
LARGE_LIMIT_S = 4 * LIMIT_S
MOST_IMAGES = 9999
_CASE = re.compile(r"images=(\d{1,4})(?:,ctas=(\d{1,4}))?")


def prepare_emulation(root: Path, request: EmulateRequest) -> RunSpec:
    """Return the plan of an emulation; with a fault, the one stage that is to detect it."""
    from kernelrig.emu.launch.severities import read_severities

    how = request.emulation()
    read_severities(how.severities, strict=how.strict)  # before anything is compiled
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    on = chosen_engine(request.on, tunables=request.tunables)
    if request.tunables:
        return replace(_prepare_tunables(kernel, request), on=on)
    if request.only_fault:
        return _prepare_fault(root, kernel, request)
    _require_level(kernel)
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    kernel, plan = plan_for(kernel, replace(request, arch=arch))
    if request.schedules is None and any(s.whole for s in plan.stages):
        how = replace(how, schedules=1, checked_schedules=1)
    wanted = {"": BuildSpec(build.Request(kernel, arch, variant))}
    return RunSpec(kernel, plan, arch, variant, wanted, emulation=how)


def _prepare_tunables(kernel: Kernel, request: EmulateRequest) -> RunSpec:
    """Return a run that emulates every set of tunables that is tried, of one arch."""
    if request.only_fault:
        raise ConfigError("--tunables emulates the kernel as it is: it takes no --only-fault")
    if request.pattern == Pattern.RANDOM.value:
        text = "--tunables compares every output to the bit: it takes no random pattern"
        raise ConfigError(text, "pass --pattern integer or constant")
    _require_level(kernel)
    arch, variant = choose_targets(kernel, request.arch, request.variant)[0]
    require_tunables(kernel, arch)
    pattern = request.pattern or Pattern.INTEGER.value
    cased, whole = plan_for(
        kernel,
        replace(request, case=request.case or one_case(kernel, TUNABLES_CASE), pattern=pattern),
    )
    first = next(s for s in whole.stages if s.kind is StageKind.CHECKSUM)
    if first.whole:
        most = stages.MAX_IMAGES
        raise ConfigError(f"--tunables emulates many launches: a case has 1 to {most} images")
    stage = Stage(
        f"{arch}-{variant}",
        StageKind.TUNABLES,
        first.case,
        patterns=first.patterns,
        seeds=first.seeds,
        variant=variant,
    )
    tools = tuple(s.tool for s in whole.stages if s.kind is StageKind.SANITIZER)
    return RunSpec(
        cased,
        Plan(TUNABLES_PLAN, (stage,)),
        arch,
        variant,
        {stage.name: BuildSpec(build.Request(cased, arch, variant))},
        emulation=replace(request.emulation(), tools=tools),
    )


def _prepare_fault(root: Path, kernel: Kernel, request: EmulateRequest) -> RunSpec:
    arch = choose_targets(kernel, request.arch, request.variant)[0][0]
    fault, patch = read_fault(root, request.only_fault, arch)
    case = request.case or fault.case or one_case(kernel, CASE)
    kernel, whole = plan_for(kernel, replace(request, case=case, pattern=""))
    _require_level(kernel)
    observed = [s for s in whole.stages if s.kind is StageKind.SANITIZER]
    first = observed[0]
    stage = replace(first, name=fault.name, kind=StageKind.FAULT, tool="")
    variant = choose_targets(kernel, arch, request.variant or fault.variant)[0][1]
    return RunSpec(
        kernel,
        Plan(FAULT_PLAN, (stage,)),
        arch,
        variant,
        {"": BuildSpec(build.Request(kernel, arch, variant), patch=patch)},
        fault=fault,
        emulation=replace(request.emulation(), tools=tuple(s.tool for s in observed)),
    )


def run_launch(launch: Path, module: str, request: EmulateRequest, *, large: bool = False) -> int:
    """Emulate a launch file as `python -m kernelrig.emu run` does; return the same exit code.

    ConfigError for input that cannot be emulated, and for a flag that chooses among kernels.
    """
    from kernelrig.emu.__main__ import run_command

    for flag in (
        "kernel",
        "arch",
        "variant",
        "case",
        "pattern",
        "only_fault",
        "tunables",
        "system_cuda",
    ):
        if getattr(request, flag):
            name = flag.replace("_", "-")
            raise ConfigError(f"--launch emulates one launch file: it takes no --{name}")
    how = request.emulation()
    words = ["run", str(launch), "--schedules", str(how.schedules), "--seed", str(how.seed)]
    words += ["--accumulate", how.accumulate, "--engine", how.engine]
    words += ["--module", module] if module else []
    words += ["--large"] if large else []
    words += ["--observe", ",".join(request.observe)] if request.observe else []
    words += [word for said in request.severities for word in ("--severity", said)]
    words += ["--strict"] if request.strict else []
    return run_command(words)


def plan_for(kernel: Kernel, request: EmulateRequest) -> tuple[Kernel, Plan]:
    """Return the plan, and the kernel with the cases it names.

    A case of more than `stages.MAX_IMAGES` images is emulated once by default: on integers, with
    all observers, every output compared.
    """
    wanted = [request.case] if request.case else default_cases(kernel, request.arch)
    cases = [read_case(kernel, text) for text in wanted]
    patterns = tuple(Pattern)
    if request.pattern:
        patterns = (Pattern(choose(tuple(Pattern), request.pattern, "pattern")),)
    tools = tuple(stages.OBSERVERS)
    if request.observe:
        by_observer = {observer: tool for tool, observer in stages.OBSERVERS.items()}
        tools = tuple(by_observer[choose(by_observer, n, "observer")] for n in request.observe)
    last = cases[-1]
    if large := stages.is_large(kernel, last):
        cases = cases if request.pattern else []
        tools = tools if request.observe or not request.pattern else ()
    time_s = LARGE_LIMIT_S if large else LIMIT_S
    disk_mb = _disk_mb(kernel, last, request)
    checked = tuple(
        Stage(
            f"checksum-{'x'.join(map(str, c.values.values()))}",
            StageKind.CHECKSUM,
            case=c.name,
            patterns=patterns,
            seeds=(request.seed,),
            time_s=time_s,
            disk_mb=disk_mb,
            whole=large,
        )
        for c in cases
    )
    observed = tuple(
        Stage(
            tool,
            StageKind.SANITIZER,
            last.name,
            seeds=(request.seed,),
            tool=tool,  # type: ignore[arg-type]
            time_s=time_s,
            disk_mb=disk_mb,
            whole=large,
        )
        for tool in dict.fromkeys(tools)
    )
    known = {**kernel.cases, **{c.name: c for c in (*cases, last)}}
    return replace(kernel, cases=known), Plan(PLAN, (*checked, *observed))


def default_cases(kernel: Kernel, arch: str = "") -> tuple[str, ...]:
    """Return the cases that are emulated where none is named, the last one with all observers."""
    if not kernel.is_operation:
        return GROUPED.get(arch, CASES)
    small = [c for c in kernel.cases.values() if not stages.is_large(kernel, c)]
    if not small:
        known = ", ".join(kernel.cases)
        raise ConfigError(
            f"every case of {kernel.name} is large: {known}", "pass --case NAME for one of them"
        )
    return tuple(c.name for c in sorted(small, key=lambda c: operation_at(kernel, c).bytes))


def one_case(kernel: Kernel, of_patch_embed: str) -> str:
    """Return the case of a single launch where none is named."""
    return default_cases(kernel)[-1] if kernel.is_operation else of_patch_embed


def _read_numbers(kernel: Kernel, text: str) -> Case:
    """Read `rows=8,columns=100`, or the name of a case of an operation."""
    if text in kernel.cases:
        return kernel.cases[text]
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not is_identifier(name) or not re.fullmatch(r"\d{1,12}", n) for name, _, n in pairs):
        known = ", ".join(kernel.cases)
        raise ConfigError(f"unknown case '{text}'; write NAME=N,NAME=N, or one of {known}")
    if len({name for name, _, _ in pairs}) != len(pairs):
        raise ConfigError(f"case '{text}' names a number twice")
    case = Case(text, numbers=tuple((name, int(n)) for name, _, n in pairs))
    operation_at(kernel, case)
    return case


def read_case(kernel: Kernel, text: str) -> Case:
    """Read `images=N,ctas=N`, or the name of a case of the kernel."""
    if kernel.is_operation:
        return _read_numbers(kernel, text)
    found = _CASE.fullmatch(text)
    case = Case(text, int(found[1]), int(found[2] or 0)) if found else kernel.cases.get(text)
    if case is None:
        known = ", ".join(kernel.cases)
        raise ConfigError(f"unknown case '{text}'; write images=N,ctas=N, or one of {known}")
    if not 1 <= case.images <= MOST_IMAGES:
        raise ConfigError(f"case {text} is not emulated: it may have 1 to {MOST_IMAGES} images")
    return case


def _disk_mb(kernel: Kernel, case: Case, request: EmulateRequest) -> int:
    """Return the limit of what a command may write: an output of 2-byte numbers each schedule."""
    shape = kernel.shape
    if kernel.is_operation:
        return 1024 + ((request.schedules or 1) * operation_at(kernel, case).bytes >> 20)
    output = 2 * case.images * shape.rows_per_image * shape.n if shape else 0
    return 1024 + ((request.schedules or 1) * output >> 20)


def _require_level(kernel: Kernel) -> None:
    if not kernel.level or not kernel.cuda:
        raise ConfigError(
            f"{kernel.name} is not a harness program, whose single launches `emulate` runs",
            f"`{COMMAND} run FILE` or `{COMMAND} remote-test` emulates the whole program;"
            f" `{COMMAND} record FILE` writes its launches for `{COMMAND} emulate --launch`",
        )
