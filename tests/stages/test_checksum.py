from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    CommandResult,
    EndedBy,
    Outcome,
    Pattern,
    Stage,
    StageKind,
    StageRecord,
    WrongTiles,
)
from kernelrig.report.entries import entries
from kernelrig.stages import Context, read_stage

from tests.report import runs
from tests.stages import bench, outputs

STAGE = Stage(
    "checksum", StageKind.CHECKSUM, case="full", patterns=(Pattern.INTEGER,), time_s=120.0
)
ELEMENTS = bench.IMAGES * outputs.ROWS_PER_IMAGE * outputs.N
MISMATCH = {
    "row": 3,
    "column": 17,
    "got": -8.0,
    "wanted": 5.0,
    "got_bits": 49408,
    "wanted_bits": 16544,
}


def read(
    folder: Path,
    content: dict[str, Any] | str | None,
    end: int | CommandResult = 0,
    *,
    stage: Stage = STAGE,
    name: str = "integer-0",
    ctx: Context | None = None,
) -> StageRecord:
    ctx = ctx or bench.context()
    run = end if isinstance(end, CommandResult) else bench.exited(name, end)
    bench.write(folder, {} if content is None else {f"{name}.json": content})
    return read_stage(stage, bench.job(stage, ctx), bench.ended(stage, run), folder, ctx)


def good(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    return bench.result("check", "integer") | changes


def test_each_pattern_and_seed_is_a_command_and_a_constant_case_has_no_seeds() -> None:
    stage = replace(STAGE, patterns=tuple(Pattern), seeds=(0, 1))
    job = bench.job(stage, bench.context())
    assert [c.name for c in job.commands] == [
        "constant-0",
        "integer-0",
        "integer-1",
        "random-0",
        "random-1",
    ]
    assert job.commands[4].argv == (
        *("../../build/siglip_vision", "--mode", "check", "--case", "images=7,ctas=0"),
        *("--pattern", "random", "--seed", "1", "--watchdog", "150", "--result", "random-1.json"),
    )
    assert all(c.core_dump and c.ok_exit == (0,) for c in job.commands)


@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_right_result_passes(tmp_path: Path, pattern: Pattern) -> None:
    stage = replace(STAGE, patterns=(pattern,))
    content = bench.result("check", pattern.value)
    record = read(tmp_path, content, stage=stage, name=f"{pattern.value}-0")
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "all 1792 elements right, 1792 recomputed"
    assert record.checks[0].name == f"{pattern.value} seed 0, images=7,ctas=0"
    assert record.checks[0].facts["label"] == bench.LABEL


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((key, bench.DELETE) for key in sorted(good())),
        ("case.images", 8),
        ("case.ctas", 4),
        ("pattern", "random"),
        ("seed", 1),
        ("mode", "once"),
        ("program", "siglip_debug"),
        ("kernel", "patch_embed_gemm_reference"),
        ("shape.m", 27),
        ("shape.n", 63),
        ("exit_code", 71),
        ("schema", 4),
        ("device", None),
        ("device.uuid", "GPU-another"),
        ("device.name", "NVIDIA B200"),
        ("device.uuid", ""),
        ("device.driver", "570.86.15"),
        ("device.compute_capability", "10.0"),
        ("compared", None),
        ("compared.elements", 0),
        ("compared.elements", ELEMENTS - 1),
        ("compared.nan_count", 1),
        ("compared.mismatches", 1),
        ("compared.max_abs_error", None),
        ("compared.max_rel_error", float("nan")),
        ("compared.accum_tol", 5e-4),
        ("compared.mismatches", -1),
        ("compared.nan_count", -1),
        ("compared.pattern", "constant"),
        ("compared.seed", 1),
        ("compared.max_abs_error", 0.5),
        ("compared.first_mismatch", MISMATCH),
        ("error", {"name": "cudaErrorAssert", "code": 710, "text": "assert", "where": "x.cu:1"}),
        ("checksum", None),
        ("checksum", float("nan")),
        ("sampled", []),
        ("sampled", outputs.sampled("integer", 0, bench.IMAGES)[:1023]),
        ("sampled", outputs.sampled("integer", 0, bench.IMAGES)[:1700]),
        ("sampled", [[0, 0, 0]] * 1792),
        ("sampled", [[99, 0, 0], *outputs.sampled("integer", 0, bench.IMAGES)]),
        ("sampled", "1792 elements"),
        ("sampled", [[0, 0, 1 << 16], *outputs.sampled("integer", 0, bench.IMAGES)]),
        ("sampled", [[0, 0, -1], *outputs.sampled("integer", 0, bench.IMAGES)]),
        ("sampled", [[10**30, 0, 0], *outputs.sampled("integer", 0, bench.IMAGES)]),
    ],
)
def test_a_result_with_anything_missing_or_strange_is_an_error(
    tmp_path: Path, path: str, value: object
) -> None:
    record = read(tmp_path, bench.invalidated(good(), path, value))
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("content", [None, "", "{", "[]", "null", '{"schema": 1}'])
def test_a_good_exit_without_a_whole_result_file_is_an_unreadable_answer(
    tmp_path: Path, content: str | None
) -> None:
    record = read(tmp_path, content)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.unreadable


def test_counts_that_cancel_out_are_no_pass(tmp_path: Path) -> None:
    content = bench.invalidated(good(), "compared.mismatches", -1)
    record = read(tmp_path, bench.invalidated(content, "compared.nan_count", 1))
    assert record.verdict.summary == "-1 mismatches and 1 NaN are no counts"


@pytest.mark.parametrize("bits", [0x7FC1, 0xFFFF, 0x7FFF, 0])
def test_an_output_still_full_of_poison_fails(tmp_path: Path, bits: int) -> None:
    poisoned = [[row, column, bits] for row, column, _ in good()["sampled"]]
    record = read(tmp_path, good(sampled=poisoned))
    assert record.verdict.outcome is Outcome.FAIL


def test_a_mismatch_names_row_column_got_and_wanted(tmp_path: Path) -> None:
    compared = bench.comparison("integer", 0, ELEMENTS)
    compared |= {"mismatches": 12, "nan_count": 2, "first_mismatch": MISMATCH}
    compared["wrong"] = tiles(12)
    record = read(tmp_path, good(exit_code=71, compared=compared), 71)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == (
        "row 3, column 17: got -8.0, wanted 5.0; 12 of 1792 elements wrong, 2 NaN"
    )


def test_a_nan_output_is_shown_by_its_bits(tmp_path: Path) -> None:
    first = MISMATCH | {"got": None, "got_bits": 0x7FFF}
    compared = bench.comparison("integer", 0, ELEMENTS)
    compared |= {"mismatches": 1, "nan_count": 1, "first_mismatch": first, "max_abs_error": None}
    compared["wrong"] = tiles(1)
    record = read(tmp_path, good(exit_code=71, compared=compared), 71)
    assert record.verdict.summary.startswith(
        "row 3, column 17: got NaN or infinity (0x7fff), wanted 5.0"
    )


def tiles(*counts: int) -> dict[str, Any]:
    """Return counts of wrong elements as the harness writes them, a row of tiles of C."""
    columns = -(-outputs.N // len(counts))
    return {"tile_rows": 64, "tile_columns": columns, "counts": [list(counts)]}


def test_wrong_elements_are_counted_by_tile_for_the_report(tmp_path: Path) -> None:
    compared = bench.comparison("integer", 0, ELEMENTS)
    compared |= {"mismatches": 12, "first_mismatch": MISMATCH, "wrong": tiles(0, 12)}
    (check,) = read(tmp_path, good(exit_code=71, compared=compared), 71).checks
    rows = bench.IMAGES * outputs.ROWS_PER_IMAGE
    assert check.wrong == WrongTiles(rows, outputs.N, 64, -(-outputs.N // 2), ((0, 12),))
    (right,) = read(tmp_path, good()).checks
    assert right.wrong is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (tiles(11), "11 elements are wrong by tile, 12 in all"),
        (tiles(13, -1), "a count by tile is no number from 0"),
        (tiles(0, 12) | {"counts": [[12]]}, "the counts by tile are not of 1 x 2 tiles"),
        (tiles(12) | {"counts": [[12], [0]]}, "the counts by tile are not of 1 x 1 tiles"),
        (tiles(12) | {"tile_rows": 0}, "elements has none"),
        (tiles(12) | {"tile_columns": 1, "counts": [[12]]}, "the counts by tile are not of"),
        (None, "wrong elements are not counted by tile"),
    ],
)
def test_counts_by_tile_that_contradict_the_comparison_are_an_error(
    tmp_path: Path, wrong: dict[str, Any] | None, said: str
) -> None:
    compared = bench.comparison("integer", 0, ELEMENTS)
    compared |= {"mismatches": 12, "first_mismatch": MISMATCH, "wrong": wrong}
    record = read(tmp_path, good(exit_code=71, compared=compared), 71)
    assert record.verdict.outcome is Outcome.ERROR
    assert said in record.verdict.summary
    (check,) = record.checks
    assert check.wrong is None


def test_a_result_of_schema_2_counts_no_tiles_and_is_read(tmp_path: Path) -> None:
    compared = bench.comparison("integer", 0, ELEMENTS)
    compared |= {"mismatches": 12, "first_mismatch": MISMATCH}
    del compared["wrong"]
    record = read(tmp_path, good(schema=2, exit_code=71, compared=compared), 71)
    assert record.verdict.outcome is Outcome.FAIL
    assert read(tmp_path, good(schema=2)).verdict.outcome is Outcome.PASS


def test_an_exit_code_that_contradicts_the_comparison_is_an_error(tmp_path: Path) -> None:
    assert read(tmp_path, good(exit_code=71), 71).verdict.outcome is Outcome.ERROR


def test_an_element_that_only_our_own_recomputation_calls_wrong_fails(tmp_path: Path) -> None:
    wrong = good()
    wrong["sampled"][1000][2] ^= 0x80
    record = read(tmp_path, wrong)
    assert record.verdict.outcome is Outcome.FAIL
    assert "row 15, column 40" in record.verdict.summary
    assert "1 of 1792" in record.verdict.summary


def test_the_golden_checksum_must_be_the_seeds(tmp_path: Path) -> None:
    shape = replace(bench.KERNEL.shape, k=768) if bench.KERNEL.shape else None
    ctx = bench.context(kernel=replace(bench.KERNEL, shape=shape))
    stage = replace(STAGE, patterns=(Pattern.CONSTANT,))
    content = bench.result("check", "constant") | {"checksum": 1769472.0}
    content["shape"]["k"] = 768
    content["sampled"] = [[r, c, 0x44D8] for r, c, _ in content["sampled"]]
    record = read(tmp_path, content, stage=stage, name="constant-0", ctx=ctx)
    assert record.verdict.outcome is Outcome.PASS
    content["checksum"] = 1769471.0
    record = read(tmp_path, content, stage=stage, name="constant-0", ctx=ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "the checksum contradicts the outputs: the first 1024 of constant data, seed 0, sum to"
        " 1769471, wanted 1769472"
    )


@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize("seed", [0, 7])
def test_a_checksum_is_compared_on_every_pattern_and_seed(
    tmp_path: Path, pattern: Pattern, seed: int
) -> None:
    stage = replace(STAGE, patterns=(pattern,), seeds=(seed,))
    content = bench.result("check", pattern.value, seed)
    name = f"{pattern.value}-{seed}"
    record = read(tmp_path, content, stage=stage, name=name)
    assert record.verdict.outcome is Outcome.PASS
    for wrong in (content["checksum"] + 1024, -content["checksum"] - 999, 0.5, None):
        record = read(tmp_path, content | {"checksum": wrong}, stage=stage, name=name)
        assert record.verdict.outcome is Outcome.ERROR
        assert "checksum" in record.verdict.summary


def test_the_label_of_a_checksum_is_that_of_kernels_yaml(tmp_path: Path) -> None:
    content = bench.result("check", "integer") | {"label": "the project's own, and right"}
    record = read(tmp_path, content)
    assert record.checks[0].facts["label"] == bench.LABEL


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        *((c, Outcome.FAIL) for c in (700, 710, 714, 715, 716, 717, 718, 719, 721)),
        *((c, Outcome.ERROR) for c in (2, 46, 100, 209, 701, 711, 720, 999)),
    ],
)
def test_a_cuda_error_is_the_kernels_fault_or_ours_by_its_number(
    tmp_path: Path, code: int, outcome: Outcome
) -> None:
    error = {"name": "cudaErrorX", "code": code, "text": "it failed", "where": "harness.cuh:9"}
    content = good(exit_code=70, error=error, compared=None, sampled=[], checksum=None)
    record = read(tmp_path, content, 70)
    assert record.verdict.outcome is outcome
    assert f"cudaErrorX ({code}): it failed, at harness.cuh:9" in record.verdict.summary


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (1, Outcome.ERROR),
        (2, Outcome.ERROR),
        (70, Outcome.ERROR),
        (71, Outcome.FAIL),
        (72, Outcome.ERROR),
        (73, Outcome.FAIL),
        (127, Outcome.ERROR),
    ],
)
def test_without_a_result_file_the_exit_code_speaks(
    tmp_path: Path, code: int, outcome: Outcome
) -> None:
    assert read(tmp_path, None, code).verdict.outcome is outcome


@pytest.mark.parametrize(
    ("how", "signal", "outcome"),
    [
        (EndedBy.SIGNAL, 11, Outcome.FAIL),
        (EndedBy.SIGNAL, 6, Outcome.FAIL),
        (EndedBy.SIGNAL, 9, Outcome.ERROR),
        (EndedBy.SIGNAL, 15, Outcome.ERROR),
        (EndedBy.TIME_LIMIT, None, Outcome.FAIL),
        (EndedBy.OUTPUT_LIMIT, None, Outcome.ERROR),
        (EndedBy.DISK_LIMIT, None, Outcome.ERROR),
        (EndedBy.DISK_FULL, None, Outcome.ERROR),
        (EndedBy.NOT_STARTED, None, Outcome.ERROR),
        (EndedBy.LOST, None, Outcome.ERROR),
        (EndedBy.EXIT, None, Outcome.ERROR),
    ],
)
def test_how_a_kernel_ended_decides_even_with_a_good_result(
    tmp_path: Path, how: EndedBy, signal: int | None, outcome: Outcome
) -> None:
    end = CommandResult("integer-0", how, signal=signal, detail="so it was")
    assert read(tmp_path, good(), end).verdict.outcome is outcome


def test_what_a_hang_held_back_is_no_cause_of_its_own(tmp_path: Path) -> None:
    stage = replace(STAGE, seeds=(0, 1, 2))
    held = "an earlier command was ended at its time limit"
    ended = (
        CommandResult("integer-0", EndedBy.TIME_LIMIT),
        CommandResult("integer-1", EndedBy.HELD_BACK, detail=held),
        CommandResult("integer-2", EndedBy.HELD_BACK, detail=held),
    )
    job, result = bench.job(stage, bench.context()), bench.ended(stage, *ended)
    record = read_stage(stage, job, result, tmp_path, bench.context())
    assert [c.verdict.outcome for c in record.checks] == [Outcome.FAIL, Outcome.SKIP, Outcome.SKIP]
    assert record.checks[1].verdict.summary == f"integer-1 was not started: {held}"
    assert record.verdict.summary == (
        "integer-0 did not end within 120 s; no triage names where it waits"
    )
    (cause,) = entries(runs.run(record))
    assert cause.fault.verdict == record.verdict


def test_a_stage_of_which_a_command_was_held_back_never_passes(tmp_path: Path) -> None:
    ended = (bench.exited("integer-0", 0), CommandResult("unread", EndedBy.HELD_BACK))
    bench.write(tmp_path, {"integer-0.json": good()})
    ctx = bench.context()
    record = read_stage(STAGE, bench.job(STAGE, ctx), bench.ended(STAGE, *ended), tmp_path, ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == "unread was held back, and no check says what by"


def test_a_hang_names_the_waiting_warp_and_its_line_first(tmp_path: Path) -> None:
    triage = (bench.DATA / "cuda-gdb/13.0-hang.gdb.txt").read_text()
    bench.write(tmp_path, {"integer-0.gdb.txt": triage})
    record = read(tmp_path, None, CommandResult("integer-0", EndedBy.TIME_LIMIT))
    assert record.verdict.summary == (
        "hang_kernel hangs: warp 1 of CTA (0,0,0) waits at kernels.cu:38 and 7 more;"
        " integer-0 did not end within 120 s"
    )


def test_a_command_that_the_journal_leaves_out_is_an_error(tmp_path: Path) -> None:
    stage = replace(STAGE, seeds=(0, 1))
    record = read(tmp_path, good(), stage=stage)
    assert [c.verdict.outcome for c in record.checks] == [Outcome.PASS, Outcome.ERROR]
    assert record.verdict.outcome is Outcome.ERROR


def test_a_stage_without_patterns_established_nothing(tmp_path: Path) -> None:
    record = read(tmp_path, good(), stage=replace(STAGE, patterns=()))
    assert record.verdict.outcome is Outcome.ERROR


def test_an_arch_without_a_tolerance_is_an_error(tmp_path: Path) -> None:
    ctx = bench.context(kernel=replace(bench.KERNEL, accum_tol={}))
    assert read(tmp_path, good(), ctx=ctx).verdict.outcome is Outcome.ERROR


def test_labels_come_from_the_device_that_ran_it(tmp_path: Path) -> None:
    record = read(tmp_path, good())
    assert (record.device, record.machine) == ("gpu", "NVIDIA H200")


def test_the_programs_own_watchdog_says_what_it_waited_for(tmp_path: Path) -> None:
    text = "not done after 3 s, busy with: the kernel, integer pattern"
    error = {"name": "watchdog", "code": 73, "text": text, "where": "watchdog.cuh:52"}
    content = good(exit_code=73, error=error, compared=None, sampled=[], checksum=None)
    record = read(tmp_path, content, 73)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == f"integer-0: {text}, reported by the program's watchdog"


def test_what_a_program_says_is_repeated_in_part(tmp_path: Path) -> None:
    record = read(tmp_path, good(kernel="k" * 100_000))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith("the result is for kernel kkkk")
    assert len(record.verdict.summary) < 300
