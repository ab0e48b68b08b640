from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import CommandResult, EndedBy, Outcome, Stage, StageKind, StageRecord
from kernelrig.stages import read_stage
from kernelrig.stages.profile.page import function_name, parse_page
from kernelrig.stages.profile.reader import KEY_METRICS

from tests.stages import bench

CAPTURES = bench.DATA / "ncu"
STAGE = Stage("profile", StageKind.PROFILE, case="full", time_s=600.0)
SIGNATURE = "clean_kernel(float *, const float *, int)"


def of_ours(name: str) -> str:
    text = (CAPTURES / f"2025.3.1-{name}.csv").read_text()
    ours = text.replace(SIGNATURE, "patch_embed_gemm(Params)")
    return ours.replace('"1828","k",', '"1828","siglip_vision",')


RAW, DETAILS = of_ours("raw"), of_ours("details")


def good() -> dict[str, Any]:
    """Return what a good run leaves: the captured report, its kernel named like ours."""
    return {
        "profile.stdout.log": (CAPTURES / "2025.3.1-run.stdout.txt").read_text(),
        "profile.ncu-rep": "NVR",
        "profile-raw.csv": RAW,
        "profile-details.csv": DETAILS,
        "profile.json": bench.result("once", "random"),
    }


def read(folder: Path, left: dict[str, Any], *ends: CommandResult) -> StageRecord:
    ctx = bench.context()
    bench.write(folder, left)
    ends = ends or tuple(bench.exited(n, 0) for n in ("profile", "raw", "details"))
    return read_stage(STAGE, bench.job(STAGE, ctx), bench.ended(STAGE, *ends), folder, ctx)


def raw_with(metric: str, value: str | None) -> str:
    """Return the raw page with a metric's value replaced, or its column gone."""
    page = parse_page(RAW, units_row=True)
    row = dict(page.rows[0])
    if value is None:
        del row[metric]
    else:
        row[metric] = value
    lines = (row.keys(), [page.units.get(name, "") for name in row], row.values())
    return "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def test_ncu_takes_the_third_launch_of_the_kernel_and_exports_both_pages() -> None:
    profile, raw, details = bench.job(STAGE, bench.context()).commands
    assert profile.argv == (
        *("/usr/local/cuda/bin/ncu", "--set", "detailed"),
        *("--section", "WarpStateStats", "--section", "SchedulerStats"),
        *("--clock-control", "none", "--import-source", "yes"),
        *("--launch-skip", "2", "--launch-count", "1", "-k", "regex:patch_embed_gemm"),
        *("-f", "-o", "profile", "../../build/siglip_vision", "--mode", "once", "--samples", "3"),
        *("--case", "images=7,ctas=0", "--pattern", "random", "--seed", "0"),
        *("--watchdog", "630", "--result", "profile.json"),
    )
    assert raw.argv[1:] == ("--import", "profile.ncu-rep", "--page", "raw", "--csv")
    assert details.argv[1:] == ("--import", "profile.ncu-rep", "--page", "details", "--csv")


def test_a_report_with_the_kernel_passes_and_says_how_to_open_it(tmp_path: Path) -> None:
    record = read(tmp_path / "stages" / "02-profile", good())
    assert record.verdict.outcome is Outcome.PASS
    facts = record.checks[0].facts
    assert facts["open"] == "ncu-ui stages/02-profile/profile.ncu-rep"
    assert facts["kernel"] == "patch_embed_gemm"
    assert facts["gpu__time_duration.sum"] == "2.272000 us"
    assert facts["label"] == bench.LABEL


@pytest.mark.parametrize("name", sorted(good().keys() - {"profile.stdout.log"}))
@pytest.mark.parametrize("spoil", ["gone", "empty"])
def test_a_report_without_any_one_of_its_parts_is_an_error(
    tmp_path: Path, name: str, spoil: str
) -> None:
    left = good()
    left.pop(name) if spoil == "gone" else left.update({name: ""})
    assert read(tmp_path, left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("metric", KEY_METRICS)
@pytest.mark.parametrize("value", ["nan", "n/a", "inf", "no data", "", None])
def test_a_key_metric_that_is_no_number_is_an_error(
    tmp_path: Path, metric: str, value: str | None
) -> None:
    record = read(tmp_path, good() | {"profile-raw.csv": raw_with(metric, value)})
    assert record.verdict.outcome is Outcome.ERROR
    assert metric in record.verdict.summary


def test_a_page_that_was_written_back_unchanged_still_passes(tmp_path: Path) -> None:
    left = good() | {"profile-raw.csv": raw_with("gpu__time_duration.sum", "2.272000")}
    assert read(tmp_path, left).verdict.outcome is Outcome.PASS


def test_a_duration_of_nothing_is_an_error(tmp_path: Path) -> None:
    left = good() | {"profile-raw.csv": raw_with("gpu__time_duration.sum", "0")}
    assert read(tmp_path, left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    "found", ["patch_embed_gemm_reference(Params)", "void fill(float *)", "gemm(Params)"]
)
def test_another_kernel_is_an_error_that_names_it(tmp_path: Path, found: str) -> None:
    left = good() | {"profile-raw.csv": RAW.replace("patch_embed_gemm(Params)", found)}
    record = read(tmp_path, left)
    assert record.verdict.outcome is Outcome.ERROR
    assert function_name(found) in record.verdict.summary


def test_a_details_page_of_another_kernel_is_an_error(tmp_path: Path) -> None:
    left = good() | {"profile-details.csv": DETAILS.replace("patch_embed_gemm(", "other(")}
    assert read(tmp_path, left).verdict.outcome is Outcome.ERROR


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
    tmp_path: Path, path: str, value: object
) -> None:
    left = good()
    left["profile.json"] = bench.invalidated(left["profile.json"], path, value)
    assert read(tmp_path, left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("section", ["Warp State Statistics", "Scheduler Statistics"])
def test_a_section_that_is_not_in_the_report_is_an_error(tmp_path: Path, section: str) -> None:
    left = good() | {"profile-details.csv": DETAILS.replace(section, "Occupancy")}
    record = read(tmp_path, left)
    assert record.verdict.summary == f"section {section} is not in the report"


def test_two_kernels_in_the_report_are_an_error(tmp_path: Path) -> None:
    row = RAW.rstrip("\n").split("\n")[-1]
    record = read(tmp_path, good() | {"profile-raw.csv": RAW + row + "\n"})
    assert record.verdict.outcome is Outcome.ERROR


def test_a_launch_window_that_missed_the_kernel_names_what_was_launched(tmp_path: Path) -> None:
    said = (CAPTURES / "2025.3.1-nokernel.stdout.txt").read_text()
    record = read(tmp_path, good() | {"profile.stdout.log": said})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "no kernel was profiled: the launch window or name missed it; it launched clean_kernel"
    )


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_forbidden_counters_are_named(tmp_path: Path, stream: str) -> None:
    said = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n"
    record = read(tmp_path, good() | {f"profile.{stream}.log": said})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith("ERR_NVGPUCTRPERM")


@pytest.mark.parametrize("which", ["profile", "raw", "details"])
@pytest.mark.parametrize("how", ["exit 1", "missing", *EndedBy])
def test_a_command_that_did_not_succeed_is_an_error_of_the_profile(
    tmp_path: Path, which: str, how: str
) -> None:
    ends = [bench.exited(n, 0) for n in ("profile", "raw", "details") if n != which]
    if how == "exit 1":
        ends.append(bench.exited(which, 1))
    elif how != "missing":
        ends.append(CommandResult(which, EndedBy(how)))
    assert read(tmp_path, good(), *ends).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("clean_kernel(float *, const float *, int)", "clean_kernel"),
        ("void patch_embed_gemm<128, 64>(Params)", "patch_embed_gemm"),
        ("void ns::inner::gemm<ns::T<int>>(ns::Params const &)", "gemm"),
        ("gemm", "gemm"),
    ],
)
def test_a_signatures_bare_name(signature: str, name: str) -> None:
    assert function_name(signature) == name


def test_remarks_before_the_header_are_no_rows() -> None:
    page = parse_page("==WARNING== old driver\n" + RAW, units_row=True)
    assert len(page.rows) == 1
    assert page.units["gpu__time_duration.sum"] == "us"


def pages(change: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    """Yield what is left where one of the two pages was changed."""
    for name, page in (("raw", RAW), ("details", DETAILS)):
        yield good() | {f"profile-{name}.csv": change(page)}


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page[:-1],
        lambda page: page[: len(page) * 2 // 3],
        lambda page: page.rstrip("\n").rpartition(",")[0] + "\n",
        lambda page: page + page,
        lambda page: page + page.split("\n", 1)[1],
        lambda page: page + page.rstrip("\n").rpartition("\n")[2] + "\n",
        lambda page: page.replace('"1828"', '"1829"'),
        lambda page: page.replace('"siglip_vision"', '"siglip_timing"'),
        lambda page: page.replace("(8, 1, 1)", "(9, 1, 1)"),
        lambda page: page.replace('"Kernel Name","Context"', '"Kernel Name","Kernel Name"'),
        lambda page: page + '"' + "x" * 140_000 + '"\n',
        lambda page: page + '"open\n',
    ],
)
def test_a_page_that_is_cut_joined_or_of_another_process_is_an_error(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    for number, left in enumerate(pages(change)):
        record = read(tmp_path / str(number), left)
        assert record.verdict.outcome is Outcome.ERROR, number


def test_a_report_of_a_process_that_ncu_did_not_connect_to_is_an_error(tmp_path: Path) -> None:
    said = good()["profile.stdout.log"].replace("process 1828", "process 1829")
    record = read(tmp_path, good() | {"profile.stdout.log": said})
    assert record.verdict.summary == "the report is of process 1828, ncu connected to 1829"
    del (silent := good())["profile.stdout.log"]
    assert read(tmp_path / "silent", silent).verdict.outcome is Outcome.ERROR


def test_the_profile_of_a_kernel_whose_outputs_are_wrong_fails(tmp_path: Path) -> None:
    wrong = bench.result("once", "random")
    wrong["sampled"] = [[row, column, bits ^ 0x4000] for row, column, bits in wrong["sampled"]]
    record = read(tmp_path, good() | {"profile.json": wrong})
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("row 0, column 0: got ")


def test_a_duration_below_nothing_is_an_error(tmp_path: Path) -> None:
    record = read(tmp_path, good() | {"profile-raw.csv": raw_with(KEY_METRICS[0], "-5")})
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == f"{KEY_METRICS[0]} is -5: nothing was measured"
