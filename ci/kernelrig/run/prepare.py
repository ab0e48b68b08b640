"""What a run is made of before the box is touched: the remote, the kernel, the plan, the builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.build import toolchain
from kernelrig.config.selection import (
    DEFAULT_REMOTE,
    SELFTEST,
    checked_targets,
    choose_builds,
    choose_given,
    choose_kernel,
    choose_remote,
    choose_targets,
    narrow,
    require_sense,
    stage_variants,
)
from kernelrig.errors import ConfigError
from kernelrig.files.validation import nearest
from kernelrig.model import (
    Bench,
    Build,
    Builds,
    DeviceKind,
    Kernel,
    Plan,
    Remote,
    StageKind,
    Toolchain,
    executor,
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the user asked to have run; empty = choose, and say so where there is no choice."""

    remote: str
    kernel: str = ""
    variant: str = "production"
    plan: str = "default"
    only: tuple[str, ...] = ()
    build_folders: tuple[Path, ...] = ()
    system_cuda: bool = False
    stop_at_first: bool = False
    gate_percent: float | None = None
    require_device: str = ""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known before the box is touched."""

    kernel: Kernel
    remote: Remote
    plan: Plan
    builds: Builds
    bench: Bench | None = None
    gate_percent: float | None = None
    require_device: str = ""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What the user asked to have checked; `build_folders` in place of what would be built here."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    build_folders: tuple[Path, ...] = ()
    system_cuda: bool = False
    accept: bool = False


@dataclass(frozen=True, slots=True)
class Checkable:
    """The builds of one kernel, and the tools that made them; None if they were made elsewhere."""

    kernel: Kernel
    builds: tuple[Build, ...]
    tools: Toolchain | None


def build_kernels(
    root: Path,
    *,
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    everything: bool = False,
    system_cuda: bool = False,
) -> tuple[Build, ...]:
    """Build what was named; `everything`: each kernel but the baselines, each arch and variant."""
    kernels = config.load_kernels(root)
    if everything and not kernel:
        chosen = [k for k in kernels.values() if not k.baseline]
    else:
        chosen = [choose_kernel(kernels, kernel)]
    requests = [
        build.Request(k, a, v)
        for k in chosen
        for a, v in choose_targets(k, arch, variant, everything=everything)
    ]
    return build_requests(root, requests, system_cuda=system_cuda)


def prepare_check(root: Path, request: CheckRequest) -> Checkable:
    """Build what is to be checked: production and what has budgets, unless words say else."""
    kernels = config.load_kernels(root)
    given = tuple(map(build.load_build, request.build_folders))
    kernel = choose_kernel(kernels, request.kernel or next((b.kernel for b in given), ""))
    if not kernel.cuda:
        raise ConfigError(f"{kernel.name} is a CPU program: without running it there is no verdict")
    if given:
        return Checkable(kernel, choose_given(kernel, given, request.arch, request.variant), None)
    targets = checked_targets(kernel, request.arch, request.variant)
    requests = [build.Request(kernel, a, v) for a, v in targets]
    tools = _find_tools(root, requests, system_cuda=request.system_cuda)
    return Checkable(kernel, build.build_all(root, requests, tools), tools)


def prepare_sets(root: Path, request: CheckRequest) -> tuple[Checkable, Toolchain]:
    """Build the variant whose tunables are to be tried, for each arch that has any."""
    if request.accept or request.build_folders:
        given = "--accept" if request.accept else "--build"
        raise ConfigError(f"--tunables compiles sets of its own: it takes no {given}")
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    targets = choose_targets(kernel, request.arch, request.variant)
    requests = [build.Request(kernel, a, v) for a, v in targets if kernel.tunables.get(a)]
    if not requests:
        archs = ", ".join(dict.fromkeys(a for a, _ in targets))
        raise ConfigError(f"{kernel.name} has no tunables for {archs}; see kernel/kernels.yaml")
    tools = _find_tools(root, requests, system_cuda=request.system_cuda)
    return Checkable(kernel, build.build_all(root, requests, tools), tools), tools


def prepare_named(
    root: Path, names: Sequence[str], *, system_cuda: bool = False
) -> tuple[Build, ...]:
    """Return the build that each name means: a folder's, or that of KERNEL-ARCH-VARIANT, now."""
    kernels = config.load_kernels(root)
    known = {
        f"{k.name}-{a}-{v}": build.Request(k, a, v)
        for k in kernels.values()
        for a in k.sources
        for v in k.variants
        if k.cuda and not k.lacks(v, a)
    }
    for name in names:
        if name not in known and not Path(name).is_dir():
            near = nearest(name, known)
            raise ConfigError(
                f"'{name}' is no folder of a build, and no KERNEL-ARCH-VARIANT{near}",
                "see `ls artifacts/builds`, and kernel/kernels.yaml",
            )
    # A folder that is called like a build is the folder: it can be named in no other way.
    wanted = [known[n] for n in dict.fromkeys(names) if not Path(n).is_dir()]
    built = build_requests(root, wanted, system_cuda=system_cuda)
    made = {r.name: b for r, b in zip(wanted, built, strict=True)}
    return tuple(made.get(n) or build.load_build(Path(n)) for n in names)


def prepare(root: Path, request: RunRequest) -> Prepared:
    """Everything that can be wrong without the box is found here: names, cases, compile errors."""
    remote = choose_remote(config.load_remotes(root), request.remote, DEFAULT_REMOTE)
    kernels = config.load_kernels(root)
    plan = narrow(config.load_plan(root, request.plan), request.only)
    loaded = tuple(map(build.load_build, request.build_folders))
    named = request.kernel or next((b.kernel for b in loaded if b.kernel != SELFTEST), "")
    kernel = choose_kernel(kernels, named)
    require_sense(kernel, plan)
    _require_work(kernel, remote, plan)
    if request.gate_percent is not None:
        _require_timing(kernel, remote, plan)
    variants = stage_variants(kernel, plan, remote.arch)
    given = choose_builds(
        loaded, kernel.name, remote.arch, [v for v in variants if v != request.variant]
    )
    own = given.get((kernel.name, ""))
    variant = own.variant if own else request.variant
    wanted = {
        (kernel.name, ""): (kernel, variant),
        **{(kernel.name, v): (kernel, v) for v in variants if v != variant},
    }
    device, _ = executor(kernel, remote, None)
    sanitizers = device is DeviceKind.GPU and any(
        s.kind is StageKind.SANITIZER for s in plan.stages
    )
    if sanitizers:
        wanted[SELFTEST, ""] = (choose_kernel(kernels, SELFTEST), "")
    requests = {
        place: build.Request(k, *choose_targets(k, remote.arch, v)[0])
        for place, (k, v) in wanted.items()
        if place not in given
    }
    made = build_requests(root, tuple(requests.values()), system_cuda=request.system_cuda)
    found = given | dict(zip(requests, made, strict=True))
    builds = Builds(
        own=found[kernel.name, ""],
        variants={v: found[name, v] for name, v in wanted if v},
        selftest=found[SELFTEST, ""] if sanitizers else None,
    )
    return Prepared(
        kernel,
        remote,
        plan,
        builds,
        gate_percent=request.gate_percent,
        require_device=request.require_device,
    )


def _require_work(kernel: Kernel, remote: Remote, plan: Plan) -> None:
    """Refuse a plan none of whose stages can do anything with this kernel there."""
    device, _ = executor(kernel, remote, None)
    reasons = [stages.why_not(kernel, remote.arch, s, device) for s in plan.on_host]
    if reasons and all(reasons):
        hint = "pass --remote NAME of a box with a GPU" if device is DeviceKind.EMULATOR else ""
        raise ConfigError(f"plan {plan.name} has no stage to run: {reasons[0]}", hint)


def _require_timing(kernel: Kernel, remote: Remote, plan: Plan) -> None:
    device, _ = executor(kernel, remote, None)
    timed = [s for s in plan.on_host if s.kind is StageKind.TIMING]
    reasons = [stages.why_not(kernel, remote.arch, s, device) for s in timed]
    if all(reasons):
        why = reasons[0] if timed else "it has no timing stage"
        raise ConfigError(f"--gate would gate nothing in plan {plan.name}: {why}")


def build_requests(
    root: Path, requests: Sequence[build.Request], *, system_cuda: bool
) -> tuple[Build, ...]:
    """Return a build for each request, by the tools that they need and this machine has."""
    if not requests:
        return ()
    tools = _find_tools(root, requests, system_cuda=system_cuda)
    return build.build_all(root, requests, tools)


def _find_tools(root: Path, requests: Sequence[build.Request], *, system_cuda: bool) -> Toolchain:
    needs_cuda = any(r.kernel.cuda for r in requests)
    extras = sorted({extra for r in requests for extra in r.kernel.extras})
    tools = toolchain.find_toolchain(root, system=system_cuda, cuda=needs_cuda, extras=extras)
    for arch in sorted({r.arch for r in requests if r.kernel.cuda}):
        toolchain.require_arch(tools, arch)
    return tools
