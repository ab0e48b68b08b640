"""`kernelrig new`: a kernel is added, and nothing else changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.new_kernel import HARNESS, SOURCES, add_kernel
from kernelrig.config.new_project import init_project
from kernelrig.errors import ConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    init_project(tmp_path)
    return tmp_path


def test_each_template_becomes_a_kernel_beside_the_others(root: Path) -> None:
    before = (root / "kernel/kernels.yaml").read_text()
    for template in SOURCES:
        assert add_kernel(root, f"my-{template}", template) == [
            f"kernel/my-{template}.cu",
            "kernel/kernels.yaml",
        ]
    kernels = config.load_kernels(root)
    assert list(kernels) == ["saxpy", "my-plain", "my-elementwise", "my-gemm"]
    assert all(k.level == 0 and k.must_print for k in list(kernels.values())[1:])
    assert [m.unit for m in kernels["my-gemm"].metrics.values()] == ["ms", "TFLOP/s"]
    text = (root / "kernel/kernels.yaml").read_text()
    assert text.startswith(before)  # comments on saxpy stay with it


def test_an_operation_comes_with_its_reference_and_the_harness(root: Path) -> None:
    written = add_kernel(root, "act", "operation")
    kernel = config.load_kernels(root)["act"]
    assert kernel.is_operation
    assert kernel.reference_text == (root / "kernel/act.py").read_text()
    headers = {f"kernel/harness/{p.name}" for p in HARNESS.glob("*.cuh")}
    assert set(written) == {"kernel/act.cu", "kernel/act.py", "kernel/kernels.yaml"} | headers
    other = add_kernel(root, "another", "operation")  # the headers are there already
    assert other == ["kernel/another.cu", "kernel/another.py", "kernel/kernels.yaml"]


def test_every_header_that_the_harness_includes_comes_with_it() -> None:
    included = {
        name
        for path in HARNESS.glob("*.cuh")
        for name in re.findall(r'#include "([^"]+)"', path.read_text())
    }
    assert included <= {path.name for path in HARNESS.glob("*.cuh")}


def test_a_header_of_another_text_is_in_the_way(root: Path) -> None:
    (root / "kernel/harness").mkdir()
    (root / "kernel/harness/ptx.cuh").write_text("// mine\n")
    with pytest.raises(ConfigError, match=r"kernel/harness/ptx\.cuh is there, with another text"):
        add_kernel(root, "act", "operation")


def test_a_file_of_schema_2_is_made_one_of_3(root: Path) -> None:
    path = root / "kernel/kernels.yaml"
    path.write_text("schema: 2 # old\nkernels:\n    saxpy: {sources: saxpy.cu}")
    add_kernel(root, "act", "elementwise")
    kept = "schema: 3 # old\nkernels:\n    saxpy: {sources: saxpy.cu}\n"
    assert path.read_text().startswith(f"{kept}    act:\n      sources: act.cu\n")
    assert list(config.load_kernels(root)) == ["saxpy", "act"]


@pytest.mark.parametrize(
    ("text", "name", "template", "said"),
    [
        (
            "",
            "act",
            "gemn",
            "unknown template 'gemn'; templates: plain, elementwise, gemm, operation",
        ),
        ("", "../act", "plain", "'../act' cannot be a kernel's name"),
        ("", "saxpy", "plain", "kernel/kernels.yaml has a kernel 'saxpy' already"),
        ("schema: 3\nkernels: {p: {sources: saxpy.cu}}\n", "act", "plain", "cannot be edited"),
        (
            "schema: 1\nkernels:\n  p:\n    level: 0\n    sources: {sm_90a: saxpy.cu}\n"
            "    variants: {production: {program: p}}\n",
            "act",
            "plain",
            "kernel/kernels.yaml:1: a new kernel needs a file of schema 3, this is of 1",
        ),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    root: Path, text: str, name: str, template: str, said: str
) -> None:
    path = root / "kernel/kernels.yaml"
    if text:
        path.write_text(text)
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError) as caught:
        add_kernel(root, name, template)
    assert said in str(caught.value)
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


def test_a_source_that_is_there_is_not_overwritten(root: Path) -> None:
    (root / "kernel/act.cu").write_text("mine")
    with pytest.raises(ConfigError, match=r"kernel/act.cu is there, with another text"):
        add_kernel(root, "act", "gemm")
    assert (root / "kernel/act.cu").read_text() == "mine"
