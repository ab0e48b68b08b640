"""Tasks that run on a host, and tasks that continue with the results of a run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import (
    name_list,
    number,
    optional_number,
    optional_seed,
    optional_whole_number,
    whole_number,
)
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply, of_run
from kernelrig.errors import ConfigError

if TYPE_CHECKING:
    from kernelrig.model import Run


@command(
    iterable=["build"],
    help={
        "variant": "which variant to run",
        "plan": "plan of ci/plans",
        "only": "stages to run, separated by commas; preflight always runs",
        "stop_at_first": "end the run at the first stage that does not pass",
        "gate": "exit 1 if it is slower than the baseline by more than this percentage",
        "fresh": "run every stage, also one that passed before and that nothing has changed for",
        "dry_run": "print plan, minutes and price; compile nothing, connect to no host",
    },
)
def remote_test(
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
    seed: str = "",
    fresh: bool = False,
    wait: str = "",
    dry_run: bool = False,
) -> Reply:
    """Ship a build to a host, run the plan there, bring back results, JUnit and a summary."""
    from kernelrig.run import engine
    from kernelrig.run.forecast import describe_plan
    from kernelrig.run.requests import RunRequest

    request = RunRequest(
        remote=remote,
        kernel=kernel,
        variant=variant,
        plan=plan,
        only=name_list("only", only),
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        stop_at_first=stop_at_first,
        gate_percent=optional_number("gate", gate),
        require_device=require_device,
        seed=optional_seed("seed", seed),
        fresh=fresh,
        wait_s=60 * (optional_number("wait", wait) or 0.0),
    )
    if dry_run:
        return Reply(describe_plan(project_root(), request))
    run = engine.run_plan(project_root(), request)
    return of_run(run, _phases(run))


@command(
    iterable=["build"],
    help={
        "gpu": "name of the GPU that the job would require, as its driver says it",
        "plan": "plan of ci/plans",
        "only": "stages that the job would run, separated by commas; preflight always runs",
    },
)
def gpu_needed(build: list[str], gpu: str = "", plan: str = "default", only: str = "") -> Reply:
    """Say whether a CI job needs its GPU, or all of it passed there before, with nothing changed.

    In GitHub Actions `needed` (true or false) and `key` become outputs of the step.
    """
    from kernelrig.report.github import set_outputs
    from kernelrig.run.gpu_decision import decide

    found = decide(project_root(), map(Path, build), gpu, plan=plan, only=name_list("only", only))
    text = f"{'the GPU is needed' if found.needed else 'skipped'}: {found.why}"
    set_outputs({"needed": str(found.needed).lower(), "key": found.key}, text, os.environ)
    return Reply(text)


def _phases(run: Run) -> str:
    """Return what the clocks of a timing build mean, of each stage that has some."""
    from kernelrig.report import render_phases
    from kernelrig.run.analyses import phases_of_run

    found = phases_of_run(project_root(), run)
    return "\n".join(f"stage {name}\n{render_phases(phases)}" for name, phases in found)


def _profiled(run: Run) -> Reply:
    """Return the reply of a run with what its measurements mean: phases, a profile, what moved."""
    from kernelrig.run.explanations import explained_run
    from kernelrig.run.profile_comparison import compared_with_before

    root = project_root()
    text, found = explained_run(root, run)
    reply = of_run(run, _phases(run) + text + compared_with_before(root, run))
    return replace(reply, explanation=found)


@command(
    iterable=["build"],
    help={
        "variant": "which variant to profile",
        "plans": "profile plans, separated by commas; default: all that are for the chip",
        "before": "run of `profile` that this one is compared with at its end",
        "dry_run": "print what ncu would be asked, minutes and price; connect to no host",
    },
)
def profile(
    build: list[str],
    remote: str = "",
    kernel: str = "",
    variant: str = "production",
    plans: str = "",
    before: str = "",
    require_device: str = "",
    seed: str = "",
    system_cuda: bool = False,
    wait: str = "",
    dry_run: bool = False,
) -> Reply:
    """Profile launches with Nsight Compute on a host: each plan asks a question, rules answer."""
    from kernelrig.model import Purpose
    from kernelrig.run import engine
    from kernelrig.run.forecast import describe_plan
    from kernelrig.run.requests import RunRequest

    request = RunRequest(
        remote=remote,
        kernel=kernel,
        variant=variant,
        plan="profile",
        profile_plans=name_list("plans", plans),
        before=before,
        purpose=Purpose.PROFILE,
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        require_device=require_device,
        seed=optional_seed("seed", seed),
        wait_s=60 * (optional_number("wait", wait) or 0.0),
    )
    if dry_run:
        return Reply(describe_plan(project_root(), request))
    run = engine.run_plan(project_root(), request)
    return _profiled(run)


@command(
    iterable=["also"],
    help={
        "a": "KERNEL[:VARIANT][@REV], @REV, NAME=DIR, DIR, or a run: what others are compared with",
        "b": "the other one; more of them may follow",
        "also": "one more; `bench A B C` means `bench A B --also C`",
        "processes": "of each build, which run in its measurement slots in turn; default: 3",
        "rounds": "each build has a slot in each; default: 7, some 20 s for two kernels of 1 ms",
        "minutes": "how long to measure, about; in place of --rounds",
        "warmup_s": "seconds of load in each slot before its samples; default: 0.1",
        "settle_s": "seconds of load before the first slot, which warm the GPU; default: 1.2",
        "samples": "of each slot; default: 860",
        "case": "case of kernel/kernels.yaml; default: full",
        "gate": "exit 1 if another is slower than A by more than this percentage",
        "force": "compare even if GPU, driver, power limit or regime differ",
        "dry_run": "print the slots in their order, minutes and price; connect to no host",
    },
)
def bench(
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
    seed: str = "",
    force: bool = False,
    system_cuda: bool = False,
    wait: str = "",
    dry_run: bool = False,
) -> Reply:
    """Compare builds, run in turn on one host: faster, slower or inconclusive, with intervals."""
    from kernelrig.report import render_bench
    from kernelrig.run import engine, recorded
    from kernelrig.run.forecast import describe_plan
    from kernelrig.run.requests import BenchRequest

    if recorded.name_runs((a, b, *also)):
        asked = {"remote": remote, "rounds": rounds, "minutes": minutes, "gate": gate}
        if given := next((name for name, value in asked.items() if value), ""):
            text = f"bench of two runs measures and decides nothing: it takes no --{given}"
            raise ConfigError(text, "name builds, or `remote-test --gate` with a baseline")
        return Reply(recorded.compare(project_root(), (a, b), force=force))
    request = BenchRequest(
        words=(a, b, *also),
        remote=remote,
        processes=optional_whole_number("processes", processes),
        minutes=optional_number("minutes", minutes),
        rounds=optional_whole_number("rounds", rounds),
        warmup_s=number("warmup-s", warmup_s),
        settle_s=number("settle-s", settle_s),
        samples=whole_number("samples", samples),
        case=case,
        gate_percent=optional_number("gate", gate),
        force=force,
        seed=optional_seed("seed", seed),
        system_cuda=system_cuda,
        wait_s=60 * (optional_number("wait", wait) or 0.0),
    )
    if dry_run:
        return Reply(describe_plan(project_root(), request))
    run = engine.run_plan(project_root(), request)
    return of_run(run, render_bench(run))


@command()
def collect(run: str) -> Reply:
    """Follow a run that goes on without its client to its end, fetch everything and judge it."""
    from kernelrig.run import engine

    collected = engine.collect(project_root(), run)
    return _profiled(collected)


@command()
def cancel(run: str) -> Reply:
    """End a run on its host, fetch what it had, and judge that; exits 6, as it is incomplete."""
    from kernelrig.run import engine

    return of_run(engine.collect(project_root(), run, cancel=True))


@command(
    help={
        "dirty": "even of a tree with changes on top of its commit",
        "unchecked": "even of a build that has not passed the current checks",
        "replace": "remove the baseline's runs first, of any regime",
    },
)
def baseline_accept(
    run: str, dirty: bool = False, unchecked: bool = False, replace: bool = False
) -> Reply:
    """Write a run's times into the reviewed baselines of its host class."""
    from kernelrig.run import accepted_times

    overrides = accepted_times.Overrides(dirty=dirty, unchecked=unchecked, replace=replace)
    return Reply(accepted_times.accept(project_root(), run, overrides))


@command()
def baselines() -> Reply:
    """List the baselines, and which of their builds have not passed the current checks."""
    from kernelrig.run import accepted_times
    from kernelrig.run.baselines import load_baselines

    root = project_root()
    return Reply(accepted_times.listing(root), baselines=tuple(load_baselines(root)))
