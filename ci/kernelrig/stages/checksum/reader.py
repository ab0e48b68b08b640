"""Checksum stages: all elements compared by the program's reference, a sample with NumPy here."""

from __future__ import annotations

from pathlib import Path

from kernelrig.model import (
    Check,
    Command,
    CommandResult,
    Pattern,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
    WrongTiles,
    broken,
    passed,
)
from kernelrig.stages.checksum.command import check_runs
from kernelrig.stages.checksum.declared_outputs import (
    judge_operation,
    operation_facts,
    operation_said,
)
from kernelrig.stages.checksum.outputs import judge_compared, judge_sampled, wrong_tiles
from kernelrig.stages.context import Context, case_text, stage_case
from kernelrig.stages.harness.reader import read_harness
from kernelrig.stages.harness.result import Asked, HarnessResult
from kernelrig.stages.record import find_command, stage_record


def read_checksum(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each pattern and seed on its own: exit code, result file, our own recomputation."""
    commands = {c.name: c for c in job.commands}
    checks = []
    for name, pattern, seed in check_runs(stage):
        asked = Asked("check", stage_case(context.kernel, stage), context.seed(seed), pattern)
        title = f"{pattern.value} seed {seed}, {case_text(asked.case)}"
        ended = find_command(result, name)
        if name not in commands or ended is None:
            verdict = broken(f"{name} was planned, and the journal has no record of it")
            checks.append(Check(title, verdict))
            continue
        verdict, facts, wrong = _judge(commands[name], ended, asked, folder, context)
        checks.append(Check(title, verdict, ended.seconds, facts=facts, wrong=wrong))
    return stage_record(stage, result, context, checks)


def _judge(
    command: Command, ended: CommandResult, asked: Asked, folder: Path, context: Context
) -> tuple[Verdict, dict[str, str], WrongTiles | None]:
    seen = read_harness(command, ended, asked, folder, context)
    if isinstance(seen, Verdict):
        return seen, {}, None
    if context.kernel.is_operation:
        wrong = judge_operation(seen, asked, folder, command.name, context)
        facts = operation_facts(seen, context)
        if wrong is None:
            return passed(operation_said(asked, context)), facts, None
        return wrong.verdict, facts, wrong.tiles
    pattern = Pattern(seen.pattern)
    verdict = judge_compared(seen.compared, pattern, asked.seed, seen, context) or judge_sampled(
        seen, asked.seed, context
    )
    if verdict is None and seen.compared is not None:
        verdict = passed(
            f"all {seen.compared.elements} elements right, {len(seen.sampled)} recomputed"
        )
    facts = checksum_facts(seen, context)
    return verdict or broken("nothing was compared"), facts, wrong_tiles(seen)


def checksum_facts(seen: HarnessResult, context: Context) -> dict[str, str]:
    facts = {"checksum of the first 1024": f"{seen.checksum}"}
    if context.label:
        facts["label"] = context.label
    if seen.compared is not None:
        facts |= {
            "elements compared": f"{seen.compared.elements}",
            "elements recomputed": f"{len(seen.sampled)}",
            "mismatches": f"{seen.compared.mismatches}",
            "largest absolute error": f"{seen.compared.max_abs_error}",
            "largest relative error": f"{seen.compared.max_rel_error}",
            "accum_tol": f"{seen.compared.accum_tol:g}",
        }
    return facts
