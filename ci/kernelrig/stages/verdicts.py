"""The verdict on a stage: its reader in the stage table, its needs, the GPU's health after it."""

from __future__ import annotations

from pathlib import Path

from kernelrig.model import (
    Check,
    EndedBy,
    Outcome,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
    Verdict,
    broken,
    skipped,
)
from kernelrig.stages.context import Context
from kernelrig.stages.other_gpus import why_not_measured
from kernelrig.stages.record import stage_record
from kernelrig.stages.table import find_pair, why_not


def read_stage(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge one stage from the journal and its files; what cannot be established is an error."""
    if reason := why_not(context.kernel, context.build.arch, stage, context.device):
        return stage_record(stage, result, context, [Check(stage.name, skipped(reason))])
    if result.changed:
        verdict = broken(f"{result.changed}: nothing of this stage counts")
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    if inspected := _inspected(stage, result):
        verdict = broken(f"{inspected} was inspected while it ran: its times do not count")
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    if result.not_run:
        cancelled = skipped(f"not run: {result.not_run}") if result.cancelled else None
        verdict = cancelled or _judge_not_run(result.not_run, context)
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    if reason := why_not_measured(stage.kind, context.device, context.host):
        verdict = broken(f"not measured: {reason}")
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    pair = find_pair(context.kernel, stage.kind, context.device)
    assert pair is not None, "why_not names what has no pair in the table"
    record = pair.read(stage, job, result, folder, context)
    if result.cancelled and record.verdict.outcome is not Outcome.FAIL:
        verdict = skipped("cancelled while it ran: what it left is kept, and judges nothing")
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    held = next((c.name for c in result.commands if c.ended_by is EndedBy.HELD_BACK), "")
    if held and record.verdict.outcome in (Outcome.PASS, Outcome.SKIP):
        verdict = broken(f"{held} was held back, and no check says what by")
        return stage_record(stage, result, context, [Check(stage.name, verdict)])
    invalidated = _judge_around(stage, result, context)
    if invalidated is None or record.verdict.outcome is not Outcome.PASS:
        return record
    return stage_record(stage, result, context, [Check(stage.name, invalidated)])


def _inspected(stage: Stage, result: StageResult) -> str:
    """Name the timed command that ended although a debugger had halted it; empty without one."""
    timed = stage.kind in (StageKind.TIMING, StageKind.BENCH, StageKind.PROFILE)
    looked = (c.name for c in result.commands if c.looks and c.ended_by is EndedBy.EXIT)
    return next(looked, "") if timed else ""


def _judge_around(stage: Stage, result: StageResult, context: Context) -> Verdict | None:
    """Return why a stage that passes by itself does not count, None if it counts."""
    if result.uncompared:
        return broken(f"{result.uncompared}: a pass of it does not count")
    if result.gpu_healthy_after is False:
        return broken("the GPU no longer answered after it: what it wrote is not to be trusted")
    # The agent compares exit codes alone: a stage that it counts as passed may have failed.
    unmet = [n for n in stage.needs if _outcome(n, context) is not Outcome.PASS]
    return skipped(f"not counted: it needs {unmet[0]}, which did not pass") if unmet else None


def _outcome(name: str, context: Context) -> Outcome:
    earlier = context.earlier.get(name)
    return earlier.verdict.outcome if earlier else Outcome.SKIP


def _judge_not_run(reason: str, context: Context) -> Verdict:
    """Return a skip for a stage held back by one that failed, an error for any other reason."""
    bad = [
        r.name
        for r in context.earlier.values()
        if r.verdict.outcome in (Outcome.FAIL, Outcome.ERROR)
    ]
    if bad:
        return skipped(f"not run: {reason} (after {', '.join(bad)})")
    return broken(f"not run: {reason}")
