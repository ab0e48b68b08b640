"""Invoke tasks: flags in, exit code out. What they do stands in kernelrig.run."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from invoke import Collection, Context, Exit, task
from invoke.main import program
from kernelrig.build import table
from kernelrig.dev import lint
from kernelrig.errors import CiError, ConfigError
from kernelrig.model import Run
from kernelrig.report import (
    describe_error,
    exit_code,
    render_bench,
    render_checks,
    render_sets,
    render_table,
)
from kernelrig.run import acceptance, emulator, engine, fault, prepare, recorded, static
from kernelrig.run.candidates import BenchRequest

ROOT = Path(__file__).resolve().parent
P = ParamSpec("P")

KERNEL = "kernel of kernel/kernels.yaml; default: the only one"
REMOTE = "where to run: a name of remotes.yaml or remotes.local.yaml"
REQUIRE = "exit 4 unless the device is the GPU of this very name: never emulated, never another"
BUILD = "folder under artifacts/builds made elsewhere; may be given several times"
SYSTEM_CUDA = "use the toolkit of CUDA_HOME or PATH in place of the pinned wheels"


def answers(body: Callable[P, int]) -> Callable[P, None]:
    """Turn what a task returns or raises into an exit code and at most a few lines."""

    @functools.wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = body(*args, **kwargs)
        except CiError as e:
            raise Exit(describe_error(e), code=e.exit_code) from None
        except KeyboardInterrupt:
            raise Exit("interrupted", code=6) from None
        except Exception as e:
            raise Exit(engine.record_crash(ROOT, e), code=4) from None
        if code:
            raise Exit(code=code)

    return run


def show(run: Run) -> int:
    print(render_table(run), end="")
    return exit_code(run)


@task(
    help={
        "kernel": KERNEL,
        "arch": "sm_100a, sm_90a ...; default: every arch the kernel has",
        "variant": "production, timing, debug ...; default: production",
        "all": "every kernel but the baselines, every arch, every variant",
        "system_cuda": SYSTEM_CUDA,
    }
)
@answers
def build(
    c: Context,
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    all: bool = False,
    system_cuda: bool = False,
) -> int:
    """Cross-compile kernels into artifacts/builds; nothing changed, no compiler started."""
    builds = prepare.build_kernels(
        ROOT, kernel=kernel, arch=arch, variant=variant, everything=all, system_cuda=system_cuda
    )
    print(table(builds))
    return 0


@task(
    iterable=["build"],
    help={
        "kernel": KERNEL,
        "arch": "sm_100a, sm_90a ...; default: every arch the kernel has",
        "variant": "default: production and every variant that has budgets",
        "build": BUILD,
        "accept": "write the figures of what passes into kernel/accepted.json",
        "tunables": "compile every set of tunables that is tried, in place of the rules",
        "system_cuda": SYSTEM_CUDA,
    },
)
@answers
def check(
    c: Context,
    build: list[str],
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    accept: bool = False,
    tunables: bool = False,
    system_cuda: bool = False,
) -> int:
    """Judge builds without a GPU: resources, SASS, warp roles, PTX, and what changed."""
    request = prepare.CheckRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        accept=accept,
    )
    if tunables:
        run = static.check_tunables(ROOT, request)
        print(render_sets(run))
    else:
        run = static.check(ROOT, request)
        print(render_checks(run))
    return show(run)


@task(
    help={
        "kernel": KERNEL,
        "arch": "sm_100a, sm_90a ...; default: the kernel's first",
        "variant": "default: production",
        "case": "images=N,ctas=N, or a case of kernel/kernels.yaml; default: four small ones",
        "pattern": "constant, integer or random; default: each",
        "schedules": "of each launch; default: 4 where all is observed, 2 where outputs are judged",
        "seed": "of the inputs and of the schedules",
        "observe": "memory, races, init, sync; default: all",
        "accumulate": "fp32, or hardware: the published models of tensor cores",
        "only_fault": "break the kernel by that patch of tests/bad: exit 0 if caught, 1 if missed",
        "launch": "run this launch file and nothing else, as `python -m kernelrig.emu run` does",
        "module": "the PTX of --launch, if not the one it names",
        "system_cuda": SYSTEM_CUDA,
    },
)
@answers
def emulate(
    c: Context,
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    case: str = "",
    pattern: str = "",
    schedules: str = "",
    seed: str = "0",
    observe: str = "",
    accumulate: str = "fp32",
    only_fault: str = "",
    launch: str = "",
    module: str = "",
    system_cuda: bool = False,
) -> int:
    """Emulate a kernel's PTX on this machine: outputs, races, deadlocks, barriers; never time."""
    request = emulator.EmulateRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        case=case,
        pattern=pattern,
        observe=observe,
        schedules=int(number("schedules", schedules, whole=True)) if schedules else None,
        seed=int(number("seed", seed, whole=True)),
        accumulate=accumulate,
        system_cuda=system_cuda,
    )
    if launch:
        return emulator.run_launch(Path(launch), module, request)
    if only_fault:
        return show(fault.emulate_fault(ROOT, only_fault, request))
    return show(emulator.emulate(ROOT, request))


@task(
    name="sass-diff",
    help={
        "a": "folder of a build, or KERNEL-ARCH-VARIANT, which is built",
        "b": "the other one",
        "system_cuda": SYSTEM_CUDA,
    },
)
@answers
def sass_diff(c: Context, a: str, b: str, system_cuda: bool = False) -> int:
    """Show by function what changed between the SASS of two builds."""
    print(static.compare(ROOT, a, b, system_cuda=system_cuda))
    return 0


@task(
    name="remote-test",
    iterable=["build"],
    help={
        "remote": REMOTE,
        "kernel": KERNEL,
        "variant": "which variant to run",
        "plan": "plan of ci/plans",
        "only": "stages to run, separated by commas; preflight always runs",
        "build": BUILD,
        "system_cuda": SYSTEM_CUDA,
        "stop_at_first": "end the run at the first stage that does not pass",
        "gate": "exit 1 if it is slower than the baseline by more than so many percent",
        "require_device": REQUIRE,
        "dry_run": "print the plan and touch no box",
    },
)
@answers
def remote_test(
    c: Context,
    build: list[str],
    remote: str = "",
    kernel: str = "",
    variant: str = "production",
    plan: str = "default",
    only: str = "",
    system_cuda: bool = False,
    stop_at_first: bool = False,
    gate: str = "",
    require_device: str = "",
    dry_run: bool = False,
) -> int:
    """Ship a build to a box, run the plan there, bring back results, JUnit and a summary."""
    request = prepare.RunRequest(
        remote=remote,
        kernel=kernel,
        variant=variant,
        plan=plan,
        only=tuple(filter(None, only.split(","))),
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        stop_at_first=stop_at_first,
        gate_percent=number("gate", gate) if gate else None,
        require_device=require_device,
    )
    if dry_run:
        print(engine.describe_plan(ROOT, request), end="")
        return 0
    return show(engine.run_on_remote(ROOT, request))


@task(
    iterable=["build"],
    help={
        "remote": REMOTE,
        "kernel": KERNEL,
        "variant": "which variant to profile",
        "build": BUILD,
        "require_device": REQUIRE,
        "system_cuda": SYSTEM_CUDA,
    },
)
@answers
def profile(
    c: Context,
    build: list[str],
    remote: str = "",
    kernel: str = "",
    variant: str = "production",
    require_device: str = "",
    system_cuda: bool = False,
) -> int:
    """Profile one launch with Nsight Compute on a box; bring back the report and its CSV pages."""
    request = prepare.RunRequest(
        remote=remote,
        kernel=kernel,
        variant=variant,
        plan="profile",
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        require_device=require_device,
    )
    return show(engine.run_on_remote(ROOT, request))


@task(
    iterable=["also"],
    help={
        "a": "KERNEL[:VARIANT][@REV], @REV, NAME=DIR, DIR, or a run: what the others stand beside",
        "b": "the other one; more of them may follow",
        "also": "one more; `bench A B C` says the same as `bench A B --also C`",
        "remote": REMOTE,
        "processes": "of each build, which take its turns one after the other; default: 3",
        "rounds": "each build has a turn in each; default: 7, some 20 s of two kernels of 1 ms",
        "minutes": "instead: about so long",
        "warmup_s": "seconds of load in each turn before its samples; default: 0.1",
        "settle_s": "besides, before the first turn, which only warms the card; default: 1.2",
        "samples": "of each turn; default: 860",
        "case": "case of kernel/kernels.yaml; default: full",
        "gate": "exit 1 if another is slower than A by more than so many percent",
        "force": "compare even what differs in GPU, driver, power limit or regime, and say so",
        "system_cuda": SYSTEM_CUDA,
        "dry_run": "show the turns in their order, and touch nothing",
    },
)
@answers
def bench(
    c: Context,
    a: str,
    b: str,
    also: list[str],
    remote: str = "",
    processes: str = "",
    rounds: str = "",
    minutes: str = "",
    warmup_s: str = "0.1",
    settle_s: str = "1.2",
    samples: str = "860",
    case: str = "full",
    gate: str = "",
    force: bool = False,
    system_cuda: bool = False,
    dry_run: bool = False,
) -> int:
    """Compare builds, run in turn on one box: faster, slower or undecided, with the interval."""
    if recorded.name_runs((a, b, *also)):
        print(recorded.compare(ROOT, (a, b), force=force))
        return 0
    request = BenchRequest(
        words=(a, b, *also),
        remote=remote,
        processes=int(number("processes", processes, whole=True)) if processes else None,
        minutes=number("minutes", minutes) if minutes else None,
        rounds=int(number("rounds", rounds, whole=True)) if rounds else None,
        warmup_s=number("warmup-s", warmup_s),
        settle_s=number("settle-s", settle_s),
        samples=int(number("samples", samples, whole=True)),
        case=case,
        gate_percent=number("gate", gate) if gate else None,
        force=force,
        system_cuda=system_cuda,
    )
    if dry_run:
        print(engine.describe_plan(ROOT, request), end="")
        return 0
    run = engine.run_on_remote(ROOT, request)
    print(render_bench(run), end="")
    return show(run)


def number(flag: str, text: str, *, whole: bool = False) -> float:
    """Read a number: of a flag that is an int, Invoke answers `abc` with a traceback."""
    if not re.fullmatch(r"[0-9]{1,7}" if whole else r"[0-9]{1,7}(\.[0-9]{1,6})?", text):
        kind = "whole number" if whole else "number"
        raise ConfigError(f"--{flag} must be a {kind}, 0 or more, not '{text}'")
    return float(text)


def name_all(words: list[str]) -> None:
    """Let `bench A B C` mean `bench A B --also C`: Invoke has no list of positional words."""
    if "bench" not in words:
        return
    named, at = 0, words.index("bench") + 1
    while at < len(words):
        if words[at].startswith("-"):
            alone = words[at] in ("--force", "--system-cuda", "--dry-run") or "=" in words[at]
            at += 1 if alone else 2
            continue
        named += 1
        if named > 2:
            words.insert(at, "--also")
            at += 1
        at += 1


@task(
    name="baseline-accept",
    help={
        "run": "run id, a unique part of it, or its folder",
        "dirty": "even of a tree with changes on top of its commit",
        "unchecked": "even of a build that has not passed today's checks",
        "replace": "drop the runs that are there, of whatever regime",
    },
)
@answers
def baseline_accept(
    c: Context, run: str, dirty: bool = False, unchecked: bool = False, replace: bool = False
) -> int:
    """Write a run's times into the reviewed baselines of its box class."""
    overrides = acceptance.Overrides(dirty=dirty, unchecked=unchecked, replace=replace)
    print(acceptance.accept(ROOT, run, overrides))
    return 0


@task
@answers
def baselines(c: Context) -> int:
    """List the baselines, and which of their builds have not passed today's checks."""
    print(acceptance.listing(ROOT))
    return 0


@task(help={"run": "run id, a unique part of it, or its folder"})
@answers
def collect(c: Context, run: str) -> int:
    """Bring back everything of a run whose client went away, and judge it."""
    return show(engine.collect(ROOT, run))


@task(
    name="remote-add",
    help={
        "name": "what to call it",
        "target": "USER@HOST[:PORT]",
        "fingerprint": "SHA256:... of its host key; default: trust what it shows",
        "arch": "sm_100a (B200), sm_90a (H200) ...; default: as it was, or sm_100a",
        "gpu": "what the device must be called, for example 'NVIDIA B200'",
        "identity_file": "private key to log in with; default: the agent and ssh_config",
        "replace": "overwrite an entry of the same name; default: what is not named here stays",
    },
)
@answers
def remote_add(
    c: Context,
    name: str,
    target: str,
    fingerprint: str = "",
    arch: str = "",
    gpu: str = "",
    identity_file: str = "",
    replace: bool = False,
) -> int:
    """Show a box's host key and pin it in remotes.local.yaml; with a fingerprint, only that key."""
    said = engine.add_remote(
        ROOT,
        name,
        target,
        fingerprint,
        arch=arch,
        gpu=gpu,
        identity_file=identity_file,
        replace_entry=replace,
    )
    print(said)
    return 0


@task(
    help={
        "remote": "prune this box instead of this machine",
        "days": "keep what is younger; default: 14",
    }
)
@answers
def clean(c: Context, remote: str = "", days: str = "14") -> int:
    """Prune old builds here, or old runs and unused blobs on a box; results here are kept."""
    if not re.fullmatch(r"[0-9]{1,5}", days):  # as an int, Invoke answers `abc` with a traceback
        raise ConfigError(f"--days must be a whole number of days, 0 or more, not '{days}'")
    print(engine.clean(ROOT, remote, int(days)))
    return 0


@task(help={"system_cuda": SYSTEM_CUDA})
@answers
def doctor(c: Context, system_cuda: bool = False) -> int:
    """Say what this machine has, which tools were chosen and why, what mends what is missing."""
    report, healthy = engine.doctor(ROOT, system_cuda=system_cuda)
    print(report)
    return 0 if healthy else 4


@task(help={"long": "also run the tests marked long"})
@answers
def test(c: Context, long: bool = False) -> int:
    """Run what CI runs: tests, lint, types, import contracts, schemas, workflow audit."""
    return lint.run_all(ROOT, long=long)


ns = Collection(
    baseline_accept,
    baselines,
    bench,
    build,
    check,
    clean,
    collect,
    doctor,
    emulate,
    profile,
    remote_add,
    remote_test,
    sass_diff,
    test,
)

# This module is read between the words that are Invoke's own and those that are its tasks'.
name_all(program.core.unparsed if hasattr(program, "core") else [])
