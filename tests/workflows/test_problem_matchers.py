"""The problem matchers on what nvcc 13.0.88 and our own reports really print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelrig.report.github import MATCHERS

from tests.workflows.joblog import Annotation, JobLog

ROOT = Path(__file__).parents[2]
FILE = ".github/problem-matchers.json"
CAPTURE = ROOT / "tests/data/build/nvcc-13.0.88-messages.txt"


@pytest.fixture
def log(tmp_path: Path) -> JobLog:
    """A job in a checkout that has the sources of the capture."""
    (tmp_path / ".github").mkdir()
    (tmp_path / FILE).write_text((ROOT / FILE).read_text())
    (tmp_path / "kernel").mkdir()
    for name in ("broken", "warns", "include"):
        (tmp_path / f"kernel/{name}.cu").touch()
    log = JobLog(tmp_path)
    log.write(f"::add-matcher::{FILE}")
    return log


def test_each_message_of_the_compiler_is_one_annotation_on_its_line(log: JobLog) -> None:
    for line in CAPTURE.read_text().splitlines():
        log.write(line)
    uninitialised = (
        "warning",
        "kernel/warns.cu",
        6,
        'variable "y" is used before its value is set',
    )
    unused = (
        "warning",
        "kernel/warns.cu",
        2,
        'variable "unused" was declared but never referenced',
    )
    assert [(a.level, a.file, a.line, a.message) for a in log.annotations] == [
        ("error", "kernel/broken.cu", 4, 'identifier "undefined_thing" is undefined'),
        (
            "error",
            "kernel/broken.cu",
            5,
            'a value of type "const char *" cannot be used to initialize an entity of type "float"',
        ),
        ("error", "kernel/broken.cu", 7, 'expected a ";"'),
        uninitialised,
        unused,
        uninitialised,
        unused,
        uninitialised,
        (
            "warning",
            "kernel/warns.cu",
            6,
            "‘y’ may be used uninitialized [-Wmaybe-uninitialized]",  # noqa: RUF001 - as g++ prints it
        ),
        *(
            ("error", "", 0, f"ptxas /tmp/tmpxft_00005383_00000000-7_{text}")
            for text in (
                "badptx.compute_90.ptx, line 60; error   : Unknown modifier '.an'",
                "badptx.compute_90.ptx, line 60; error   : Unknown modifier '.instruction'",
                "badptx.compute_90.ptx, line 60; error   : "
                "Unexpected instruction types specified for 'not'",
            )
        ),
        ("error", "", 0, "ptxas fatal   : Ptx assembly aborted due to errors"),
        (
            "error",
            "",
            0,
            "ptxas error   : Entry function '_Z4copyPf' uses too much shared data "
            "(0x3a980 bytes, 0x38c00 max)",
        ),
        ("error", "kernel/include.cu", 1, "not_there.cuh: No such file or directory"),
        (
            "warning",
            "",
            0,
            "ptxas warning : Registers are spilled to local memory in function '_Z1fPd', "
            "6984 bytes spill stores, 7416 bytes spill loads",
        ),
        ("error", "", 0, "nvcc fatal   : Unsupported gpu architecture 'sm_1'"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        'kernel/broken.cu:4: error: identifier "a" is undefined',
        'kernel/broken.cu:4:9: catastrophic error: identifier "a" is undefined',
        '\x1b[1mkernel/broken.cu(4): \x1b[31merror\x1b[0m: identifier "a" is undefined',
    ],
)
def test_the_forms_of_an_error_are_all_seen(log: JobLog, line: str) -> None:
    log.write(line)
    (found,) = log.annotations
    assert found == Annotation(
        "error", 'identifier "a" is undefined', file="kernel/broken.cu", line=4
    )


def test_the_sentence_that_repeats_an_error_is_not_a_second_one(log: JobLog) -> None:
    log.write("copy-sm_90a-production does not compile: kernel/broken.cu:4: error: expected a ;")
    assert log.annotations == []


def test_a_finding_is_marked_on_the_kernels_line(log: JobLog) -> None:
    log.write("1. proxy-fence at kernel/broken.cu:309 in store_box")
    log.write("2. race at kernel/broken.cu:12")
    log.write("3. race at kernel/broken.cu:12 of staging[0]")
    log.write("4. race at kernel/broken.cu:12 with kernel/broken.cu:9")
    log.write("5. race at kernel/broken.cu:12 (2 of 2 there)")
    log.write("   suggested fix: fence at kernel/broken.cu:310")
    log.write("6. preflight / GPU: no GPU at all:5")
    log.write("barrier at kernel/broken.cu:11")  # of a text below it
    assert [(a.message, a.file, a.line) for a in log.annotations] == [
        ("proxy-fence", "kernel/broken.cu", 309),
        *[("race", "kernel/broken.cu", 12)] * 4,
    ]


def test_a_report_that_annotates_takes_the_matchers_out(log: JobLog) -> None:
    owners = [m["owner"] for m in json.loads((ROOT / FILE).read_text())["problemMatcher"]]
    assert tuple(owners) == MATCHERS
    for owner in MATCHERS:
        log.write(f"::remove-matcher owner={owner}::")
    log.write("1. race at kernel/broken.cu:12")
    assert log.annotations == []


def test_every_step_of_a_workflow_that_compiles_comes_after_the_matchers() -> None:
    for name in ("ci.yml", "gpu.yml"):
        text = (ROOT / ".github/workflows" / name).read_text()
        for job in text.split("runs-on:")[1:]:
            registers, compiles = job.find(f"::add-matcher::{FILE}"), job.find("ci/invoke build")
            assert compiles < 0 or 0 < registers < compiles, name
