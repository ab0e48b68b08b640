"""From a request to a prepared run; errors that need no compiler are found here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kernelrig import build, config, stages
from kernelrig.config.ncu_catalogue import chip_of, load_catalogue
from kernelrig.config.profile_plans import load_profile_plans
from kernelrig.config.selection import (
    DEFAULT_REMOTE,
    SELFTEST,
    at_arch_of,
    checked_targets,
    choose_builds,
    choose_given,
    choose_kernel,
    choose_remote,
    choose_targets,
    narrow,
    require_sense,
    require_tunables,
    stage_variants,
    stages_named,
)
from kernelrig.config.shipped_selftest import shipped_selftest
from kernelrig.engines import chosen_engine
from kernelrig.errors import ConfigError
from kernelrig.model import (
    Build,
    DeviceKind,
    Kernel,
    Outcome,
    Plan,
    Profiling,
    Purpose,
    Remote,
    Stage,
    StageKind,
    draw_seed,
    executor,
)
from kernelrig.run.candidates import prepare_bench
from kernelrig.run.emulation import prepare_emulation
from kernelrig.run.requests import (
    BenchRequest,
    BuildRequest,
    CheckRequest,
    EmulateRequest,
    Request,
    RunRequest,
)
from kernelrig.run.spec import BuildSpec, RunSpec, tools_of
from kernelrig.run.store import load_finished

BUILD = Stage("build", StageKind.BUILD)
"""The first stage of every run."""


def prepare(root: Path, request: Request, *, described: bool = False) -> RunSpec:
    """Return the run that is requested; a wrong request raises ConfigError with what is allowed.

    For one that is only `described` no tool is looked for, which might have to be fetched, and its
    host may be one that is still to be rented.
    """
    match request:
        case RunRequest():
            prepared = prepare_run(root, request, reached=not described)
            purpose = request.purpose
        case BenchRequest():
            prepared = prepare_bench(root, request, reached=not described)
            purpose = Purpose.BENCH
        case EmulateRequest():
            prepared, purpose = prepare_emulation(root, request), Purpose.EMULATE
        case CheckRequest():
            prepared, purpose = prepare_check(root, request), Purpose.CHECK
        case BuildRequest():
            prepared, purpose = prepare_build(root, request), Purpose.BUILD
    if isinstance(request, RunRequest | BenchRequest):
        prepared = replace(prepared, wait_s=request.wait_s)
    return with_build(root, prepared, purpose, system_cuda=request.system_cuda, described=described)


def with_build(
    root: Path,
    prepared: RunSpec,
    purpose: Purpose,
    *,
    system_cuda: bool,
    described: bool = False,
) -> RunSpec:
    """Return the run with its first stage, and with the tools that its builds need.

    One that is only `described` is never built, and gets none.
    """
    first = BUILD.name
    if any(s.name == first for s in prepared.plan.stages):
        raise ConfigError(f"plan {prepared.plan.name} has a stage '{first}': each run has its own")
    tools = tools_of(root, {} if described else prepared.wanted, system_cuda=system_cuda)
    plan = replace(prepared.plan, stages=(BUILD, *prepared.plan.stages))
    return replace(prepared, purpose=purpose, plan=plan, tools=tools, system_cuda=system_cuda)


def prepare_build(root: Path, request: BuildRequest) -> RunSpec:
    """Return the builds that were named, each under its own name, and no stage but the build."""
    kernels = config.load_kernels(root)
    if request.everything and not request.kernel:
        chosen = [k for k in kernels.values() if not k.baseline]
    else:
        chosen = [choose_kernel(kernels, request.kernel)]
    wanted = {
        r.name: BuildSpec(r)
        for k in chosen
        for a, v in choose_targets(k, request.arch, request.variant, everything=request.everything)
        for r in [build.Request(k, a, v)]
    }
    return RunSpec(chosen[0], Plan("build", ()), *_named(wanted.values()), wanted)


def prepare_check(root: Path, request: CheckRequest) -> RunSpec:
    """Return the builds to be checked: production and what has budgets, unless flags name others.

    The stage of each is called like its place: its arch and variant.
    """
    if request.tunables and (request.accept or request.build_folders):
        given = "--accept" if request.accept else "--build"
        raise ConfigError(f"--tunables compiles sets of its own: it takes no {given}")
    on = chosen_engine(request.on, tunables=request.tunables)
    kernels = config.load_kernels(root)
    loaded = tuple(map(build.load_build, request.build_folders))
    kernel = choose_kernel(kernels, request.kernel or next((b.kernel for b in loaded), ""))
    if not kernel.cuda:
        raise ConfigError(
            f"{kernel.name} is a CPU program: it has no cubin to check", "run `invoke remote-test`"
        )
    if loaded:
        builds = choose_given(kernel, loaded, request.arch, request.variant)
        wanted = {_place(r): BuildSpec(r, b) for b in builds for r in [_request(kernel, b)]}
    else:
        choose = choose_targets if request.tunables else checked_targets
        targets = choose(kernel, request.arch, request.variant)
        if request.tunables:
            require_tunables(kernel, *(a for a, _ in targets))
        requests = [build.Request(kernel, a, v) for a, v in targets]
        if request.tunables:
            requests = [r for r in requests if kernel.tunables.get(r.arch)]
        wanted = {_place(r): BuildSpec(r) for r in requests}
    kind = StageKind.TUNABLES if request.tunables else StageKind.CHECK
    judged = tuple(Stage(p, kind, variant=w.request.variant) for p, w in wanted.items())
    plan = Plan("tunables" if request.tunables else "check", judged)
    return RunSpec(kernel, plan, *_named(wanted.values()), wanted, accept=request.accept, on=on)


def _request(kernel: Kernel, given: Build) -> build.Request:
    return build.Request(kernel, given.arch, given.variant)


def _place(request: build.Request) -> str:
    return f"{request.arch}-{request.variant}"


def _named(wanted: Iterable[BuildSpec]) -> tuple[str, str]:
    """Return the archs and the variants of several builds, each joined by `+`."""
    requests = [w.request for w in wanted]
    archs, variants = [r.arch for r in requests], [r.variant for r in requests]
    return "+".join(dict.fromkeys(archs)), "+".join(dict.fromkeys(variants))


def prepare_run(root: Path, request: RunRequest, *, reached: bool = True) -> RunSpec:
    """Return a run of a plan on a remote, which may be still to be rented where not `reached`."""
    remotes = config.load_remotes(root)
    remote = choose_remote(remotes, request.remote, DEFAULT_REMOTE, reached=reached)
    kernels = config.load_kernels(root)
    whole = config.load_plan(root, request.plan)
    if not whole.stages:
        raise ConfigError(f"plan {whole.name} has no stages: nothing would judge the kernel")
    loaded = tuple(map(build.load_build, request.build_folders))
    named = request.kernel or next((b.kernel for b in loaded if b.kernel != SELFTEST), "")
    kernel = choose_kernel(kernels, named)
    only = stages_named(whole, kernel, request.only)
    plan = narrow(whole, only)
    remote = at_arch_of(remote, kernel)
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
    needed = {
        (kernel.name, ""): (kernel, variant),
        **{(kernel.name, v): (kernel, v) for v in variants if v != variant},
    }
    device, _ = executor(kernel, remote.device, None)
    if device is DeviceKind.GPU and any(s.kind is StageKind.SANITIZER for s in plan.stages):
        needed[SELFTEST, ""] = (kernels.get(SELFTEST) or shipped_selftest(root), "")
    wanted = {}
    for (name, place), (k, v) in needed.items():
        held = given.get((name, place))
        arch, chosen = (held.arch, held.variant) if held else choose_targets(k, remote.arch, v)[0]
        named_place = SELFTEST if name == SELFTEST else place
        wanted[named_place] = BuildSpec(build.Request(k, arch, chosen), held)
    # Who names a seed wants these inputs; a CPU program depends on its machine in ways no key has.
    offers = (
        request.purpose is Purpose.TEST and request.seed is None and device is not DeviceKind.CPU
    )
    return RunSpec(
        kernel,
        plan,
        remote.arch,
        wanted[""].request.variant,
        wanted,
        remote=remote,
        gate_percent=request.gate_percent,
        require_device=request.require_device,
        seed=_seed(request.seed, device, kernel),
        only=only if plan != whole else (),
        stop_at_first=request.stop_at_first,
        profiling=_profiling(root, request, plan, kernel, wanted[""].request.arch, device),
        reuses=offers and not request.fresh and not request.require_device,
        offers=offers,
    )


def _profiling(
    root: Path,
    request: RunRequest,
    plan: Plan,
    kernel: Kernel,
    arch: str,
    device: DeviceKind,
) -> Profiling | None:
    """Return what the profile stages measure; None where there is none to run."""
    if device is not DeviceKind.GPU or not any(s.kind is StageKind.PROFILE for s in plan.stages):
        return None
    chip = chip_of(arch)
    plans = load_profile_plans(root, request.profile_plans, chip)
    runs = stages.merge_plans(plans, chip, stages.WARM_UP if kernel.level else 0)
    before = _profiled_before(root, request.before) if request.before else ""
    return Profiling(chip, load_catalogue(root, chip).ncu, plans, runs, before)


def _profiled_before(root: Path, name: str) -> str:
    """Return the id of a run whose profile passed; ConfigError for any other."""
    run = load_finished(root, name).run
    profiled = [r for r in run.stages if r.kind is StageKind.PROFILE]
    if not any(r.verdict.outcome is Outcome.PASS for r in profiled):
        why = f"{profiled[0].name} did not pass" if profiled else "it profiled nothing"
        raise ConfigError(f"--before: {run.id} has no counters: {why}", "name a run of `profile`")
    return run.id


def _seed(asked: int | None, device: DeviceKind, kernel: Kernel) -> int | None:
    """Return the seed asked for, or one drawn for a device that executes the kernel.

    None for a plain program, whose inputs are its own.

    What is emulated keeps the plan's own: the same commit has the same findings, in CI too, and
    every output of it is compared here, where no kernel can tell a check from a measurement.
    """
    if not kernel.level:
        if asked is not None:
            raise ConfigError(f"--seed: {kernel.name} is a plain program: it makes its own inputs")
        return None
    if asked is not None or device is DeviceKind.EMULATOR:
        return asked
    return draw_seed()


def _require_work(kernel: Kernel, remote: Remote, plan: Plan) -> None:
    """Refuse a plan none of whose stages can do anything with this kernel there."""
    device, _ = executor(kernel, remote.device, None)
    reasons = [stages.why_not(kernel, remote.arch, s, device) for s in plan.on_host]
    if reasons and all(reasons):
        if device is DeviceKind.EMULATOR:
            hint = "pass --remote NAME of a host with a GPU (remote-add adds one)"
            raise ConfigError(f"plan {plan.name} needs a GPU: {reasons[0]}", hint)
        raise ConfigError(f"plan {plan.name} has no stage to run: {reasons[0]}")


def _require_timing(kernel: Kernel, remote: Remote, plan: Plan) -> None:
    device, _ = executor(kernel, remote.device, None)
    if not kernel.level and not kernel.prints_no_time:
        why = f"{kernel.name} is a plain program: what it prints has no baseline"
        raise ConfigError(f"--gate would gate nothing: {why}", "`invoke bench --gate` compares two")
    timed = [s for s in plan.on_host if s.kind is StageKind.TIMING]
    reasons = [stages.why_not(kernel, remote.arch, s, device) for s in timed]
    if all(reasons):
        why = reasons[0] if timed else "it has no timing stage"
        raise ConfigError(f"--gate would gate nothing in plan {plan.name}: {why}")
