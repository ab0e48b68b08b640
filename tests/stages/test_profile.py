"""A profile: what ncu is asked for, and whether its reports hold it. Reports are of an H200."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.files import serialization
from kernelrig.model import (
    PROFILE_FIGURES,
    CommandResult,
    EndedBy,
    Outcome,
    ProfileFigures,
    ProfilePlan,
    ProfileRule,
    Profiling,
    Stage,
    StageKind,
    StageRecord,
)
from kernelrig.stages import merge_plans, read_stage

from tests.stages import bench

CAPTURES = bench.DATA / "ncu"
REPORTS = CAPTURES / "2025.3.1-reports"
STAGE = Stage("profile", StageKind.PROFILE, case="full", time_s=600.0)
KERNEL = replace(bench.KERNEL, kernel_regex="slow_transpose")
SAID = (CAPTURES / "2025.3.1-run.stdout.txt").read_text()


def good(kernel: str = "slow_transpose") -> dict[str, Any]:
    """Return what a good run leaves besides its report."""
    result = bench.invalidated(bench.result("once", "random"), "kernel", kernel)
    return {"profile.stdout.log": SAID, "profile.json": result}


def read(
    folder: Path,
    ncu_report: Path,
    *ends: CommandResult,
    report: str = "slow",
    left: dict[str, Any] | None = None,
    profiling: Profiling | None = None,
    **changes: Any,  # noqa: ANN401 - any field of a context
) -> StageRecord:
    profiling = profiling or bench.profiling()
    fields = {"kernel": KERNEL, "profiling": profiling, "ncu_report": ncu_report} | changes
    ctx = bench.context(**fields)
    bench.write(folder, good() if left is None else left)
    if report:
        shutil.copy(REPORTS / f"{report}.ncu-rep", folder / "profile.ncu-rep")
    ends = ends or (bench.exited("profile", 0),)
    return read_stage(STAGE, bench.job(STAGE, ctx), bench.ended(STAGE, *ends), folder, ctx)


def own(*plans: ProfilePlan) -> Profiling:
    return Profiling("gh100", "2025.3.1", plans, merge_plans(plans, "gh100"))


def asking(*metrics: str, **changes: Any) -> ProfilePlan:  # noqa: ANN401 - any field of a plan
    return ProfilePlan("own", "is it?", "it is", metrics=metrics, **changes)


def test_all_plans_are_one_run_of_the_program_and_a_metric_is_asked_for_once() -> None:
    (command,) = bench.job(STAGE, bench.context()).commands
    words = list(command.argv)
    assert words[0] == "/usr/local/cuda/bin/ncu"
    sections = [words[i + 1] for i, word in enumerate(words) if word == "--section"]
    assert len(set(sections)) == len(sections)
    assert {"SourceCounters", "WarpStateStats", "SpeedOfLight"} < set(sections)
    metrics = words[words.index("--metrics") + 1].split(",")
    assert len(set(metrics)) == len(metrics) > 60
    assert words[words.index("--replay-mode") :] == [
        *("--replay-mode", "kernel", "--clock-control", "none", "--cache-control", "all"),
        *("--launch-skip", "2", "--launch-count", "1"),
        *("--kernel-name", "regex:patch_embed_gemm", "--force-overwrite", "--export", "profile"),
        *("../../build/siglip_vision", "--mode", "once", "--samples", "3"),
        *("--case", "images=7,ctas=0", "--pattern", "random", "--seed", "0"),
        *("--watchdog", "630", "--result", "profile.json"),
    ]


def test_of_a_program_that_may_launch_once_the_first_launch_is_profiled() -> None:
    plans = (asking("smsp__inst_executed.sum"), asking("dram__bytes_read.sum", launch_skip=2))
    assert [run.launch_skip for run in merge_plans(plans, "gh100")] == [2]
    assert [run.launch_skip for run in merge_plans(plans, "gh100", 0)] == [0, 2]


def test_the_numbers_of_a_profile_are_left_for_the_history(
    tmp_path: Path, ncu_report: Path
) -> None:
    folder = tmp_path / "stages" / "02-profile"
    assert read(folder, ncu_report, run_folder=tmp_path).verdict.outcome is Outcome.PASS
    held = serialization.from_json(ProfileFigures, tmp_path / PROFILE_FIGURES)
    assert (held.run, held.stage) == (tmp_path.name, "profile")
    assert held.values["smsp__inst_executed_op_shared_st.sum"] == 1024 * 32
    assert held.units["dram__bytes_read.sum"] == "byte"


def test_a_profile_that_is_refused_leaves_no_numbers(tmp_path: Path, ncu_report: Path) -> None:
    folder = tmp_path / "stages" / "02-profile"
    record = read(folder, ncu_report, report="", run_folder=tmp_path)
    assert record.verdict.outcome is Outcome.ERROR
    assert not (tmp_path / PROFILE_FIGURES).exists()


def test_plans_of_other_launches_have_a_run_of_their_own() -> None:
    other = asking("smsp__inst_executed.sum", launch_skip=5, options={"pm-sampling-interval": 1})
    plans = (*bench.profiling("stalls", "stores").plans, other)
    first, second = merge_plans(plans, "gh100")
    assert (first.name, first.plans) == ("profile-1", ("stalls", "stores"))
    assert (second.name, second.plans) == ("profile-2", ("own",))
    ctx = bench.context(profiling=own(*plans))
    _, command = bench.job(STAGE, ctx).commands
    assert command.name == "profile-2"
    words = " ".join(command.argv)
    assert "--launch-skip 5 --launch-count 1" in words
    assert "--pm-sampling-interval 1 --force-overwrite --export profile-2" in words
    assert words.endswith(
        "--samples 6 --case images=7,ctas=0 --pattern random --seed 0"
        " --watchdog 630 --result profile-2.json"
    )


def test_a_metric_of_one_chip_is_asked_for_there_alone() -> None:
    plan = asking("smsp__inst_executed.sum", on_chip={"gb100": ("sm__mem_tensor_reads.sum",)})
    assert [run.metrics for run in merge_plans([plan], "gh100")] == [("smsp__inst_executed.sum",)]
    (run,) = merge_plans([plan], "gb100")
    assert run.metrics == ("smsp__inst_executed.sum", "sm__mem_tensor_reads.sum")


def test_a_report_with_all_that_was_asked_for_passes_and_its_rules_answer(
    tmp_path: Path, ncu_report: Path
) -> None:
    record = read(tmp_path / "stages" / "02-profile", ncu_report)
    assert record.verdict.outcome is Outcome.PASS
    checks = {check.name.partition(":")[0]: check for check in record.checks}
    assert checks["profile of slow_transpose"].facts["open"] == (
        "ncu-ui stages/02-profile/profile.ncu-rep"
    )
    assert checks["profile of slow_transpose"].facts["label"] == bench.LABEL
    assert "bank-conflicts" in checks["memory"].verdict.summary
    assert "uncoalesced-stores" in checks["stores"].verdict.summary
    assert "mio-queue" in checks["stalls"].verdict.summary
    (shown,) = (e for e in checks["memory"].verdict.evidence if e.startswith("bank-conflicts"))
    assert "do" not in checks["tensor"].verdict.summary
    assert "conflicts 9" in shown
    assert "pad rows" in shown
    advice = checks["ncu's own advice"].verdict.evidence
    assert any("excessive wavefronts" in line and "ncu estimates" in line for line in advice)


def test_no_time_that_was_measured_under_ncu_is_shown(tmp_path: Path, ncu_report: Path) -> None:
    record = read(tmp_path, ncu_report)
    shown = [f"{c.name} {c.facts} {c.verdict.summary} {c.verdict.evidence}" for c in record.checks]
    assert not [line for line in shown if "time_duration" in line or "microsecond" in line]


def test_a_kernel_with_nothing_wrong_in_its_stores_is_told_so(
    tmp_path: Path, ncu_report: Path
) -> None:
    kernel = replace(bench.KERNEL, kernel_regex="good_copy")
    record = read(tmp_path, ncu_report, report="good", left=good("good_copy"), kernel=kernel)
    assert record.verdict.outcome is Outcome.PASS
    checks = {check.name.partition(":")[0]: check.verdict.summary for check in record.checks}
    assert checks["stores"] == "none of 3 rules fires"
    assert "bank-conflicts" not in checks["memory"]


@pytest.mark.parametrize("name", ["profile.ncu-rep", "profile.json"])
@pytest.mark.parametrize("spoil", ["gone", "empty"])
def test_a_profile_without_any_one_of_its_parts_is_an_error(
    tmp_path: Path, ncu_report: Path, name: str, spoil: str
) -> None:
    left = good()
    if name in left:
        left.pop(name)
    if spoil == "empty":
        left[name] = ""
    record = read(tmp_path, ncu_report, report="" if name.endswith("rep") else "slow", left=left)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.unreadable


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 3],
        lambda data: b"PK\3\4" + data[4:],
        lambda data: data[:4] + bytes(len(data)),
        lambda data: data[:200] + data[200:400][::-1] + data[400:],
    ],
)
def test_a_damaged_report_is_unreadable(
    tmp_path: Path, ncu_report: Path, damage: Callable[[bytes], bytes]
) -> None:
    left = good()
    (tmp_path / "profile.ncu-rep").write_bytes(damage((REPORTS / "slow.ncu-rep").read_bytes()))
    record = read(tmp_path, ncu_report, report="", left=left)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.unreadable
    assert "profile.ncu-rep" in record.verdict.summary


def test_another_kernel_in_the_report_is_an_error_that_names_it(
    tmp_path: Path, ncu_report: Path
) -> None:
    record = read(tmp_path, ncu_report, report="good")
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "profile.ncu-rep holds kernel good_copy, wanted was slow_transpose"
    )


@pytest.mark.parametrize(
    ("pattern", "title"),
    [("", "profile of launch 3"), ("transpose", "profile of transpose")],
)
def test_a_plain_program_may_name_a_part_of_its_kernels_name_or_none(
    pattern: str, title: str, tmp_path: Path, ncu_report: Path
) -> None:
    plain = replace(KERNEL, level=0, kernel_regex=pattern)
    record = read(tmp_path, ncu_report, kernel=plain)
    assert record.verdict.outcome is Outcome.PASS
    (check,) = (c for c in record.checks if c.name == title)
    assert check.verdict.summary.startswith("one launch of slow_transpose profiled")


@pytest.mark.parametrize(
    ("keys", "printed", "said"),
    [
        ({}, "", ""),
        ({"must_not_print": "nan"}, "sum nan\n", "it printed 'nan', which must_not_print matches"),
        ({"must_print": "^all is well$"}, "", "nothing that it printed matches must_print: ^all"),
        ({"must_print": "^all is well$"}, "all is well\n", ""),
        ({"must_print": "^all is well$"}, "all is w==PROF== Disconnected\nell\n", ""),
        ({"must_not_print": "PROF|passes"}, "", ""),  # what ncu prints is no output of the program
        ({"expected_lines": ("all is well",)}, "", "the program did not print 'all is well'"),
        (
            {},
            "FAILED\n==ERROR== The application returned an error code (3).\n",
            "exit status 3, wanted 0",
        ),
    ],
)
def test_a_plain_program_that_came_out_wrong_fails_its_profile(
    keys: dict[str, Any], printed: str, said: str, tmp_path: Path, ncu_report: Path
) -> None:
    plain = replace(KERNEL, level=0, **keys)
    left = {"profile.stdout.log": SAID + printed, "profile.stderr.log": ""}
    code = 3 if "error code" in printed else 0
    record = read(
        tmp_path, ncu_report, bench.exited("profile", code), kernel=plain, left=left,
        run_folder=tmp_path,
    )  # fmt: skip
    assert record.verdict.outcome is (Outcome.FAIL if said else Outcome.PASS)
    if said:
        assert record.verdict.summary.startswith(f"the program under ncu: {said}")
        assert "==" not in "".join(record.verdict.evidence)
    assert (tmp_path / PROFILE_FIGURES).exists() is (not said)


def test_without_its_output_nothing_says_that_a_profiled_program_was_right(
    tmp_path: Path, ncu_report: Path
) -> None:
    plain = replace(KERNEL, level=0, must_print="well")
    record = read(tmp_path, ncu_report, kernel=plain, left={})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "the program under ncu: profile.stdout.log is missing: nothing says what the program"
        " printed"
    )


def test_a_harness_program_that_ends_with_an_error_code_is_named_as_the_cause(
    tmp_path: Path, ncu_report: Path
) -> None:
    left = good()
    left["profile.stdout.log"] += "==ERROR== The application returned an error code (2).\n"
    record = read(tmp_path, ncu_report, bench.exited("profile", 2), left=left)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "the program under ncu exited with 2: its profile means nothing"
    )


def test_more_launches_than_were_asked_for_are_an_error(tmp_path: Path, ncu_report: Path) -> None:
    record = read(
        tmp_path, ncu_report, report="launches", profiling=own(asking("smsp__inst_executed.sum"))
    )
    assert record.verdict.summary == "profile.ncu-rep holds 6 launches, asked was 1"


def test_each_of_several_launches_is_judged(tmp_path: Path, ncu_report: Path) -> None:
    plan = asking("smsp__inst_executed.sum", launch_count=6)
    record = read(tmp_path / "a", ncu_report, report="launches", profiling=own(plan))
    assert record.verdict.summary == (
        "profile.ncu-rep holds kernel good_copy, wanted was slow_transpose"
    )
    both = replace(plan, kernel="slow_transpose|good_copy")
    record = read(tmp_path / "b", ncu_report, report="launches", profiling=own(both))
    assert record.verdict.outcome is Outcome.PASS


def test_a_metric_that_ncu_dropped_is_an_error_that_names_it(
    tmp_path: Path, ncu_report: Path
) -> None:
    plan = asking("smsp__inst_executed.sum", "smsp__no_such_thing.sum", launch_count=6)
    plan = replace(plan, kernel="slow_transpose|good_copy")
    record = read(tmp_path, ncu_report, report="launches", profiling=own(plan))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "smsp__no_such_thing.sum is not in the report: the host's ncu does not know it"
    )


def test_a_section_that_is_not_in_the_report_is_an_error(tmp_path: Path, ncu_report: Path) -> None:
    plan = asking("smsp__inst_executed.sum", sections=("PmSampling",))
    record = read(tmp_path, ncu_report, profiling=own(plan))
    assert record.verdict.summary == "section PmSampling is not in profile.ncu-rep"


def test_a_report_of_another_gpu_is_an_error(tmp_path: Path, ncu_report: Path) -> None:
    gpu = {**bench.HOST.gpus[0], "name": "NVIDIA B200"}
    host = replace(bench.HOST, gpus=(gpu,))
    left = good()
    left["profile.json"] = bench.invalidated(left["profile.json"], "device.name", "NVIDIA B200")
    record = read(tmp_path, ncu_report, left=left, host=host)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "profile.ncu-rep is of 'NVIDIA H200', the host's GPU is NVIDIA B200"
    )


def test_a_rule_whose_number_is_missing_is_an_error(tmp_path: Path, ncu_report: Path) -> None:
    rule = ProfileRule("r", "smsp__no.ratio > 1", "it is", "do it")
    plan = asking("smsp__inst_executed.sum", rules=(rule,))
    record = read(tmp_path, ncu_report, profiling=own(plan))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith("rule r: there is no number for 'smsp__no.ratio'")


def test_a_run_that_does_not_say_what_it_measured_is_an_error(tmp_path: Path) -> None:
    ctx = bench.context(kernel=KERNEL)
    bench.write(tmp_path, good())
    ended = bench.ended(STAGE, bench.exited("profile", 0))
    record = read_stage(STAGE, bench.job(STAGE, ctx), ended, tmp_path, ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == "the run does not say what it profiles; profile again"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("case.images", 1),
        ("pattern", "constant"),
        ("mode", "check"),
        ("program", "siglip_timing"),
        ("device.uuid", "GPU-another"),
        ("device", None),
        ("exit_code", 70),
        ("error", {"name": "cudaErrorAssert", "code": 710, "text": "assert", "where": "x.cu:1"}),
    ],
)
def test_a_profile_of_another_case_or_gpu_is_an_error(
    tmp_path: Path, ncu_report: Path, path: str, value: object
) -> None:
    left = good()
    left["profile.json"] = bench.invalidated(left["profile.json"], path, value)
    assert read(tmp_path, ncu_report, left=left).verdict.outcome is Outcome.ERROR


def test_a_launch_window_that_missed_the_kernel_names_what_was_launched(
    tmp_path: Path, ncu_report: Path
) -> None:
    said = (CAPTURES / "2025.3.1-nokernel.stdout.txt").read_text()
    record = read(tmp_path, ncu_report, left=good() | {"profile.stdout.log": said})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "no kernel was profiled: asked was launch 3 of slow_transpose; it launched clean_kernel"
    )


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_forbidden_counters_are_named(tmp_path: Path, ncu_report: Path, stream: str) -> None:
    said = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n"
    record = read(tmp_path, ncu_report, left=good() | {f"profile.{stream}.log": said})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith("ERR_NVGPUCTRPERM: this user may not read GPU count")
    assert "an administrator of the host sets NVreg_" in record.verdict.summary


def test_what_ncu_refuses_is_said(tmp_path: Path, ncu_report: Path) -> None:
    said = "==ERROR== Option '--section NoSuchSection' did not match any section.\n"
    ends = bench.exited("profile", 1)
    record = read(tmp_path, ncu_report, ends, left=good() | {"profile.stdout.log": said})
    assert record.verdict.summary == (
        "ncu refuses: Option '--section NoSuchSection' did not match any section."
    )


@pytest.mark.parametrize("how", ["exit 1", "missing", *EndedBy])
def test_a_command_that_did_not_succeed_is_an_error_of_the_profile(
    tmp_path: Path, ncu_report: Path, how: str
) -> None:
    end = bench.exited("other", 0)
    if how == "exit 1":
        end = bench.exited("profile", 1)
    elif how != "missing":
        end = CommandResult("profile", EndedBy(how))
    assert read(tmp_path, ncu_report, end).verdict.outcome is Outcome.ERROR


def test_the_profile_of_a_kernel_whose_outputs_are_wrong_fails(
    tmp_path: Path, ncu_report: Path
) -> None:
    left = good()
    wrong = left["profile.json"]
    wrong["sampled"] = [[row, column, bits ^ 0x4000] for row, column, bits in wrong["sampled"]]
    record = read(tmp_path, ncu_report, left=left)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("row 0, column 0: got ")
