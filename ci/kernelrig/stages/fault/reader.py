"""Whether a kernel that a patch broke on purpose shows the findings that the patch names.

The verdict is on the emulator: a fault that is found is a pass, one that is missed a failure.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig.findings import describe
from kernelrig.model import (
    Check,
    Fault,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    failed,
    passed,
)
from kernelrig.stages.context import Context
from kernelrig.stages.emulation.findings import emulated_findings
from kernelrig.stages.emulation.findings_file import Emulated, read_emulated
from kernelrig.stages.record import find_command, stage_record


def read_fault(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge by the kinds that the patch names: one of them in any schedule is enough."""
    fault, (command,) = context.fault, job.commands
    assert fault is not None, "a plan may not hold a fault stage: `invoke emulate` makes it"
    seen = read_emulated(command, find_command(result, command.name), folder, context)
    if isinstance(seen, Verdict):
        check = Check(f"{fault.name} is found", seen)
    else:
        check = _judge(fault, seen, context)
    notes = (f"broken on purpose: {fault.broken}",)
    record = stage_record(stage, result, context, (check,), notes)
    return replace(record, verdict=check.verdict)


def _judge(fault: Fault, seen: Emulated, context: Context) -> Check:
    title = f"{fault.name} is found"
    found = emulated_findings(seen, seen.findings, context)
    texts = tuple(map(describe, found))
    schedules = seen.run.schedules
    facts = {"schedules": str(schedules), "shows as": ", ".join(fault.kinds)}
    wanted = " or ".join(fault.kinds)
    if seen.lost and not any(f.kind in fault.kinds for f in seen.findings):
        return Check(title, broken(seen.lost, *texts), findings=found, facts=facts)
    if not found:
        looked = f"{schedules} schedule{'s' if schedules > 1 else ''}"
        verdict = failed(f"{fault.name} is missed in {looked}: its patch expects {wanted}")
        return Check(title, verdict, facts=facts)
    own = [
        (f.schedule, f.kind, text)
        for f, text in zip(seen.findings, texts, strict=True)
        if f.kind in fault.kinds
    ]
    if not own:
        kinds = " and ".join(dict.fromkeys(f.kind for f in seen.findings))
        verdict = failed(f"{fault.name} is not found as {wanted}, but as {kinds}", *texts)
        return Check(title, verdict, findings=found, facts=facts)
    first, kind, text = min(own)
    facts["schedules needed"] = str(first + 1)
    summary = f"{fault.name} is found as {kind} in schedule {first + 1} of {schedules}"
    verdict = passed(summary, text, *(other for other in texts if other != text))
    return Check(title, verdict, findings=found, facts=facts)
