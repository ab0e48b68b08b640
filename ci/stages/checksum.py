"""Checksum stages: is every element right, by the program's own reference and by ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from ci.errors import ProtocolError
from ci.model import (
    Check,
    Command,
    CommandResult,
    Pattern,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Verdict,
)
from ci.stages.answer import (
    broken,
    failed,
    find_command,
    log_tail,
    passed,
    stage_record,
    unreadable,
)
from ci.stages.context import Context, Setup, case_text, stage_case
from ci.stages.ended import EXIT_MISMATCH, judge_end, judge_exit
from ci.stages.result import (
    MIN_SAMPLED,
    Asked,
    Compared,
    HarnessResult,
    find_impostor,
    load_result,
)

WATCHDOG_MARGIN_S = 30
"""The agent's limit comes first, as it dumps the hang; the program's own is the last resort."""

GOLDEN_K = 768
GOLDEN_CHECKSUM = 1769472.0
"""The seed's golden case: the sum of the first 1024 outputs of 1.5 x 1.5 over K = 768."""


def watchdog_s(stage: Stage) -> str:
    return str(math.ceil(stage.time_s) + WATCHDOG_MARGIN_S)


def check_runs(stage: Stage) -> Iterator[tuple[str, Pattern, int]]:
    """Yield the name, pattern and seed of each command; a constant case has nothing to seed."""
    for pattern in stage.patterns:
        for seed in stage.seeds[:1] if pattern is Pattern.CONSTANT else stage.seeds:
            yield f"{pattern.value}-{seed}", pattern, seed


def checksum_commands(stage: Stage, setup: Setup) -> tuple[Command, ...]:
    """Return one `--mode check` command for each pattern and seed."""
    case = case_text(stage_case(setup.kernel, stage))
    return tuple(
        Command(
            name,
            (
                *(setup.program, "--mode", "check", "--case", case),
                *("--pattern", pattern.value, "--seed", str(seed)),
                *("--watchdog", watchdog_s(stage), "--result", f"{name}.json"),
            ),
            stage.time_s,
            core_dump=True,
        )
        for name, pattern, seed in check_runs(stage)
    )


def read_checksum(
    stage: Stage, job: StageJob, result: StageResult, folder: Path, context: Context
) -> StageRecord:
    """Judge each pattern and seed on its own: exit code, result file, our own recomputation."""
    commands = {c.name: c for c in job.commands}
    checks = []
    for name, pattern, seed in check_runs(stage):
        asked = Asked("check", stage_case(context.kernel, stage), seed, pattern)
        title = f"{pattern.value} seed {seed}, {case_text(asked.case)}"
        ended = find_command(result, name)
        if name not in commands or ended is None:
            verdict = broken(f"{name} was planned, and nothing says that it ran")
            checks.append(Check(title, verdict))
            continue
        verdict, facts = _judge(commands[name], ended, asked, folder, context)
        checks.append(Check(title, verdict, ended.seconds, facts=facts))
    return stage_record(stage, result, context, checks)


def _judge(
    command: Command, ended: CommandResult, asked: Asked, folder: Path, context: Context
) -> tuple[Verdict, dict[str, str]]:
    if (verdict := judge_end(command, ended, folder)) is not None:
        return verdict, {}
    code = ended.exit_code if ended.exit_code is not None else -1
    tail = log_tail(folder, command.name)
    try:
        seen = load_result(folder / f"{command.name}.json")
    except ProtocolError as e:
        if code == 0:
            return unreadable(e.message, *tail), {}
        return judge_exit(command.name, code, None, (e.message, *tail)), {}
    if impostor := find_impostor(seen, asked, code, context):
        return broken(impostor), {}
    if code not in (0, EXIT_MISMATCH):
        return judge_exit(command.name, code, seen.error, tail), {}
    verdict = judge_compared(seen.compared, seen, context, exit_code=code)
    if verdict is None:
        verdict = judge_sampled(seen, asked.seed, context) or judge_golden(seen)
    if verdict is None and seen.compared is not None:
        verdict = passed(
            f"all {seen.compared.elements} elements right, {len(seen.sampled)} recomputed"
        )
    return verdict or broken("nothing was compared"), checksum_facts(seen)


def judge_compared(
    compared: Compared | None, seen: HarnessResult, context: Context, *, exit_code: int
) -> Verdict | None:
    """Return what is wrong by the program's own comparison, or with it; None if nothing is."""
    elements = seen.shape.m * seen.shape.n
    tolerance = context.kernel.accum_tol.get(context.build.arch)
    if compared is None:
        return broken("the program compared nothing")
    if compared.elements != elements or not elements:
        return broken(f"{compared.elements} elements were compared, the output has {elements}")
    if tolerance is None or not math.isclose(compared.accum_tol, tolerance, rel_tol=1e-6):
        return broken(
            f"compared with accum_tol {compared.accum_tol:g}, kernels.yaml has {tolerance} for"
            f" {context.build.arch}"
        )
    wrong = compared.mismatches + compared.nan_count
    if bool(wrong) != (exit_code == EXIT_MISMATCH):
        return broken(f"exit code {exit_code} with {compared.mismatches} mismatches in the result")
    if wrong:
        return failed(describe_mismatch(compared))
    errors = (compared.max_abs_error, compared.max_rel_error)
    if any(e is None or not math.isfinite(e) or e < 0 for e in errors):
        return broken(f"the largest errors are no numbers: {errors[0]}, {errors[1]}")
    return None


def describe_mismatch(compared: Compared) -> str:
    nan = f", {compared.nan_count} NaN" if compared.nan_count else ""
    count = f"{compared.mismatches} of {compared.elements} elements wrong{nan}"
    first = compared.first_mismatch
    if first is None:
        return f"{count}; the result names none of them"
    got, wanted = _shown(first.got, first.got_bits), _shown(first.wanted, first.wanted_bits)
    return f"row {first.row}, column {first.column}: got {got}, wanted {wanted}; {count}"


def _shown(value: float | None, bits: int) -> str:
    """Return an output as text; one that is not finite has no number in JSON, but its bits."""
    return f"NaN or infinity ({bits:#06x})" if value is None else str(value)


def judge_sampled(seen: HarnessResult, seed: int, context: Context) -> Verdict | None:
    """Return what our own recomputation of the sampled elements says, None if it agrees.

    The program's reference runs on the same device from the same header: this one shares neither.
    """
    rows, columns = seen.shape.m, seen.shape.n
    places = {(r, c) for r, c, _ in seen.sampled}
    if len(places) < MIN_SAMPLED:
        return broken(f"{len(places)} elements sampled, at least {MIN_SAMPLED} are wanted")
    if any(not (0 <= r < rows and 0 <= c < columns) for r, c in places):
        return broken(f"a sampled element lies outside the {rows} x {columns} output")
    edges = {0, rows - 1} <= {r for r, _ in places} and {0, columns - 1} <= {c for _, c in places}
    if not edges:
        return broken("the sampled elements leave out the first or last row or column")
    shape = context.kernel.shape
    if shape is None:
        return broken("kernels.yaml gives the kernel no shape: nothing can be recomputed")
    from ci.inputs import recompute  # numpy takes 0.1 s, which every other task is spared

    differing = recompute(
        seen.sampled,
        pattern=Pattern(seen.pattern),
        seed=seed,
        accum_tol=context.kernel.accum_tol[context.build.arch],
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
    )
    if not differing:
        return None
    return failed(
        f"{differing[0]}, recomputed from the hash; {len(differing)} of {len(seen.sampled)} differ",
        *(str(d) for d in differing[1:5]),
    )


def judge_golden(seen: HarnessResult) -> Verdict | None:
    if seen.checksum is None or not math.isfinite(seen.checksum):
        return broken(f"the checksum is no number: {seen.checksum}")
    golden = seen.pattern == Pattern.CONSTANT and seen.shape.k == GOLDEN_K
    if golden and seen.checksum != GOLDEN_CHECKSUM:
        return failed(f"the first 1024 outputs sum to {seen.checksum}, wanted {GOLDEN_CHECKSUM}")
    return None


def checksum_facts(seen: HarnessResult) -> dict[str, str]:
    facts = {"checksum of the first 1024": f"{seen.checksum}"}
    if seen.label:
        facts["label"] = seen.label
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
