"""An operation in the emulator, from its description to the verdict; and that faults are caught.

The PTX is nvcc's of kernel/examples/softmax.cu, and the launch file is what its program wrote.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import (
    Case,
    Dtype,
    Kernel,
    Outcome,
    Output,
    Pattern,
    Stage,
    StageKind,
    StageRecord,
)
from kernelrig.run.emulation import plan_for, read_case
from kernelrig.run.requests import EmulateRequest

from tests.run.emulated_operation import DATA, ROOT, emulated_stage

PTX = (DATA / "softmax-nvcc-13.0.88.ptx").read_text()
LAUNCH = (DATA / "softmax-launch.json").read_text()
STORE = "\tst.global.u16 \t[%rd8], %rs1;\n"
CASE = Case("smoke", numbers=(("rows", 3), ("columns", 70), ("ctas", 2)))
CHECK = Stage("smoke", StageKind.CHECKSUM, "smoke", patterns=(Pattern.RANDOM,), seeds=(5,))
RACES = Stage("racecheck", StageKind.SANITIZER, "smoke", tool="racecheck", seeds=(5,))


@pytest.fixture
def kernel() -> Kernel:
    softmax = config.load_kernels(ROOT)["softmax"]
    return replace(softmax, cases={"smoke": CASE})


def emulated(
    root: Path, kernel: Kernel, stage: Stage, ptx: str = PTX, launch: str = LAUNCH
) -> StageRecord:
    return emulated_stage(root, kernel, stage, ptx, launch)


@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_right_kernel_passes(kernel: Kernel, tmp_path: Path, pattern: Pattern) -> None:
    record = emulated(tmp_path, kernel, replace(CHECK, patterns=(pattern,)))
    assert record.verdict.outcome is Outcome.PASS
    (check,) = record.checks
    assert check.name == f"{pattern.value} seed 5, rows=3,columns=70,ctas=2"
    assert check.verdict.summary.startswith("all elements right in 2 schedules")
    asked = (tmp_path / "built/asked").read_text().split()
    assert asked[:8] == [
        *("--mode", "describe", "--case", "rows=3,columns=70,ctas=2"),
        *("--input", "x:f32:3x70:uniform:-8.0:8.0", "--output", "y:bf16:3x70"),
    ]


@pytest.mark.parametrize(
    ("new", "said"),
    [
        pytest.param("", "of y were never written", id="missing store"),
        pytest.param(
            "\txor.b64 %rd8, %rd8, 2;\n" + STORE + "\txor.b64 %rd8, %rd8, 2;\n",
            "elements of y differ",
            id="swapped columns",
        ),
        pytest.param("\tmov.u16 %rs1, 0x7FC0;\n" + STORE, "is nan", id="NaN"),
        pytest.param("\tmov.u16 %rs1, 0x7F80;\n" + STORE, "is inf", id="infinity"),
        pytest.param("\tadd.u16 %rs1, %rs1, 2;\n" + STORE, "elements of y differ", id="two ulp"),
    ],
)
def test_a_wrong_store_is_caught(kernel: Kernel, tmp_path: Path, new: str, said: str) -> None:
    assert STORE in PTX
    record = emulated(tmp_path, kernel, CHECK, PTX.replace(STORE, new))
    assert record.verdict.outcome is Outcome.FAIL
    assert any(
        said in line for line in (record.verdict.summary, *record.checks[0].verdict.evidence)
    )
    assert "elements wrong" in " ".join(
        (record.verdict.summary, *record.checks[0].verdict.evidence)
    )


def test_a_missing_barrier_is_a_race(kernel: Kernel, tmp_path: Path) -> None:
    assert emulated(tmp_path / "good", kernel, RACES).verdict.outcome is Outcome.PASS
    ptx = PTX.replace("\tbar.sync \t0;\n", "", 1)
    record = emulated(tmp_path / "bad", kernel, RACES, ptx)
    assert record.verdict.outcome is Outcome.FAIL


def test_the_tolerance_decides_how_far_a_kernel_may_be_off(kernel: Kernel, tmp_path: Path) -> None:
    text = kernel.reference_text.replace("return ", "return 1.003 * ")
    for max_rel, outcome in ((1e-2, Outcome.PASS), (1e-3, Outcome.FAIL)):
        output = Output(Dtype.BF16, ("rows", "columns"), max_rel=max_rel)
        near = replace(kernel, reference_text=text, outputs={"y": output})
        assert emulated(tmp_path / f"{max_rel}", near, CHECK).verdict.outcome is outcome


def test_another_reference_shows(kernel: Kernel, tmp_path: Path) -> None:
    other = kernel.reference_text.replace("axis=1, keepdims=True)\n", "axis=0, keepdims=True)\n")
    assert other != kernel.reference_text
    record = emulated(tmp_path, replace(kernel, reference_text=other), CHECK)
    assert record.verdict.outcome is Outcome.FAIL


def test_a_reference_that_fails_ends_the_run_with_its_sentence(
    kernel: Kernel, tmp_path: Path
) -> None:
    broken = replace(kernel, reference_text="def reference(case, inputs):\n    return case.depth\n")
    with pytest.raises(ConfigError, match=r"examples/softmax\.py fails: line 2: AttributeError"):
        emulated(tmp_path, broken, CHECK)


def test_a_program_that_describes_other_tensors_is_no_evidence(
    kernel: Kernel, tmp_path: Path
) -> None:
    other = json.loads(LAUNCH)
    other["buffers"]["y"]["shape"] = [70, 3]
    with pytest.raises(ProtocolError, match="not what was asked for"):
        emulated(tmp_path, kernel, CHECK, launch=json.dumps(other))


def test_every_small_case_is_emulated_and_a_large_one_where_it_is_named() -> None:
    softmax = config.load_kernels(ROOT)["softmax"]
    _, plan = plan_for(softmax, EmulateRequest())
    names = [s.name for s in plan.stages]
    assert names[:2] == ["checksum-12x333", "checksum-24x500x4"]
    assert names[2:] == ["memcheck", "racecheck", "initcheck", "synccheck"]
    assert {s.case for s in plan.stages[2:]} == {"sanitizer"}
    _, plan = plan_for(softmax, EmulateRequest(case="full"))
    assert all(s.whole for s in plan.stages)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rows=3", "no number is called 'columns'; numbers: rows"),
        ("rows=3,columns", "unknown case 'rows=3,columns'; write NAME=N,NAME=N, or one of smoke"),
        ("rows=3,rows=4", "names a number twice"),
        ("smok", "unknown case 'smok'"),
    ],
)
def test_a_case_of_the_command_line_has_every_number(kernel: Kernel, text: str, said: str) -> None:
    assert read_case(kernel, "rows=3,columns=9").values == {"rows": 3, "columns": 9}
    with pytest.raises(ConfigError, match=said):
        read_case(kernel, text)
