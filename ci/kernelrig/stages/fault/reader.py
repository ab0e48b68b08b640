"""Whether a kernel that a patch broke on purpose shows the findings that the patch names.

The verdict is on the emulator: detected is a pass, missed a failure.
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
        check = Check(f"{fault.name} is caught", seen)
    else:
        check = _judge(fault, seen, context)
    notes = (f"broken on purpose: {fault.broken}",)
    record = stage_record(stage, result, context, (check,), notes)
    return replace(record, verdict=check.verdict)


def _judge(fault: Fault, seen: Emulated, context: Context) -> Check:
    title = f"{fault.name} is caught"
    found = emulated_findings(seen, seen.errors, context)
    texts = tuple(map(describe, found))
    facts = {"schedules": str(seen.run.schedules), "shows as": ", ".join(fault.kinds)}
    wanted = " or ".join(fault.kinds)
    if not found:
        verdict = failed(f"missed in {seen.run.schedules} schedules: its patch says {wanted}")
        return Check(title, verdict, facts=facts)
    own = [
        (f.schedule, text)
        for f, text in zip(seen.errors, texts, strict=True)
        if f.kind in fault.kinds
    ]
    if not own:
        verdict = failed(f"not found as {wanted}, but as {texts[0]}", *texts[1:])
        return Check(title, verdict, findings=found, facts=facts)
    needed = min(own)[0] + 1
    facts["schedules needed"] = str(needed)
    others = tuple(text for text in texts if text != min(own)[1])
    verdict = passed(f"caught in schedule {needed} of {seen.run.schedules}: {min(own)[1]}", *others)
    return Check(title, verdict, findings=found, facts=facts)
