"""The profile stage: does ncu's report hold the launch, the metrics and the sections asked for?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Check,
    EndedBy,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    passed,
    unreadable,
)
from kernelrig.stages.checksum.outputs import judge_sampled
from kernelrig.stages.context import Context, stage_case
from kernelrig.stages.harness.ended import judge_lost
from kernelrig.stages.harness.result import Asked, find_mismatch, load_result
from kernelrig.stages.profile.command import (
    DETAILS,
    DETAILS_CSV,
    PATTERN,
    PROFILE,
    RAW,
    RAW_CSV,
    REPORT,
)
from kernelrig.stages.profile.page import Page, cell_number, function_name, parse_page
from kernelrig.stages.record import find_command, log_tail, read_log, read_text, stage_record

KEY_METRICS = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.avg",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "launch__registers_per_thread",
    "smsp__issue_active.avg.per_cycle_active",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__average_warp_latency_per_inst_issued.ratio",
)
"""One or more of each section asked for; ncu's other columns may hold nan on a healthy report."""

COMM = 15
"""Linux keeps so many letters of a process's name."""

SAME = ("ID", "Process ID", "Process Name", "Kernel Name", "Block Size", "Grid Size", "Device")
"""What both pages say of the launch."""

SECTIONS = ("Warp State Statistics", "Scheduler Statistics")
_FORBIDDEN = "ERR_NVGPUCTRPERM"


def read_profile(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge the report by its content: ncu exits with 0 even if it profiled no kernel."""
    raw = parse_page(read_text(folder / RAW_CSV) or "", units_row=True)
    details = parse_page(read_text(folder / DETAILS_CSV) or "", units_row=False)
    wrong = (
        _judge_commands(job, result, folder)
        or _judge_program(stage, folder, context)
        or _judge_pages(raw, details, folder, context)
    )
    run = find_command(result, PROFILE)
    facts = {} if wrong else _facts(raw, folder, context)
    verdict = wrong or passed(f"{facts['kernel']} profiled; open it with `{facts['open']}`")
    title = f"profile of {context.kernel.kernel_regex}"
    check = Check(title, verdict, run.seconds if run else 0.0, facts=facts)
    return stage_record(stage, result, context, [check])


def _judge_commands(job: StageJob, result: StageResult, folder: Path) -> Verdict | None:
    planned = {c.name for c in job.commands}
    if planned != {PROFILE, RAW, DETAILS}:
        return broken(f"the stage ran {', '.join(sorted(planned))}, not ncu and its two exports")
    said = (read_log(folder, PROFILE) or "") + (read_log(folder, PROFILE, "stderr") or "")
    if _FORBIDDEN in said:
        return broken(
            f"{_FORBIDDEN}: this user may not read GPU counters; the host must set"
            " NVreg_RestrictProfilingToAdminUsers=0, or run as root"
        )
    if "No kernels were profiled" in said:
        available = re.findall(r"^\s*\d+\. (.+)$", said, re.MULTILINE)
        names = f"; it launched {', '.join(available)}" if available else ""
        return broken(f"no kernel was profiled: the launch window or name missed it{names}")
    for command in job.commands:
        ended = find_command(result, command.name)
        tail = log_tail(folder, command.name)
        if ended is None:
            return broken(f"{command.name} was planned, and the journal has no record of it")
        if ended.ended_by is EndedBy.TIME_LIMIT:
            return broken(f"{command.name} did not end within {command.time_s:.0f} s", *tail)
        if ended.ended_by is not EndedBy.EXIT or ended.exit_code is None:
            return judge_lost(command, ended)
        if ended.exit_code != 0:
            return broken(f"ncu ({command.name}) exits {ended.exit_code}", *tail)
    return None


def _judge_program(stage: Stage, folder: Path, context: Context) -> Verdict | None:
    """Return what is wrong with the program that was profiled, None if nothing is.

    It is of the planned case and GPU, and right: the profile of a wrong kernel means nothing.
    """
    if context.kernel.level == 0:
        return None
    try:
        seen = load_result(folder / f"{PROFILE}.json")
    except ProtocolError as e:
        return unreadable(f"nothing says what was profiled: {e.message}")
    asked = Asked("once", stage_case(context.kernel, stage), context.seed(stage.seeds[0]), PATTERN)
    mismatch = find_mismatch(seen, asked, 0, context)
    if mismatch or seen.error is not None:
        return broken(mismatch or f"the result of a profiled run holds an error: {seen.error}")
    return judge_sampled(seen, asked.seed, context)


def _judge_pages(raw: Page, details: Page, folder: Path, context: Context) -> Verdict | None:
    report = folder / REPORT
    if not report.is_file() or not report.stat().st_size:
        return broken(f"{REPORT} is missing or empty")
    for name, page in ((RAW, raw), (DETAILS, details)):
        if page.damage:
            return unreadable(f"the {name} page is damaged: {page.damage}")
    if not raw.rows:
        return unreadable("the raw page holds no kernel")
    if len(raw.rows) != 1:
        return broken(f"the raw page has {len(raw.rows)} kernels, one launch was asked for")
    row = raw.rows[0]
    wanted = context.kernel.kernel_regex
    found = function_name(row.get("Kernel Name", ""))
    if not re.fullmatch(wanted, found):
        return broken(f"the report holds kernel {found}, wanted was {wanted}")
    for metric in KEY_METRICS:
        if cell_number(row.get(metric)) is None:
            return broken(f"{metric} is '{row.get(metric, 'missing')}': ncu may not know this chip")
    if (cell_number(row[KEY_METRICS[0]]) or 0.0) <= 0:
        return broken(f"{KEY_METRICS[0]} is {row[KEY_METRICS[0]]}: nothing was measured")
    if any(function_name(r.get("Kernel Name", "")) != found for r in details.rows):
        return broken("the details page is of another kernel")
    if wrong := _find_other_process(row, details, folder, context):
        return broken(wrong)
    measured = {
        r.get("Section Name", "")
        for r in details.rows
        if cell_number(r.get("Metric Value")) is not None
    }
    if absent := [s for s in SECTIONS if s not in measured]:
        return broken(f"section {absent[0]} is not in the report")
    return None


def _find_other_process(
    row: Mapping[str, str], details: Page, folder: Path, context: Context
) -> str:
    """Return what shows that the report is of another process or launch, empty if nothing does."""
    program, named = context.build.program, row.get("Process Name", "")
    same = named == program or (len(named) >= COMM and program.startswith(named))
    if context.kernel.level and not same:
        return f"the report is of program '{named}', expected {program}"
    for column in SAME:
        if other := [r for r in details.rows if r.get(column) != row.get(column)]:
            said = other[0].get(column, "none")
            return f"the pages are of two launches: {column} {row.get(column)} and {said}"
    metrics = [(r.get("Section Name"), m) for r in details.rows if (m := r.get("Metric Name"))]
    if doubled := [key for key, times in Counter(metrics).items() if times > 1]:
        return f"the details page has {doubled[0][1]} of {doubled[0][0]} twice"
    connected = re.findall(
        r"^==PROF== Connected to process (\d+)", read_log(folder, PROFILE) or "", re.MULTILINE
    )
    if row.get("Process ID") not in connected:
        return (
            f"the report is of process {row.get('Process ID')}, ncu connected to"
            f" {', '.join(connected) or 'none'}"
        )
    return ""


def _facts(raw: Page, folder: Path, context: Context) -> dict[str, str]:
    row = raw.rows[0]
    ncu = context.host.tools.get("ncu")
    facts = {
        "open": f"ncu-ui {folder.parent.name}/{folder.name}/{REPORT}",
        "kernel": function_name(row["Kernel Name"]),
        "device": f"{context.device.value} {context.machine}",
        "label": context.label,
        "ncu": ncu.version if ncu else "",
        **{m: f"{row[m]} {raw.units.get(m, '')}".strip() for m in KEY_METRICS},
    }
    return {name: value for name, value in facts.items() if value}
