from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.model import Check, StageKind
from kernelrig.report.github import (
    MATCHERS,
    error_commands,
    publish,
    render_job_summary,
    repository_path,
)

from tests.report import runs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "cuda_patch_embed_fp8.cu").touch()
    return tmp_path


def test_a_finding_is_marked_on_its_line(root: Path) -> None:
    assert error_commands(runs.FAIL, root) == [
        "::error file=kernel/cuda_patch_embed_fp8.cu,line=123,"
        "title=memcheck / finding 5e1f00d5 (gpu NVIDIA H200)"
        "::memcheck invalid write: Invalid __global__ write of size 2 bytes; kernel "
        "patch_embed_gemm; at kernel/cuda_patch_embed_fp8.cu:123; threads (0,0,0) to (31,0,0) "
        "in block (3,0,0); 32 times; fingerprint 5e1f00d5"
    ]


def test_an_error_of_ours_says_that_it_is_not_the_kernels(root: Path) -> None:
    assert error_commands(runs.ERROR, root) == [
        "::error title=error%2C not the kernel's fault%3A preflight (gpu (name unknown))"
        "::preflight: no python3 on the host"
    ]


def test_missing_results_are_an_annotation_too(root: Path) -> None:
    assert error_commands(runs.INCOMPLETE, root) == [
        "::error title=results are missing::host-17 does not answer: connection refused"
    ]


def test_a_pass_says_nothing(root: Path) -> None:
    assert error_commands(runs.PASS, root) == []
    assert error_commands(runs.ACCEPTED, root) == []


def test_a_tools_words_cannot_start_a_command_of_their_own(root: Path) -> None:
    (line,) = error_commands(runs.nasty_run(), root)
    assert len(line.splitlines()) == 1
    title, message = line.removeprefix("::error title=").split("::", 1)
    assert title.startswith(
        "memcheck / \\x1b[31mred\\x00 \\ud800 \U0001f525 ü]]>&<b>%250A / %3A%3Aerror%3A%3Ax|`*_"
    )
    assert "&<b>%250A / ::error::x" in message


def test_no_more_annotations_than_github_shows(root: Path) -> None:
    checks = [Check(f"case {i}", runs.failed(f"mismatch {i}")) for i in range(40)]
    record = runs.stage("checksum", StageKind.CHECKSUM, *checks, verdict=runs.failed("many"))
    assert len(error_commands(runs.run(record), root)) == 10
    cut = replace(runs.run(record), state="incomplete", missing=("stage timing",))
    assert error_commands(cut, root)[9] == "::error title=results are missing::stage timing"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("kernel/cuda_patch_embed_fp8.cu", "kernel/cuda_patch_embed_fp8.cu"),
        ("./kernel/cuda_patch_embed_fp8.cu", "kernel/cuda_patch_embed_fp8.cu"),
        ("/home/runner/x/kernel/cuda_patch_embed_fp8.cu", "kernel/cuda_patch_embed_fp8.cu"),
        ("cuda_patch_embed_fp8.cu", "kernel/cuda_patch_embed_fp8.cu"),
        ("/usr/include/string.h", ""),
        ("../kernel/cuda_patch_embed_fp8.cu", ""),
        ("", ""),
    ],
)
def test_a_path_from_a_line_table_is_found_in_the_checkout(
    root: Path, name: str, path: str
) -> None:
    assert repository_path(name, root) == path


def test_nothing_is_published_where_no_runner_listens(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(runs.FAIL, {"GITHUB_STEP_SUMMARY": str(root / "summary")}, root)
    assert capsys.readouterr().out == ""
    assert not (root / "summary").exists()


def test_the_summary_is_added_to_what_other_steps_wrote(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = root / "summary"
    summary.write_text("before\n")
    publish(runs.FAIL, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}, root)
    assert summary.read_text() == "before\n" + render_job_summary(runs.FAIL)
    lines = capsys.readouterr().out.splitlines()
    # Else the problem matchers would find the same lines in the report that follows
    assert lines[:3] == [f"::remove-matcher owner={owner}::" for owner in MATCHERS]
    assert lines[3].startswith("::error file=kernel/cuda_patch_embed_fp8.cu,")


@pytest.mark.parametrize("name", ["missing/summary", "pipe", ""])
def test_a_summary_that_cannot_be_written_is_said_and_changes_nothing(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    os.mkfifo(root / "pipe")  # nobody reads it: it would be waited for
    publish(runs.FAIL, {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": f"{root}/{name}"}, root)
    said = capsys.readouterr()
    assert "::error file=kernel/cuda_patch_embed_fp8.cu," in said.out
    assert "the job's summary is not written: " in said.err


def test_the_job_summary_has_a_row_a_stage_and_every_cause() -> None:
    text = render_job_summary(runs.FAIL)
    assert "| memcheck | fail | gpu NVIDIA H200 | 1.5 | memcheck found an error |" in text
    assert "| timing | skip | gpu NVIDIA H200 | 0.0 | checksum did not pass |" in text
    assert "\n- Invalid `__global__` write of size 2 bytes\n" in text


def test_a_pipe_in_a_summary_does_not_end_its_cell() -> None:
    record = replace(runs.CHECKSUM, verdict=runs.passed("a | b"))
    assert "| a \\| b |" in render_job_summary(runs.run(record))
