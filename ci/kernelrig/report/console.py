"""What the terminal shows before a run, and of one that could not begin: the plan, the error."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from kernelrig.errors import BuildError, CiError
from kernelrig.model import Command, Kernel, Plan, RecordedRemote, Stage, StageJob, StageKind
from kernelrig.terminal.text import printable


def render_plan(
    plan: Plan,
    jobs: Sequence[StageJob] | None,
    kernel: Kernel,
    remote: RecordedRemote,
    skipped: Mapping[str, str],
    budget: str = "",
) -> str:
    """Render what a run would do: every stage, its limits, and each command as a shell takes it.

    `skipped` says why a stage has nothing to run. `jobs` is None where a build is yet to be made.
    `budget` are the lines of minutes and price: they stand before the commands, which may be long.
    """
    by_name = {job.name: job for job in (_without_commands(plan) if jobs is None else jobs)}
    where = f"{remote.name} ({remote.kind}, device {remote.device}, {remote.arch})"
    lines = [f"plan {plan.name} on {where}", *budget.splitlines()]
    for number, stage in enumerate(plan.stages, start=1):
        lines += _stage_lines(number, stage, by_name.get(stage.name), kernel)
        if reason := skipped.get(stage.name):
            lines.append(f"     skipped: {reason}")
    if jobs is None:
        lines.append("commands: shown once everything is built")
    return "\n".join(lines) + "\n"


_COMPILER_LINES, _MOST_LINES = 12, 24
"""What is shown of a compiler's output; a wrong template makes hundreds of lines of one error."""


def describe_error(error: CiError, folder: str = "") -> str:
    """Return what ended a run; of a failed build the compiler's first lines, then its first error.

    `folder` is the run directory, which has the whole output; without one, the command follows.
    """
    said = printable(str(error))
    if not isinstance(error, BuildError) or not error.details:
        return said
    lines = printable(error.details.rstrip()).split("\n")
    if not folder:
        return "\n".join([*_first_lines(lines), said])
    first = lines[0]  # what refused the source stands before what the compiler said else
    lines = [line for line in lines if not line.startswith("command: ")]
    if (left := len(lines) - _COMPILER_LINES) > 0:
        log = f"{folder}/stages/00-build/compile.log"
        lines = [*lines[:_COMPILER_LINES], f"... {left} more lines in {log}"]
    hint = [f"next: {printable(error.hint)}"] if error.hint else []
    return "\n".join([*lines, f"{printable(error.message)}: {first}", *hint])


def _first_lines(lines: list[str]) -> list[str]:
    """Return the first lines of a compiler, and the command that prints them all again."""
    commands = [line for line in lines if line.startswith("command: ")]
    output = [line for line in lines if line not in commands]
    if (left := len(output) - _MOST_LINES) > 0:
        output = [*output[:_MOST_LINES], f"... {left} more lines, which this command prints again"]
    return [*output, *commands]


def _without_commands(plan: Plan) -> list[StageJob]:
    sizes = ((s, s.output_mb << 20, s.disk_mb << 20) for s in plan.on_host)
    return [StageJob(s.name, s.kind, (), s.needs, (), *limits) for s, *limits in sizes]


def _stage_lines(number: int, stage: Stage, job: StageJob | None, kernel: Kernel) -> list[str]:
    needs = f", needs {' and '.join(stage.needs)}" if stage.needs else ""
    if job is None:
        bases = {StageKind.BUILD: "sources", StageKind.CHECK: "builds, before the host is touched"}
        basis = bases.get(stage.kind, "probe")
        return [f"{number:2} {stage.name}: {stage.kind}, judged here from the {basis}{needs}"]
    limits = f"output {_mb(job.output_bytes)}, disk {_mb(job.disk_bytes)}"
    variant = f" of variant {stage.variant}" if stage.variant else ""
    head = (
        f"{number:2} {stage.name}: {kernel.judged_as(stage.kind)}{variant}{needs}; at most {limits}"
    )
    return [head, *(_command_line(command) for command in job.commands)]


def _command_line(command: Command) -> str:
    environment = [f"{name}={value}" for name, value in sorted(command.env.items())]
    words = ["env", *environment, *command.argv] if environment else list(command.argv)
    cached = " (result cached on the host)" if command.cache_key else ""
    return f"     {command.name} ({command.time_s:g} s){cached}: {printable(shlex.join(words))}"


def _mb(count: int) -> str:
    return f"{count / (1 << 20):g} MB"
