"""From a plan to jobs, and from what came back to records, over all kinds of stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.config import load_kernels, load_plan
from kernelrig.model import (
    Builds,
    CommandResult,
    EndedBy,
    Outcome,
    Pattern,
    Plan,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.stages import Context, read_stage, stage_jobs, why_not

from tests.stages import bench

ROOT = Path(__file__).parents[2]
CHECKSUM = Stage("smoke", StageKind.CHECKSUM, case="smoke", patterns=(Pattern.INTEGER,))
KINDS = {
    "checksum": CHECKSUM,
    "memcheck": Stage("memcheck", StageKind.SANITIZER, case="sanitizer", tool="memcheck"),
    "timing": Stage("timing", StageKind.TIMING, case="full"),
    "profile": Stage("profile", StageKind.PROFILE, case="full"),
}
CPU = bench.context(
    kernel=bench.CPU_KERNEL, build=bench.build("cpu_program", "cpu_program", min_driver="")
)


def test_the_default_plan_asks_cheap_questions_first_and_times_last() -> None:
    plan = load_plan(ROOT, "default")
    assert [s.name for s in plan.stages] == [
        *("check", "preflight"),
        *("smoke", "synccheck", "racecheck", "memcheck", "initcheck"),
        *("checksum", "timing"),
    ]
    assert plan.stages[-1].needs == ("smoke", "checksum")
    full = plan.stages[-2]
    assert full.patterns == (Pattern.CONSTANT, Pattern.INTEGER, Pattern.RANDOM)
    assert full.seeds == (0, 1)


def test_the_blackwell_plan_is_the_default_one_and_the_guard_behind_smoke() -> None:
    default, blackwell = load_plan(ROOT, "default").stages, load_plan(ROOT, "blackwell").stages
    assert tuple(s for s in blackwell if s.name != "tmem-guard") == default
    (guard,) = (s for s in blackwell if s.name == "tmem-guard")
    assert blackwell.index(guard) == [s.name for s in blackwell].index("smoke") + 1
    assert (guard.kind, guard.variant, guard.case) == (StageKind.CHECKSUM, "guard", "sanitizer")
    assert guard.patterns == (Pattern.INTEGER,)


@pytest.mark.parametrize(
    ("arch", "why"),
    [
        ("sm_100a", ""),
        ("sm_90a", "patch_embed has no variant guard for sm_90a; it is for sm_100a"),
    ],
)
def test_the_guard_of_the_blackwell_plan_is_for_the_kernel_of_that_arch(
    arch: str, why: str
) -> None:
    (guard,) = (s for s in load_plan(ROOT, "blackwell").stages if s.variant)
    assert why_not(load_kernels(ROOT)["patch_embed"], arch, guard) == why


def test_the_profile_plan_profiles() -> None:
    assert [s.kind for s in load_plan(ROOT, "profile").stages] == [
        StageKind.CHECK,
        StageKind.PREFLIGHT,
        StageKind.PROFILE,
    ]


def test_every_stage_but_those_judged_here_becomes_a_job_with_its_limits() -> None:
    plan = load_plan(ROOT, "default")
    ctx = bench.context()
    jobs = stage_jobs(plan, ctx.kernel, bench.BUILDS, ctx.host, ctx.remote)
    assert [j.name for j in jobs] == [s.name for s in plan.stages[2:]]
    assert [len(j.commands) for j in jobs] == [2, 2, 2, 2, 2, 5, 1]
    assert jobs[-1].needs == ("smoke", "checksum")
    assert (jobs[0].output_bytes, jobs[0].disk_bytes) == (64 << 20, 1 << 30)
    assert {c.time_s for c in jobs[0].commands} == {30.0}


def test_every_job_waits_for_the_bare_runs_before_it_to_end_by_themselves() -> None:
    """A kernel that waits for ever would else wait under each sanitizer, up to its time limit."""
    plan = load_plan(ROOT, "default")
    jobs = stage_jobs(plan, bench.KERNEL, bench.BUILDS, None, bench.H200)
    smoke = ("smoke",)
    assert [(j.name, j.needs_end) for j in jobs] == [
        ("smoke", ()),
        ("synccheck", smoke),
        ("racecheck", smoke),
        ("memcheck", smoke),
        ("initcheck", smoke),
        ("checksum", smoke),
        ("timing", ("smoke", "checksum")),
    ]


def test_jobs_can_be_planned_before_a_host_is_probed() -> None:
    plan = load_plan(ROOT, "default")
    jobs = stage_jobs(plan, bench.KERNEL, bench.BUILDS, None, bench.H200)
    assert jobs[1].commands[0].argv[0] == "compute-sanitizer"


def test_a_cpu_program_has_one_command_and_no_sanitizer_timing_or_profile() -> None:
    jobs = {name: bench.job(stage, CPU) for name, stage in KINDS.items()}
    (command,) = jobs["checksum"].commands
    assert command.argv == ("../../build/cpu_program", "--loops", "3")
    assert not command.core_dump
    assert [jobs[n].commands for n in ("memcheck", "timing", "profile")] == [(), (), ()]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("memcheck", "cpu_program is a CPU program (cuda: false)"),
        ("timing", "cpu_program is a CPU program without 'metrics': nothing says its times"),
        ("profile", "cpu_program is a CPU program (cuda: false)"),
    ],
)
def test_a_stage_that_does_not_apply_is_skipped_with_its_reason(
    tmp_path: Path, name: str, why: str
) -> None:
    stage = KINDS[name]
    record = read_stage(stage, bench.job(stage, CPU), StageResult(stage.name), tmp_path, CPU)
    assert record.verdict.outcome is Outcome.SKIP
    assert record.verdict.summary == why


def cpu_run(folder: Path, end: CommandResult, stdout: str | None = "sum 42\n") -> StageRecord:
    bench.write(folder, {} if stdout is None else {"program.stdout.log": stdout})
    return read_stage(CHECKSUM, bench.job(CHECKSUM, CPU), bench.ended(CHECKSUM, end), folder, CPU)


def test_a_plain_program_passes_by_exit_code_and_expected_lines(tmp_path: Path) -> None:
    record = cpu_run(tmp_path, bench.exited("program", 0))
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "exit status 0 and 1 expected line"


@pytest.mark.parametrize(
    ("end", "stdout", "outcome"),
    [
        (bench.exited("program", 1), "sum 42\n", Outcome.FAIL),
        (bench.exited("program", 0), "sum 43\n", Outcome.FAIL),
        (bench.exited("program", 0), "the sum 42 it is\n", Outcome.FAIL),
        (bench.exited("program", 0), "", Outcome.FAIL),
        (bench.exited("program", 0), None, Outcome.ERROR),
        (bench.exited("other", 0), "sum 42\n", Outcome.ERROR),
        (CommandResult("program", EndedBy.SIGNAL, signal=11), "sum 42\n", Outcome.FAIL),
        (CommandResult("program", EndedBy.SIGNAL, signal=9), "sum 42\n", Outcome.ERROR),
        (CommandResult("program", EndedBy.TIME_LIMIT), "sum 42\n", Outcome.FAIL),
        (CommandResult("program", EndedBy.OUTPUT_LIMIT), "sum 42\n", Outcome.ERROR),
        (CommandResult("program", EndedBy.LOST), "sum 42\n", Outcome.ERROR),
    ],
)
def test_a_plain_program_that_did_anything_else_does_not_pass(
    tmp_path: Path, end: CommandResult, stdout: str | None, outcome: Outcome
) -> None:
    assert cpu_run(tmp_path, end, stdout).verdict.outcome is outcome


def test_a_program_without_expected_lines_is_judged_by_its_exit_code(tmp_path: Path) -> None:
    ctx = replace(CPU, kernel=replace(bench.CPU_KERNEL, expected_lines=()))
    result = bench.ended(CHECKSUM, bench.exited("program", 0))
    record = read_stage(CHECKSUM, bench.job(CHECKSUM, ctx), result, tmp_path, ctx)
    assert record.verdict.outcome is Outcome.PASS


@pytest.mark.parametrize("name", list(KINDS))
def test_an_empty_folder_and_an_empty_journal_never_pass(tmp_path: Path, name: str) -> None:
    stage = KINDS[name]
    ctx = bench.context(earlier={"smoke": bench.record("smoke", StageKind.CHECKSUM)})
    record = read_stage(stage, bench.job(stage, ctx), StageResult(stage.name), tmp_path, ctx)
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize(
    ("earlier", "outcome"),
    [
        ({}, Outcome.ERROR),
        ({"smoke": Outcome.PASS}, Outcome.ERROR),
        ({"smoke": Outcome.FAIL}, Outcome.SKIP),
        ({"smoke": Outcome.ERROR}, Outcome.SKIP),
    ],
)
def test_a_stage_not_run_is_skipped_only_behind_one_that_did_not_pass(
    tmp_path: Path, name: str, earlier: dict[str, Outcome], outcome: Outcome
) -> None:
    stage = KINDS[name]
    records = {n: bench.record(n, StageKind.CHECKSUM, o) for n, o in earlier.items()}
    ctx = bench.context(earlier=records)
    result = StageResult(stage.name, not_run="stopped at the first stage that did not pass")
    record = read_stage(stage, bench.job(stage, ctx), result, tmp_path, ctx)
    assert record.verdict.outcome is outcome
    assert "stopped at the first stage" in record.verdict.summary


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.ERROR, Outcome.SKIP])
def test_a_pass_does_not_count_behind_a_needed_stage_that_is_none(
    tmp_path: Path, outcome: Outcome
) -> None:
    stage = Stage("checksum", StageKind.CHECKSUM, "full", (Pattern.INTEGER,), needs=("memcheck",))
    bench.write(tmp_path, {"integer-0.json": bench.result("check", "integer")})
    result = bench.ended(stage, bench.exited("integer-0", 0))
    for earlier, wanted, summary in (
        (Outcome.PASS, Outcome.PASS, "all 1792 elements right, 1792 recomputed"),
        (outcome, Outcome.SKIP, "not counted: it needs memcheck, which did not pass"),
    ):
        memcheck = bench.record("memcheck", StageKind.SANITIZER, earlier)
        ctx = bench.context(earlier={"memcheck": memcheck})
        record = read_stage(stage, bench.job(stage, ctx), result, tmp_path, ctx)
        assert (record.verdict.outcome, record.verdict.summary) == (wanted, summary)


@pytest.mark.parametrize(
    ("healthy", "outcome"),
    [(True, Outcome.PASS), (None, Outcome.PASS), (False, Outcome.ERROR)],
)
def test_a_gpu_that_no_longer_answers_leaves_no_pass(
    tmp_path: Path, healthy: bool | None, outcome: Outcome
) -> None:
    stage = Stage("checksum", StageKind.CHECKSUM, "full", (Pattern.INTEGER,))
    bench.write(tmp_path, {"integer-0.json": bench.result("check", "integer")})
    ctx = bench.context()
    ended = replace(bench.ended(stage, bench.exited("integer-0", 0)), gpu_healthy_after=healthy)
    record = read_stage(stage, bench.job(stage, ctx), ended, tmp_path, ctx)
    assert record.verdict.outcome is outcome


def test_several_gpus_are_counted_in_one_order() -> None:
    two = replace(bench.HOST, gpus=(*bench.HOST.gpus, bench.HOST.gpus[0] | {"uuid": "GPU-two"}))
    stage = Stage("smoke", StageKind.CHECKSUM, "smoke", (Pattern.INTEGER,))
    (one,) = bench.job(stage, bench.context()).commands
    (of_two,) = bench.job(stage, bench.context(host=two)).commands
    assert one.env == {}
    assert of_two.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_plan_of_another_kind_of_kernel_has_nothing_in_common_with_ours() -> None:
    plan = Plan("mixed", tuple(KINDS.values()))
    names = [j.name for j in stage_jobs(plan, CPU.kernel, Builds(CPU.build), None, CPU.remote)]
    assert names == ["smoke", "memcheck", "timing", "profile"]


def test_a_fingerprint_holds_the_source_line_where_the_source_is_still_the_same(
    tmp_path: Path,
) -> None:
    from kernelrig.files.rundir import sha256_file
    from kernelrig.findings import Sources

    source = bench.write(tmp_path / "kernel", {"k.cu": "first\n  second line\n"}) / "k.cu"
    built = bench.build(inputs={"kernel/k.cu": sha256_file(source)})

    def text(**changes: Any) -> str:  # noqa: ANN401 - any field of a context
        ctx: Context = bench.context(**({"build": built, "source_root": tmp_path} | changes))
        return Sources(ctx.build, ctx.source_root).line("/builder/checkout/kernel/k.cu", 2)

    assert Sources(built).name("/builder/checkout/kernel/k.cu") == "kernel/k.cu"
    assert Sources(built).name("/proc/self/cwd/kernel/k.cu") == "kernel/k.cu"
    assert Sources(built).name("k.cu") == "kernel/k.cu"
    assert Sources(built).name("/usr/include/x.h") == "/usr/include/x.h"
    assert text() == "  second line"
    assert text(source_root=None) == ""
    assert text(build=bench.build()) == ""
    source.write_text("changed\n  second line\n")
    assert text() == ""
