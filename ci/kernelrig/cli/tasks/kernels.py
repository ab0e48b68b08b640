"""Tasks that need no host: build, check, emulate, compare."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.cli.command import command
from kernelrig.cli.flag_values import name_list, optional_whole_number, whole_number
from kernelrig.cli.project import project_root
from kernelrig.cli.reply import Reply, of_run
from kernelrig.cli.streams import clear_screen, write_result
from kernelrig.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from kernelrig.model import Timeline


@command(
    help={
        "arch": "sm_100a, sm_90a ...; default: every arch the kernel has",
        "variant": "production, timing, debug ...; default: production",
        "all": "every kernel but the baselines, every arch, every variant",
    }
)
def build(
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    all: bool = False,
    system_cuda: bool = False,
) -> Reply:
    """Cross-compile kernels into artifacts/builds; what is unchanged is not compiled again."""
    from kernelrig.build import table
    from kernelrig.run.engine import build_kernels
    from kernelrig.run.requests import BuildRequest

    request = BuildRequest(kernel, arch, variant, everything=all, system_cuda=system_cuda)
    builds = build_kernels(project_root(), request)
    return Reply(table(builds), builds=builds)


@command(
    iterable=["build"],
    help={
        "arch": "sm_100a, sm_90a ...; default: every arch the kernel has",
        "variant": "default: production and every variant that has budgets",
        "accept": "write the figures of what passes into kernel/accepted.json",
        "tunables": "compile every set of tunables that is tried, in place of the rules",
        "verbose": "print every rule with its figures, not only those that did not pass",
    },
)
def check(
    build: list[str],
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    accept: bool = False,
    tunables: bool = False,
    on: str = "",
    verbose: bool = False,
    system_cuda: bool = False,
) -> Reply:
    """Judge builds without a GPU: resources, SASS, warp roles, PTX, and what changed."""
    from kernelrig.report import render_checks, render_sets
    from kernelrig.run.engine import run_plan
    from kernelrig.run.requests import CheckRequest

    request = CheckRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        build_folders=tuple(map(Path, build)),
        system_cuda=system_cuda,
        accept=accept,
        tunables=tunables,
        on=on,
    )
    run = run_plan(project_root(), request)
    return of_run(run, render_sets(run) if tunables else render_checks(run, verbose=verbose))


@command(
    help={
        "arch": "sm_100a, sm_90a ...; default: the kernel's first",
        "variant": "default: production",
        "case": "a case of kernel/kernels.yaml, or its numbers, as images=N; default: small ones",
        "pattern": "constant, integer or random; default: each",
        "schedules": "schedules of each launch; default: 4, or 2 where only outputs are compared",
        "seed": "seed of the inputs and of the schedules",
        "observe": "memory, races, init, sync; default: all",
        "accumulate": "fp32, or hardware: the published models of tensor cores",
        "engine": "native, numpy, or auto: native where it can be built; default: auto",
        "only_fault": "break the kernel by this patch of tests/bad: exit 0 if detected, 1 if not",
        "tunables": "emulate every set of tunables that is tried, in place of the stages",
        "launch": "run this launch file and nothing else, as `python -m kernelrig.emu run` does",
        "module": "the PTX of --launch, if not the one it names",
        "large": "let the buffers of --launch be as large as memory is free",
    },
)
def emulate(
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    case: str = "",
    pattern: str = "",
    schedules: str = "",
    seed: str = "0",
    observe: str = "",
    accumulate: str = "fp32",
    engine: str = "",
    only_fault: str = "",
    tunables: bool = False,
    on: str = "",
    launch: str = "",
    module: str = "",
    large: bool = False,
    severity: str = "",
    strict: bool = False,
    system_cuda: bool = False,
) -> Reply:
    """Emulate a kernel's PTX on this machine: outputs, races, deadlocks, barriers; never time."""
    from kernelrig.run.requests import EmulateRequest

    request = EmulateRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        case=case,
        pattern=pattern,
        observe=name_list("observe", observe),
        schedules=optional_whole_number("schedules", schedules),
        seed=whole_number("seed", seed),
        accumulate=accumulate,
        engine=engine,
        system_cuda=system_cuda,
        only_fault=only_fault,
        tunables=tunables,
        severities=name_list("severity", severity),
        strict=strict,
        on=on,
    )
    if module and not launch:
        raise ConfigError("--module is the PTX of a launch file", "pass --launch FILE too")
    if large and not launch:
        raise ConfigError(
            "--large is for a launch file", "pass --launch FILE; a case needs no flag"
        )
    if launch:
        from kernelrig.run.emulation import run_launch

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = run_launch(Path(launch), module, request, large=large)
        return Reply(printed.getvalue(), exit_code=code)
    from kernelrig.run.engine import run_plan

    if tunables:
        from kernelrig.report import render_sets

        run = run_plan(project_root(), request)
        return of_run(run, render_sets(run))
    return of_run(run_plan(project_root(), request))


@command(
    help={
        "arch": "sm_100a, sm_90a ...; default: the kernel's first",
        "variant": "default: production",
        "case": "a case of kernel/kernels.yaml, or its numbers, as images=N,ctas=N; default: smoke",
        "schedules": "schedules of the launch",
        "once": "judge the sources as they are and end",
    }
)
def watch(
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    case: str = "",
    schedules: str = "2",
    once: bool = False,
    system_cuda: bool = False,
) -> Reply:
    """Judge a kernel on every save, in seconds: PTX rules, a small case emulated; never time."""
    from kernelrig.run.quick_verdict import Attempt, WatchRequest, judge_sources
    from kernelrig.run.watching import watch as watch_sources

    request = WatchRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        case=case,
        schedules=whole_number("schedules", schedules),
        system_cuda=system_cuda,
    )
    if once:
        attempt = judge_sources(project_root(), request)
        return Reply(attempt.text, attempt.exit_code, run=attempt.run)

    def show(attempt: Attempt) -> None:
        clear_screen()
        if write_result(attempt.text):
            raise Interrupted("nobody reads the verdicts any more")

    with contextlib.suppress(Interrupted):
        watch_sources(project_root(), request, show)
    return Reply("watching has ended")


@command(
    help={
        "arch": "sm_100a, sm_90a ...; default: the kernel's first",
        "variant": "default: production",
        "case": "a case of kernel/kernels.yaml, or its numbers; default: images=2,ctas=2",
        "pattern": "constant, integer or random; default: random",
        "schedule": "number of the schedule: each is another order",
        "seed": "seed of the inputs and of the schedule",
        "engine": "native, numpy, or auto: native where it can be built",
        "launch": "trace this launch file and no kernel of kernel/kernels.yaml",
        "module": "the PTX of --launch, if not the one it names",
        "measured": "run, or result file, of a `trace` build: what it recorded on its GPU",
        "stage": "which timing stage of the run of --measured; default: the only one with a trace",
        "output": "file to write",
    },
)
def trace(
    kernel: str = "",
    arch: str = "",
    variant: str = "",
    case: str = "",
    pattern: str = "",
    schedule: str = "0",
    seed: str = "0",
    engine: str = "auto",
    launch: str = "",
    module: str = "",
    measured: str = "",
    stage: str = "",
    output: str = "trace.json",
    system_cuda: bool = False,
) -> Reply:
    """Write what warps of an emulated launch, or of a measured one, did when, for Perfetto."""
    if measured:
        given = (kernel, arch, variant, case, pattern, launch, module)
        if any(given):
            raise ConfigError("--measured names what was run: it takes no kernel and no launch")
        return _measured_trace(measured, stage, output)
    if stage:
        raise ConfigError("--stage is one of a run", "pass --measured RUN too")
    from kernelrig.run import tracing

    if module and not launch:
        raise ConfigError("--module is the PTX of a launch file", "pass --launch FILE too")
    request = tracing.TraceRequest(
        kernel=kernel,
        arch=arch,
        variant=variant,
        case=case,
        pattern=pattern,
        schedule=whole_number("schedule", schedule),
        seed=whole_number("seed", seed),
        engine=engine,
        launch=launch,
        module=module,
        system_cuda=system_cuda,
    )
    traced = tracing.trace(project_root(), request, output)
    timeline = traced.timeline
    lines = [f"{timeline.title}: order, not time", _counts(timeline)]
    if traced.errors or traced.stopped:
        ended = "it did not reach its end, " if traced.stopped else ""
        lines.append(f"{ended}{traced.errors} errors were found: `invoke emulate` says which")
    return Reply("\n".join([*lines, *_written(output)]))


def _measured_trace(name: str, stage: str, output: str) -> Reply:
    from kernelrig.run.analyses import measured_trace
    from kernelrig.terminal.text import one_line

    timeline = measured_trace(project_root(), name, stage, output)
    note = "the build records while it runs: its phases last longer than production's"
    title = one_line(timeline.title)
    return Reply("\n".join([title, note, _counts(timeline), *_written(output)]))


def _counts(timeline: Timeline) -> str:
    left_out = f"; {timeline.left_out} later events are left out" if timeline.left_out else ""
    shown = (timeline.tracks, timeline.slices, timeline.flows)
    tracks, slices, flows = map(len, shown)
    return f"{tracks} tracks, {slices} slices, {flows} flows{left_out}"


def _written(output: str) -> list[str]:
    return [f"written: {output}", "next: open it in https://ui.perfetto.dev"]


@command(
    help={
        "a": "folder of a build, or KERNEL-ARCH-VARIANT, which is built",
        "b": "the other one",
    },
)
def sass_diff(a: str, b: str, system_cuda: bool = False) -> Reply:
    """Show by function what changed between the SASS of two builds."""
    from kernelrig.run.code_diff import compare_code

    return Reply(compare_code(project_root(), a, b, system_cuda=system_cuda))
