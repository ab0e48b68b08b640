from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Check, GpuBusy, Run, StageKind
from kernelrig.report.markdown import render_summary

from tests.report import runs

DATA = Path(__file__).parents[1] / "data" / "report"


@pytest.mark.parametrize("name", ["pass", "accepted", "fail", "error", "incomplete", "emulated"])
def test_the_summary_is_the_one_that_was_reviewed(name: str) -> None:
    assert render_summary(runs.ALL[name]) == (DATA / f"{name}.summary.md").read_text()


@pytest.mark.parametrize("run", runs.ALL.values(), ids=runs.ALL)
def test_every_summary_begins_with_ten_lines_whatever_the_tools_said(run: Run) -> None:
    lines = render_summary(run).splitlines()
    assert [line.startswith(("# ", "- **")) for line in lines[:10]] == [True] * 10
    assert lines[9].startswith("- **next**: ")
    assert lines[9].endswith("`")
    assert lines[10:] == [] or lines[10] == ""


def test_a_summary_lists_every_cause_with_all_that_is_known_of_it() -> None:
    lines = render_summary(runs.FAIL).splitlines()[10:]
    assert lines == [
        "",
        "## 1. invalid write at kernel/cuda_patch_embed_fp8.cu:123 in patch_embed_gemm",
        "",
        "- Invalid `__global__` write of size 2 bytes",
        "- seen: 32 times; first by (0,0,0) to (31,0,0) in block (3,0,0); memcheck;"
        " fingerprint 5e1f00d5",
    ]


def test_source_lines_and_names_are_code_and_stay_literal() -> None:
    finding = replace(
        runs.OUT_OF_BOUNDS,
        message="staging[0] is read through std::vector<int>",
        source_line="out[i] = `x`; // <b> [a](http://b)",
    )
    check = Check("finding", runs.failed("x"), findings=(finding,))
    run = runs.run(runs.stage("memcheck", StageKind.SANITIZER, check, verdict=runs.failed("x")))
    assert render_summary(run).splitlines()[13:15] == [
        "- ``out[i] = `x`; // <b> [a](http://b)``",
        "- `staging[0]` is read through `std::vector<int>`",
    ]


@pytest.mark.parametrize(
    "name", sorted(set(runs.ALL) - {"pass", "accepted", "emulated", "checked", "narrowed"})
)
def test_nothing_but_a_pass_is_called_one(name: str) -> None:
    assert not render_summary(runs.ALL[name]).startswith("# pass")


def test_an_emulated_time_is_never_called_measured() -> None:
    timing = render_summary(runs.EMULATED).splitlines()[6]
    assert "(emulated, not measured)" in timing
    assert "B200" not in render_summary(runs.EMULATED)


def test_the_kernels_label_is_shown_with_its_time() -> None:
    timing = render_summary(runs.PASS).splitlines()[6]
    assert "median 5.300 ms" in timing
    assert timing.endswith("stand-in on plain CUDA cores; its time is not the project's")


def test_the_label_is_that_of_the_arch_that_ran() -> None:
    for label, end in (({"sm_90a": "a stand-in"}, "; a stand-in"), ({"sm_100a": "it"}, ")")):
        run = replace(runs.PASS, kernel=replace(runs.PASS.kernel, label=label))
        assert render_summary(run).splitlines()[6].endswith(end)


def test_a_stage_of_another_variant_than_the_runs_names_it() -> None:
    guard = replace(runs.CHECKSUM, name="tmem-guard", variant="guard")
    own = replace(runs.CHECKSUM, variant="production")
    line = render_summary(runs.run(runs.PREFLIGHT, own, guard)).splitlines()[3]
    assert line == "- **stages**: preflight pass, checksum pass, tmem-guard (guard) pass"


def test_a_label_that_a_program_gives_itself_is_not_shown_as_one() -> None:
    (check,) = runs.TIMING.checks
    told = replace(check, facts={**check.facts, "label": "stand-in, says the binary"})
    run = runs.run(runs.CHECKSUM, replace(runs.TIMING, checks=(told,)))
    unlabelled = replace(run, kernel=replace(run.kernel, label=""))
    assert "says the binary" not in render_summary(unlabelled)


def test_a_time_that_does_not_count_has_no_figures() -> None:
    skipped = replace(runs.TIMING, verdict=runs.skipped("not counted"), checks=())
    timing = render_summary(runs.run(runs.CHECKSUM, skipped)).splitlines()[6]
    assert timing == "- **timing**: skip: not counted"


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        (None, "GPU busy: not measured,"),
        (GpuBusy(unknown="no NVML"), "GPU busy: not measured, no NVML,"),
        (
            GpuBusy(20.0, 19.5, 15.6),
            "GPU busy 80% of 20.0 s from the first kernel to the last (samples of the driver)",
        ),
        (
            GpuBusy(100.0, 20.0, 18.0),
            "GPU busy 90% of 20.0 s for which there are samples of 100.0 s from the first kernel",
        ),
    ],
)
def test_a_summary_says_how_busy_the_gpu_was_as_far_as_it_is_known(
    busy: GpuBusy | None, said: str
) -> None:
    run = runs.ALL["pass"]
    priced = replace(run, gpu_busy=busy, held_s=60.0, price_per_hour=6.0)
    assert said in render_summary(priced)
    assert "GPU busy" not in render_summary(replace(runs.ALL["emulated"], gpu_busy=None))


def test_a_summary_says_that_times_were_measured_beside_other_gpus_in_use() -> None:
    run = runs.ALL["pass"]
    assert "shared power" not in render_summary(run)
    assert run.host is not None
    shares = replace(run, host=replace(run.host, shared_power=True))
    assert "shared power: other GPUs of the host could be in use" in render_summary(shares)


def test_a_summary_says_on_which_of_several_gpus_each_stage_ran() -> None:
    run = replace(runs.ALL["pass"], gpu_busy=GpuBusy(20.0, 19.5, 15.6))
    ran = [s for s in run.stages if s.commands]
    gpus = {s.name: f"GPU-{i % 2}" for i, s in enumerate(ran)}
    spread = replace(run, stages=tuple(replace(s, gpu=gpus.get(s.name, "")) for s in run.stages))
    (line,) = (said for said in render_summary(spread).splitlines() if "ran on" in said)
    for number in range(2):
        names = ", ".join(s.name for s in ran[number::2])
        assert f"{names} on GPU-{number}," in line
    assert "the first GPU busy 80%" in line
    one = replace(run, stages=tuple(replace(s, gpu="GPU-0") for s in run.stages))
    assert "GPU-0" not in render_summary(one)
