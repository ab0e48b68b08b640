"""The profile stage: does each report hold the launches and the metrics that its plans asked for?

ncu drops a metric that it does not know and exits with 0, also if it profiled no kernel: so the
reports alone say what was measured. Times under ncu are no times of the kernel: none is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelrig.analyse.profile_report import read_report
from kernelrig.analyse.profile_rules import judge_rules
from kernelrig.errors import ProtocolError
from kernelrig.files import serialization
from kernelrig.files.rundir import write_atomic
from kernelrig.model import (
    PROFILE_FIGURES,
    Advice,
    Check,
    EndedBy,
    ProfiledLaunch,
    ProfilePlan,
    ProfileRun,
    Profiling,
    RuleResult,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    merge_values,
    passed,
    profile_figures,
    unreadable,
)
from kernelrig.stages.checksum.declared_outputs import judge_once
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.ended import judge_lost
from kernelrig.stages.harness.result import Asked, find_mismatch, load_result
from kernelrig.stages.profile.command import PATTERN
from kernelrig.stages.profile.program_output import judge_exit_under_ncu, judge_output_under_ncu
from kernelrig.stages.record import find_command, log_tail, read_log, stage_record

CYCLES = "sm__cycles_elapsed.max"
"""Measured with every report that names it; a launch of no cycles was not measured."""
DEVICE = "device__attribute_display_name"
RATIOS = (".ratio", ".pct", ".max_rate")
"""Suffixes of metrics that have no value where nothing of their kind was executed: 0 / 0."""
ADVICE_SHOWN = 5
_FORBIDDEN = "ERR_NVGPUCTRPERM"


def read_profile(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each report by its content, then say which rules of its plans fire on its numbers."""
    profiling = context.profiling
    if profiling is None or context.ncu_report is None:
        wrong = broken("the run does not say what it profiles; profile again")
        return stage_record(stage, result, context, [Check(stage.name, wrong)])
    checks: list[Check] = []
    if unplanned := {c.name for c in job.commands} ^ {run.name for run in profiling.runs}:
        wrong = broken(f"the stage did not run what its plans ask for: {', '.join(unplanned)}")
        return stage_record(stage, result, context, [Check(stage.name, wrong)])
    launches: list[ProfiledLaunch] = []
    for run in profiling.runs:
        judged, read = _judge_run(run, stage, job, result, folder, context, profiling)
        checks += judged
        launches += read
    if launches and context.run_folder is not None:
        figures = profile_figures(context.run_folder.name, stage.name, launches)
        write_atomic(context.run_folder / PROFILE_FIGURES, serialization.to_json(figures))
    return stage_record(stage, result, context, checks)


def _judge_run(
    run: ProfileRun,
    stage: Stage,
    job: StageJob,
    result: StageResult,
    folder: Path,
    context: Context,
    profiling: Profiling,
) -> tuple[list[Check], Sequence[ProfiledLaunch]]:
    title = f"{run.name} of {_wanted(run, context) or f'launch {run.launch_skip + 1}'}"
    ended = find_command(result, run.name)
    seconds = ended.seconds if ended else 0.0
    wrong = _judge_command(run, job, result, folder, context)
    wrong = wrong or _judge_program(run, stage, folder, context)
    launches: Sequence[ProfiledLaunch] = ()
    if wrong is None:
        assert context.ncu_report is not None
        try:
            launches = read_report(folder / run.report, context.ncu_report)
        except ProtocolError as e:
            wrong = unreadable(e.message)
    wrong = wrong or _judge_launches(run, launches, context)
    if wrong is not None:
        return [Check(title, wrong, seconds)], ()
    checks = [Check(title, _said(run, launches), seconds, facts=_facts(run, folder, context))]
    values = merge_values(launches)
    checks += (_judge_plan(p, profiling.chip, values) for p in profiling.plans_of(run))
    return [*checks, _advice(launches)], launches


def _judge_command(
    run: ProfileRun, job: StageJob, result: StageResult, folder: Path, context: Context
) -> Verdict | None:
    said = (read_log(folder, run.name) or "") + (read_log(folder, run.name, "stderr") or "")
    if _FORBIDDEN in said:
        return broken(
            f"{_FORBIDDEN}: this user may not read GPU counters; an administrator of the host sets"
            " NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module, or lets you log in as"
            " root"
        )
    if "No kernels were profiled" in said:
        available = re.findall(r"^\s*\d+\. (.+)$", said, re.MULTILINE)
        names = f"; it launched {', '.join(available)}" if available else ""
        asked = f"launch {run.launch_skip + 1} of {_wanted(run, context) or 'any kernel'}"
        return broken(
            f"no kernel was profiled: asked was {asked}{names}",
            "kernel_regex of the entry names another kernel, launch_skip of a plan in"
            " kernel/profile-NAME.yaml another launch",
        )
    (command,) = (c for c in job.commands if c.name == run.name)
    ended = find_command(result, run.name)
    tail = log_tail(folder, run.name)
    if ended is None:
        return broken(f"{run.name} was planned, and the journal has no record of it")
    if ended.ended_by is EndedBy.TIME_LIMIT:
        return broken(f"{run.name} did not end within {command.time_s:.0f} s", *tail)
    if ended.ended_by is not EndedBy.EXIT or ended.exit_code is None:
        return judge_lost(command, ended)
    if wrong := judge_exit_under_ncu(said, folder, run.name, context):
        return wrong
    if refused := re.findall(r"^==ERROR== (.+)$", said, re.MULTILINE):
        return broken(f"ncu refuses: {refused[0]}", *tail)
    if ended.exit_code != 0:
        return broken(f"ncu ({run.name}) exits {ended.exit_code}", *tail)
    return None


def _judge_program(run: ProfileRun, stage: Stage, folder: Path, context: Context) -> Verdict | None:
    """Return what is wrong with the program that was profiled, None if nothing is.

    It is of the planned case and GPU, and right: the profile of a wrong kernel means nothing.
    """
    if context.kernel.level == 0:
        return judge_output_under_ncu(folder, run.name, context)
    try:
        seen = load_result(folder / f"{run.name}.json")
    except ProtocolError as e:
        return unreadable(f"nothing says what was profiled: {e.message}")
    asked = Asked("once", stage_case(context.kernel, stage), context.seed(stage.seeds[0]), PATTERN)
    mismatch = find_mismatch(seen, asked, 0, context)
    if mismatch or seen.error is not None:
        return broken(mismatch or f"the result of a profiled run holds an error: {seen.error}")
    return judge_once(seen, asked, folder, run.name, context)


def _judge_launches(
    run: ProfileRun, launches: Sequence[ProfiledLaunch], context: Context
) -> Verdict | None:
    if len(launches) != run.launch_count:
        return broken(f"{run.report} holds {len(launches)} launches, asked was {run.launch_count}")
    wanted = _wanted(run, context)
    for launch in launches:
        if not re.search(wanted, launch.kernel):
            return broken(f"{run.report} holds kernel {launch.kernel}, wanted was {wanted}")
        device = launch.metrics[DEVICE].text if DEVICE in launch.metrics else ""
        if device != context.machine:
            return broken(
                f"{run.report} is of '{device or 'no device'}', the host's GPU is {context.machine}"
            )
        if absent := [s for s in run.sections if s not in launch.sections]:
            return broken(f"section {absent[0]} is not in {run.report}")
        if missing := _missing(run.metrics, launch):
            return missing
    return None


def _wanted(run: ProfileRun, context: Context) -> str:
    """Return what occurs in the kernel's name, as ncu was told; "" where any kernel will do."""
    return run.kernel or context.kernel.kernel_regex


def _missing(metrics: Sequence[str], launch: ProfiledLaunch) -> Verdict | None:
    absent = [m for m in metrics if m not in launch.metrics]
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        return broken(
            f"{absent[0]}{more} is not in the report: the host's ncu does not know it",
            "`invoke ncu-catalogue --remote R` lists what it knows",
        )
    empty = [m for m in metrics if launch.metrics[m].value is None and not m.endswith(RATIOS)]
    if empty:
        return broken(f"{empty[0]} has no number: the host's ncu may not know this chip")
    cycles = launch.metrics.get(CYCLES)
    if cycles is not None and not (cycles.value or 0.0) > 0:
        return broken(f"{CYCLES} is {cycles.value}: nothing was measured")
    return None


def _said(run: ProfileRun, launches: Sequence[ProfiledLaunch]) -> Verdict:
    count = f"{len(launches)} launches" if len(launches) > 1 else "one launch"
    return passed(
        f"{count} of {launches[0].kernel} profiled for {len(run.plans)} plans,"
        f" {len(run.metrics)} metrics"
    )


def _facts(run: ProfileRun, folder: Path, context: Context) -> dict[str, str]:
    ncu = context.host.tools.get("ncu")
    facts = {
        "open": f"ncu-ui {folder.parent.name}/{folder.name}/{run.report}",
        "device": f"{context.device.value} {context.machine}",
        "label": context.label,
        "ncu": ncu.version if ncu else "",
        "clocks": "as the GPU ran" if run.clocks == "none" else f"locked to {run.clocks}",
        "plans": ", ".join(run.plans),
    }
    return {name: value for name, value in facts.items() if value}


def _judge_plan(plan: ProfilePlan, chip: str, values: dict[str, float]) -> Check:
    """Say which rules fire: that is an answer, not a verdict on the kernel."""
    results = judge_rules(plan, chip, values)
    title = f"{plan.name}: {plan.question}"
    if untold := [r for r in results if r.fired is None]:
        return Check(title, broken(f"rule {untold[0].rule.name}: {untold[0].why_not}"))
    fired = [r for r in results if r.fired]
    if not fired:
        said = f"none of {len(results)} rules fires" if results else "measured; it has no rules"
        return Check(title, passed(said))
    names = ", ".join(r.rule.name for r in fired)
    return Check(title, passed(names, *map(_shown, fired)))


def _shown(result: RuleResult) -> str:
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in result.numbers.items())
    return f"{result.rule.name} ({numbers}): {result.rule.means}; {result.rule.do}"


def _advice(launches: Sequence[ProfiledLaunch]) -> Check:
    """Show what ncu's own rules advise, the largest estimated gain first."""
    found = {(a.rule, a.text): a for launch in launches for a in launch.advice if a.text}
    kept = [a for a in found.values() if a.kind == "optimization"]
    kept.sort(key=lambda a: -(a.speedup_percent or 0.0))
    lines = tuple(map(_advised, kept[:ADVICE_SHOWN]))
    said = f"{len(kept)} rules of ncu advise something" if kept else "no rule of ncu advises any"
    return Check("ncu's own advice", passed(said, *lines))


def _advised(advice: Advice) -> str:
    of = "of the launch" if advice.scope == "global" else "of a part"
    gain = advice.speedup_percent
    estimate = f" (ncu estimates {gain:.1f}% {of})" if gain is not None else ""
    return f"{advice.title or advice.rule}{estimate}: {advice.text.split('. ')[0]}"
