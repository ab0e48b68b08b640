"""What the terminal shows: the plan before a run, progress during it, the table after it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from kernelrig.errors import BuildError, CiError
from kernelrig.model import Command, DeviceKind, Plan, Remote, Run, Stage, StageJob, StageKind
from kernelrig.report.outcome import device_label, faults, labelled, missing, run_word, stage_word
from kernelrig.terminal.text import columns, one_line, printable


def render_plan(
    plan: Plan, jobs: Sequence[StageJob], remote: Remote, skipped: Mapping[str, str]
) -> str:
    """Render what a run would do: every stage, its limits, and each command as a shell takes it.

    `skipped` says why a stage has nothing to run.
    """
    by_name = {job.name: job for job in jobs}
    where = f"{remote.name} ({remote.kind}, device {remote.device}, {remote.arch})"
    lines = [f"plan {plan.name} on {where}"]
    for number, stage in enumerate(plan.stages, start=1):
        lines += _stage_lines(number, stage, by_name.get(stage.name))
        if reason := skipped.get(stage.name):
            lines.append(f"     skipped: {reason}")
    return "\n".join(lines) + "\n"


def render_table(run: Run) -> str:
    """Render a row a stage, then every fault and the verdict; the last line is the one to read."""
    rows = [("stage", "verdict", "seconds", "summary")]
    rows += [
        (
            one_line(s.name),
            stage_word(s),
            f"{s.seconds:.1f}",
            labelled(s, one_line(s.verdict.summary)),
        )
        for s in run.stages
    ]
    # What was only read ran nowhere: its device is named where there is no other.
    ran = [s for s in run.stages if s.device is not DeviceKind.STATIC] or run.stages
    devices = ", ".join(dict.fromkeys(device_label(s) for s in ran)) or "nothing ran"
    lines = [
        columns(rows),
        *(f"{fault.verdict.outcome}: {fault.sentence}" for fault in faults(run)),
        *(f"missing: {one_line(reason)}" for reason in missing(run)),
        f"{run_word(run)}: {run.id} ({devices})",
    ]
    return "\n".join(lines) + "\n"


def describe_error(error: CiError) -> str:
    """Say what ended a run. The compiler speaks first: its lines hold file:line."""
    said = printable(str(error))
    if isinstance(error, BuildError) and error.details:
        return f"{printable(error.details.rstrip())}\n{said}"
    return said


def _stage_lines(number: int, stage: Stage, job: StageJob | None) -> list[str]:
    needs = f", needs {' and '.join(stage.needs)}" if stage.needs else ""
    if job is None:
        bases = {StageKind.BUILD: "sources", StageKind.CHECK: "builds, before the host is touched"}
        basis = bases.get(stage.kind, "probe")
        return [f"{number:2} {stage.name}: {stage.kind}, judged here from the {basis}{needs}"]
    limits = f"output {_mb(job.output_bytes)}, disk {_mb(job.disk_bytes)}"
    variant = f" of variant {stage.variant}" if stage.variant else ""
    head = f"{number:2} {stage.name}: {stage.kind}{variant}{needs}; at most {limits}"
    return [head, *(_command_line(command) for command in job.commands)]


def _command_line(command: Command) -> str:
    environment = [f"{name}={value}" for name, value in sorted(command.env.items())]
    words = ["env", *environment, *command.argv] if environment else list(command.argv)
    cached = " (result cached on the host)" if command.cache_key else ""
    return f"     {command.name} ({command.time_s:g} s){cached}: {printable(shlex.join(words))}"


def _mb(count: int) -> str:
    return f"{count / (1 << 20):g} MB"
