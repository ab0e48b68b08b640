"""Operations in kernels.yaml: tensors over a case's numbers, and mistakes with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.operation_sizes import case_words, operation_at
from kernelrig.config.schema import KernelsFile, json_schema
from kernelrig.errors import ConfigError
from kernelrig.model import Case, Dtype, InputTensor, Kernel, OutputTensor, Values

from tests.config.projects import Project, mistakes

TEXT = """\
schema: 3
kernels:
  scan:
    kernel_regex: scan_rows
    sources: scan.cu
    cases:
      smoke: {rows: 4, columns: 30}
      full: {rows: 400, columns: 3000, ctas: 2}
    inputs:
      x: {dtype: e4m3, shape: [rows, columns], range: [-1, 1.5], values: uneven}
    outputs:
      y: {dtype: bf16, shape: [rows, (columns + 15) // 16, 2], max_rel: 1e-3}
      n: {dtype: i32, shape: [1]}
    reference: scan.py
    flop: {bf16: 2 * rows * columns}
"""


@pytest.fixture
def scan(project: Project) -> Project:
    project("kernel/scan.cu", "")
    project("kernel/scan.py", "def reference(case, inputs): ...\n")
    return project


def loaded(project: Project, text: str = TEXT) -> Kernel:
    return config.load_kernels(project("kernel/kernels.yaml", text))["scan"]


def operation_mistakes(project: Project, old: str, new: str) -> list[str]:
    assert old in TEXT
    return mistakes(lambda: loaded(project, TEXT.replace(old, new)))


def test_the_tensors_of_a_case_are_its_expressions_evaluated(scan: Project) -> None:
    kernel = loaded(scan)
    assert kernel.cases["full"] == Case(
        "full", numbers=(("rows", 400), ("columns", 3000), ("ctas", 2))
    )
    operation = operation_at(kernel, kernel.cases["smoke"])
    assert operation.inputs == (InputTensor("x", Dtype.E4M3, (4, 30), Values.UNEVEN, -1.0, 1.5),)
    assert operation.outputs == (
        OutputTensor("y", Dtype.BF16, (4, 2, 2), 0.0, 1e-3),
        OutputTensor("n", Dtype.I32, (1,), 0.0, 0.0),
    )
    assert (operation.bytes, operation.bytes_moved) == (4 * 30 + 2 * 16 + 4,) * 2
    assert operation.flop == (("bf16", 240),)
    assert case_words(kernel, kernel.cases["smoke"]) == (
        *("--case", "rows=4,columns=30", "--input", "x:e4m3:4x30:uneven:-1.0:1.5"),
        *("--output", "y:bf16:4x2x2", "--output", "n:i32:1"),
    )


def test_what_an_output_starts_as_is_told_to_the_program(scan: Project) -> None:
    text = TEXT.replace("shape: [1]}", "shape: [1], initial: zeros}")
    text = text.replace(
        "      n:", "      z: {dtype: e4m3, shape: [rows, columns], initial: x}\n      n:"
    )
    kernel = loaded(scan, text)
    words = case_words(kernel, kernel.cases["smoke"])
    assert words[4:] == (
        *("--output", "y:bf16:4x2x2", "--output", "z:e4m3:4x30:x", "--output", "n:i32:1:zeros"),
    )


def test_an_input_called_zeros_is_no_initial(scan: Project) -> None:
    text = TEXT.replace("      x:", "      zeros:").replace(
        "shape: [1]}", "shape: [1], initial: zeros}"
    )
    said = "13: 'initial: zeros' and an input of that name: rename it"
    assert mistakes(lambda: loaded(scan, text)) == [f"kernel/kernels.yaml:{said}"]


def test_bytes_that_are_moved_may_be_said(scan: Project) -> None:
    kernel = loaded(scan, TEXT + "    bytes_moved: 3 * rows * columns\n")
    assert operation_at(kernel, kernel.cases["smoke"]).bytes_moved == 360


def test_the_reference_is_part_of_the_record(scan: Project) -> None:
    assert loaded(scan).reference_text == "def reference(case, inputs): ...\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema: 3", "schema: 2", [
            "9: 'inputs' needs a file of schema 3",
            "11: 'outputs' needs a file of schema 3",
            "14: 'reference' needs a file of schema 3",
            "15: 'flop' needs a file of schema 3",
        ]),
        ("[1]", "[colums]", ["13: no number is called 'colums'; numbers: rows, columns",
                             "13: no number is called 'colums'; numbers: rows, columns, ctas"]),
        ("[1]", "[rows - 4]", ["13: 'rows - 4' is 0 at case 'smoke', no number from 1 on"]),
        ("[1]", "[]", ["13: 'shape' has 0 extents; 1 to 8 are allowed"]),
        ("[1]", "[2 **]", ["13: '**' is not expected at character 3 of '2 **'; allowed: whole "
                           "numbers, names, + - * // %, comparisons and `a if b else c`"]),
        ("columns: 30}", "columns: -1}", [
            "7: 'columns' must be a whole number from 0 to 1000000000000, not -1"]),
        ("columns: 30}", "columns: 3.5}", [
            "7: 'columns' must be a whole number from 0 to 1000000000000, not 3.5"]),
        ("{rows: 4, columns: 30}", "{}", ["7: 'smoke' names no number"]),
        ("e4m3", "fp8", ["10: 'dtype' must be one of e4m3, e5m2, bf16, f16, f32, f64, i8, u8, i16,"
                         " u16, i32, u32, i64, u64, not 'fp8'"]),
        ("[-1, 1.5]", "[-500, 1.5]", [
            "10: 'range' of e4m3 rises and lies in [-448, 448], not [-500, 1.5]"]),
        ("[-1, 1.5]", "[2, 1.5]", [
            "10: 'range' of e4m3 rises and lies in [-448, 448], not [2, 1.5]"]),
        ("max_rel: 1e-3", "max_rel: -1e-3", ["12: 'max_rel' must be 0 or more, not -0.001"]),
        ("i32, shape: [1]", "i32, shape: [1], max_abs: 0.5", [
            "13: an output of i32 takes a whole 'max_abs' and no 'max_rel'"]),
        ("[1]", "[1], initial: xx", [
            "13: 'initial' is zeros or the name of an input, not 'xx'; did you mean 'x'?"]),
        ("[1]", "[1], initial: x", [
            "13: 'initial' names 'x', which is e4m3 [rows, columns]: write both as i32 [1]"]),
        ("      n:", "      x:", ["13: 'x' is an input and an output"]),
        ("      n:", "      workspace:", [
            "13: 'workspace' cannot name a tensor; use letters, digits and '_', not 'workspace'"]),
        ("scan.py", "scan2.py", ["14: no file 'scan2.py' in kernel/; did you mean 'scan.py'?"]),
        ("scan.py", "../../x.py", ["14: '../../x.py' is no file of this project: no commit says "
                                   "what was compared with"]),
        ("    reference: scan.py\n", "", [
            "3: missing key 'reference' in 'scan': the Python file that computes the outputs"]),
        ("reference: scan.py", "reference: scan.py\n    reference_text: x", [
            "15: unknown key 'reference_text'; known keys: "]),
        ("bf16: 2 * rows", "fp64: 2 * rows", [
            "15: no peak is known for operands of 'fp64'; known: e4m3, e5m2, i8, bf16, f16, tf32,"
            " f32"]),
        ("    flop:", "    shape: {rows_per_image: 1, n: 1, k: 1}\n    flop:", [
            "15: 'shape' is of patch_embed; 'outputs' have shapes of their own"]),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line(scan: Project, old: str, new: str, said: list[str]) -> None:
    found = operation_mistakes(scan, old, new)
    assert len(found) == len(said)
    for line, text in zip(found, said, strict=True):
        assert line.startswith(f"kernel/kernels.yaml:{text}")


def test_a_kernel_without_outputs_has_none_of_their_keys(scan: Project) -> None:
    text = TEXT.partition("    outputs:")[0] + "    shape: {rows_per_image: 1, n: 1, k: 1}\n"
    found = mistakes(lambda: loaded(scan, text))
    assert found[0].endswith("7: missing key 'images' in 'smoke'")
    assert found[1].endswith("7: unknown key 'columns'; known keys: ctas, images")
    for numbers in ("rows: 4, columns: 30", "rows: 400, columns: 3000"):
        text = text.replace(numbers, "images: 1")
    said = "9: 'inputs' is of a kernel that declares 'outputs'; 'scan' has none"
    assert mistakes(lambda: loaded(scan, text)) == [f"kernel/kernels.yaml:{said}"]


def test_an_unknown_key_names_none_that_is_filled_in(scan: Project) -> None:
    text = TEXT.partition("    inputs:")[0].replace("rows: 4", "images: 1, numbers: 4")
    found = mistakes(lambda: loaded(scan, text))
    assert any("7: unknown key 'numbers'; known keys: ctas, images" in line for line in found)


def test_our_own_operations_have_a_case_that_is_emulated() -> None:
    kernels = config.load_kernels(Path(__file__).parents[2])
    for kernel in kernels.values():
        if kernel.is_operation:
            assert operation_at(kernel, kernel.cases["smoke"]).bytes < 1 << 20


def test_an_editor_is_shown_any_number_of_a_case_and_nothing_that_is_filled_in() -> None:
    defined = json_schema(KernelsFile)["$defs"]
    assert defined["Case"]["additionalProperties"] == {"type": "integer", "minimum": 0}
    assert "reference_text" not in defined["Kernel"]["properties"]


def test_an_unknown_number_at_a_case_of_a_command_line_is_refused(scan: Project) -> None:
    with pytest.raises(ConfigError, match="no number is called 'columns'; numbers: rows"):
        operation_at(loaded(scan), Case("rows=3", numbers=(("rows", 3),)))
