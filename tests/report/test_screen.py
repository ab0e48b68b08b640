"""What a task shows of a run: the verdict first, then its causes, and the next step last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kernelrig.model import Check, DeviceKind, Fault, Purpose, Run, StageKind, Verdict
from kernelrig.model.frame import Frame
from kernelrig.report import render_junit, render_run, render_summary
from kernelrig.report.screen import MAX_LINES, WIDTH
from kernelrig.terminal.text import log_text

from tests.report import runs

ID = "20261121T120000Z-patch_embed-h200-beef"
RACE = replace(
    runs.OUT_OF_BOUNDS,
    tool="emulator",
    kind="race",
    message="staging[0] is read by the store while a warp writes it, " + "and so on, " * 80,
    line=304,
    source_line="ptx::tma_store_2d(&map, column, row, from);",
    frames=(
        Frame("kernel/ptx.cuh", 194, "_ZN9kernelrig3ptx5storeEv"),
        Frame("kernel/cuda_patch_embed_fp8.cu", 304, "store_box"),
        Frame("kernel/cuda_patch_embed_fp8.cu", 660, "patch_embed_gemm"),
    ),
    related=(Frame("kernel/cuda_patch_embed_fp8.cu", 290, "stage"),),
    fix="wait before the buffer is written again",
    section="9.7.9.27",
    schedules=4,
    warps=8,
    ctas=2,
    fingerprint="aaaa",
)


def failed_run(*findings: object) -> Run:
    checks = [
        Check(f"finding {n}", runs.failed("x"), findings=(f,))  # type: ignore[arg-type]
        for n, f in enumerate(findings)
    ]
    return runs.run(
        runs.stage("racecheck", StageKind.SANITIZER, *checks, verdict=runs.failed("races"))
    )


def test_the_verdict_is_first_then_the_cause_and_the_next_step_is_last() -> None:
    assert render_run(runs.FAIL) == (
        f"fail: {ID} (gpu NVIDIA H200): 1 cause; not run: timing\n"
        "\n"
        "1. invalid write at kernel/cuda_patch_embed_fp8.cu:123 in patch_embed_gemm\n"
        "   Invalid __global__ write of size 2 bytes\n"
        "   seen: 32 times; first by (0,0,0) to (31,0,0) in block (3,0,0); memcheck;\n"
        "   fingerprint 5e1f00d5\n"
        "\n"
        "stage      verdict  seconds  summary\n"
        "preflight  pass     0.2      1 check passed\n"
        "checksum   pass     1.5      all 1053696 elements equal\n"
        "memcheck   fail     1.5      cause 1\n"
        "timing     skip     0.0      checksum did not pass\n"
        "\n"
        f"run: artifacts/runs/{ID}\n"
        "next: fix kernel/cuda_patch_embed_fp8.cu:123, then ci/invoke remote-test"
        " --remote h200 --kernel patch_embed --only memcheck\n"
    )


def test_a_cause_shows_line_chain_the_other_access_fix_and_counts() -> None:
    lines = render_run(failed_run(RACE)).splitlines()
    assert lines[2:4] == [
        "1. race at kernel/cuda_patch_embed_fp8.cu:304 in store_box",
        "     ptx::tma_store_2d(&map, column, row, from);",
    ]
    assert lines[4].startswith("   staging[0] is read by the store while")
    assert lines[8].endswith(" ...")
    assert lines[9:14] == [
        "   suggested fix: wait before the buffer is written again (PTX ISA 9.7.9.27)",
        "   with kernel/cuda_patch_embed_fp8.cu:290",
        "   inlined: store ptx.cuh:194 < store_box cuda_patch_embed_fp8.cu:304 <",
        "   patch_embed_gemm :660",
        "   seen: 32 times over all lanes and schedules, 4 schedules, 8 warps, 2 CTAs;",
    ]


WRITTEN = Frame("kernel/cuda_patch_embed_fp8.cu", 291, "stage")


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        ({"objects": ("right",)}, ("of left", "of right")),
        (
            {"related": (WRITTEN,)},
            ("with kernel/cuda_patch_embed_fp8.cu:290", "with kernel/cuda_patch_embed_fp8.cu:291"),
        ),
        ({"message": "it is read before"}, ("(1 of 2 there)", "(2 of 2 there)")),
    ],
)
def test_causes_of_one_kind_at_one_line_have_headings_that_tell_them_apart(
    changes: dict[str, Any], apart: tuple[str, str]
) -> None:
    first = replace(RACE, message="it is written late", objects=("left",))
    run = failed_run(first, replace(first, fingerprint="bbbb", **changes))
    place = "race at kernel/cuda_patch_embed_fp8.cu:304 in store_box"
    wanted = [f"{n}. {place} {words}" for n, words in enumerate(apart, start=1)]
    summary = render_summary(run).replace("\\", "")
    assert all(f"## {line}\n" in summary for line in wanted)
    screen = " ".join(render_run(run).split())
    assert all(line in screen for line in wanted)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 64])
def test_the_causes_fit_on_a_screen_and_the_rest_is_in_a_file(count: int) -> None:
    found = [replace(RACE, line=n, fingerprint=f"f{n}") for n in range(1, count + 1)]
    text = render_run(failed_run(*found))
    lines = text.splitlines()
    causes = lines[1 : lines.index("stage      verdict  seconds  summary") - 1]
    assert len(causes) <= MAX_LINES
    assert all(len(line) <= WIDTH for line in causes)
    shown = sum(line[0].isdigit() for line in causes if line)
    assert shown == count or f"and {count - shown} more in the run's summary.md" in causes


@pytest.mark.parametrize(
    ("run", "first"),
    [
        (runs.PASS, f"pass: {ID} (gpu NVIDIA H200)"),
        (runs.ACCEPTED, f"pass (1 accepted): {ID} (gpu NVIDIA H200)"),
        (runs.EMULATED, f"pass: {ID} (emulated)"),
        (runs.INCOMPLETE, f"incomplete: {ID} (gpu NVIDIA H200)"),
        (runs.NOTHING, f"error: {ID} (nothing ran)"),
        (runs.NARROWED, f"pass, of smoke only: {ID} (gpu NVIDIA H200)"),
        (
            replace(runs.ACCEPTED, only=("check", "smoke", "memcheck")),
            f"pass (1 accepted), of check, smoke and memcheck only: {ID} (gpu NVIDIA H200)",
        ),
        (
            replace(runs.INCOMPLETE, only=("checksum",)),
            f"incomplete, of checksum only: {ID} (gpu NVIDIA H200)",
        ),
        (
            replace(runs.FAIL, only=("memcheck",)),
            f"fail, of memcheck only: {ID} (gpu NVIDIA H200): 1 cause; not run: timing",
        ),
        (
            runs.run(runs.PREFLIGHT),
            f"error: {ID} (gpu NVIDIA H200): 1 cause",
        ),
        (
            runs.run(
                runs.CHECKSUM, *(replace(runs.SKIPPED_TIMING, name=f"t{i}") for i in range(9))
            ),
            f"pass: {ID} (gpu NVIDIA H200), not run: t0, t1, t2, t3 and 5 more",
        ),
    ],
)
def test_the_first_line_names_the_verdict_and_the_device(run: Run, first: str) -> None:
    assert render_run(run).splitlines()[0] == first


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (runs.passed("missing-fence is found as proxy-fence in schedule 1 of 4"), "pass"),
        (runs.failed("missing-fence is missed in 4 schedules: its patch expects leak"), "fail"),
    ],
)
def test_the_first_line_of_a_fault_says_what_was_judged(verdict: Verdict, word: str) -> None:
    check = Check("missing-fence is found", verdict, findings=(RACE,) if word == "pass" else ())
    stage = runs.stage("missing-fence", StageKind.FAULT, check, verdict=verdict)
    fault = Fault("missing-fence", "no fence", ("proxy-fence",))
    run = replace(
        runs.run(replace(stage, device=DeviceKind.EMULATOR)), fault=fault, purpose=Purpose.EMULATE
    )
    lines = render_run(run).splitlines()
    assert lines[0] == f"{word}: {ID} (emulated): {verdict.summary}"
    assert any(line.startswith("missing-fence  ") and verdict.summary in line for line in lines)


@pytest.mark.parametrize("run", [runs.PASS, runs.EMULATED])
def test_rows_of_stages_are_whole_where_stdout_is_no_terminal(run: Run) -> None:
    long = "no timing, as the emulator models results and not time, " + "word " * 30 + "end"
    (first, *others) = run.stages
    verdict = replace(first.verdict, summary=long)
    shown = render_run(replace(run, stages=(replace(first, verdict=verdict), *others)))
    assert f"{long}\n" in shown


def test_missing_results_are_named() -> None:
    assert "missing: host-17 does not answer: connection refused\n" in render_run(runs.INCOMPLETE)


def test_a_run_that_was_killed_before_its_launch_is_no_pass() -> None:
    checked = runs.CHECKED.stages[0]
    run = replace(runs.PASS, state="prepared", stages=(checked,), jobs=())
    lines = render_run(run).splitlines()
    assert lines[0] == f"error: {ID} (static)"
    assert "missing: stage checksum: it left no record" in lines
    assert render_summary(run).startswith("# error: ")
    assert b'name="missing 1"' in render_junit(run)


def test_a_run_of_which_nothing_was_launched_says_that_in_one_line() -> None:
    run = replace(runs.PASS, state="prepared", stages=(), jobs=())
    lines = render_run(run).splitlines()
    said = [line for line in lines if line.startswith("missing: ")]
    assert said == ["missing: nothing was launched: its client prepares it, or ended before"]
    assert lines[-1] == "next: ci/invoke remote-test --remote h200"


def test_no_line_is_a_tools_own() -> None:
    lines = log_text(render_run(runs.nasty_run())).splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("::", "\x1b"))]


def test_what_a_cause_explains_is_cut_on_the_screen_and_whole_in_the_file() -> None:
    hangs = [
        replace(RACE, kind="deadlock", line=n, fingerprint=f"h{n}", objects=(f"ready[{n}]",))
        for n in range(1, 7)
    ]
    run = failed_run(*hangs)
    screen = render_run(run).splitlines()
    assert "   explains 5 more:" in screen
    second = "deadlock at kernel/cuda_patch_embed_fp8.cu:2 in patch_embed_gemm (ready[2])"
    assert f"   - {second}" in screen
    assert "   - and 2 more" in screen
    named = [line for line in render_summary(run).splitlines() if line.startswith("- - deadlock")]
    assert len(named) == 5
