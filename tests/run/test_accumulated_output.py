"""Outputs that start with contents a launch adds to, emulated: a right kernel, and faults in it.

The PTX is nvcc's of kernel/examples/segment_sum.cu, and the launch file is what its program wrote.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernelrig import config
from kernelrig.config.operation_sizes import operation_at
from kernelrig.model import Case, Kernel, Outcome, Pattern, Stage, StageKind

from tests.run.emulated_operation import DATA, ROOT, emulated_stage

PTX = (DATA / "segment_sum-nvcc-13.0.88.ptx").read_text()
LAUNCH = (DATA / "segment_sum-launch.json").read_text()
CASE = Case("smoke", numbers=(("rows", 30), ("columns", 7), ("segments", 16), ("ctas", 2)))
CHECK = Stage("smoke", StageKind.CHECKSUM, "smoke", patterns=(Pattern.RANDOM,), seeds=(5,))
RACES = Stage("racecheck", StageKind.SANITIZER, "smoke", tool="racecheck", seeds=(5,))
SUM = "\tatom.global.add.f32 \t%f2, [%rd11], %f1;\n"
COUNT = "\tatom.global.add.u32 \t%r21, [%rd16], 1;\n"


@pytest.fixture
def kernel() -> Kernel:
    return replace(config.load_kernels(ROOT)["segment_sum"], cases={"smoke": CASE})


@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_kernel_that_adds_to_its_outputs_passes(
    kernel: Kernel, tmp_path: Path, pattern: Pattern
) -> None:
    record = emulated_stage(tmp_path, kernel, replace(CHECK, patterns=(pattern,)), PTX, LAUNCH)
    assert record.verdict.outcome is Outcome.PASS
    # each schedule began with fresh contents
    assert record.checks[0].verdict.summary.startswith("all elements right in 2 schedules")
    asked = (tmp_path / "built/asked").read_text()
    assert "--output sums:f32:16x7:carried --output counts:u32:16:zeros" in asked


def test_atomic_additions_are_no_race(kernel: Kernel, tmp_path: Path) -> None:
    assert emulated_stage(tmp_path, kernel, RACES, PTX, LAUNCH).verdict.outcome is Outcome.PASS
    load, store = "\tld.global.f32 \t%f2, [%rd11];\n", "\tst.global.f32 [%rd11], %f2;\n"
    plain = f"{load}\tadd.f32 %f2, %f2, %f1;\n{store}"
    record = emulated_stage(tmp_path / "bad", kernel, RACES, PTX.replace(SUM, plain), LAUNCH)
    assert record.verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        pytest.param(SUM, SUM * 2, "sums", id="accumulates twice"),
        pytest.param(COUNT, COUNT * 2, "counts", id="counts twice"),
        pytest.param(
            COUNT, f"\tsetp.eq.u32 %p3, %r5, 2;\n\t@!%p3 {COUNT.strip()}\n", "counts",
            id="forgets a segment",
        ),
        pytest.param(
            SUM, f"\tsetp.eq.u32 %p3, %r5, 2;\n\t@!%p3 {SUM.strip()}\n", "sums",
            id="forgets the sums of a segment",
        ),
        pytest.param(
            SUM, "\tatom.global.exch.b32 \t%f2, [%rd11], %f1;\n", "sums",
            id="forgets what was there",
        ),
    ],
)  # fmt: skip
def test_a_wrong_accumulation_is_caught(
    kernel: Kernel, tmp_path: Path, old: str, new: str, wrong: str
) -> None:
    assert PTX.count(old) == 1
    record = emulated_stage(tmp_path, kernel, CHECK, PTX.replace(old, new), LAUNCH)
    assert record.verdict.outcome is Outcome.FAIL
    said = " ".join((record.verdict.summary, *record.checks[0].verdict.evidence))
    assert re.search(rf"{wrong}\[[0-9, ]+\]: got .*, wanted .*; \d+ of \d+ elements wrong", said)


def test_without_its_contents_the_same_kernel_fails(kernel: Kernel, tmp_path: Path) -> None:
    """What the canary is for: the kernel adds to what nothing has filled."""
    launch = json.loads(LAUNCH)
    launch["buffers"]["counts"]["fill"] = {"kind": "undefined"}
    record = emulated_stage(tmp_path, kernel, CHECK, PTX, json.dumps(launch))
    assert record.verdict.outcome is Outcome.FAIL


def test_the_reference_gets_what_an_output_starts_as(kernel: Kernel) -> None:
    from kernelrig.reference.tensors import decoded, input_elements
    from kernelrig.stages import wanted_at

    inputs = {t.name: t for t in operation_at(kernel, CASE).inputs}
    x, segment, carried = (
        decoded(input_elements(inputs[name], Pattern.RANDOM, 5), inputs[name].dtype)
        for name in ("x", "segment", "carried")
    )
    wanted = wanted_at(kernel, CASE, Pattern.RANDOM, 5)
    assert np.allclose(wanted["sums"].values[2], carried[2] + x[segment == 2].sum(axis=0))
    assert wanted["counts"].values[2] == (segment == 2).sum() > 0
