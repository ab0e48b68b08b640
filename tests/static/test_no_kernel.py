"""A program that only calls CUDA's libraries has nothing that could be checked: no rule fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig.model import Kernel, Outcome, Variant
from kernelrig.static import inspect_build, inspect_ptx

from tests.static.builds import made_build, made_subject


def test_a_plain_program_without_a_kernel_is_a_skip_that_says_so(tmp_path: Path) -> None:
    built = replace(made_build(tmp_path / "build", "#!/bin/sh\n"), resources=())
    sources, variants = {"sm_100a": "demo.cu"}, {"production": Variant("production", "program")}
    plain = Kernel("demo", sources, variants, level=0)
    (check,) = inspect_build(plain, built, tmp_path, None).checks
    assert check.verdict.outcome is Outcome.SKIP
    assert check.verdict.summary.startswith("the program has no kernel of its own")
    # With a kernel, a disassembly that is missing is an error as before.
    with_kernel = made_build(tmp_path / "build", "#!/bin/sh\n")
    checks = inspect_build(plain, with_kernel, tmp_path, None).checks
    assert Outcome.ERROR in {c.verdict.outcome for c in checks}


def test_a_build_without_the_kernel_is_one_error_that_names_those_it_has(tmp_path: Path) -> None:
    built = made_build(tmp_path / "build", "#!/bin/sh\n")
    (built.folder / "program.ptx").write_text(
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        ".visible .entry _Z7softmaxPf(.param .u64 p)\n{\nret;\n}\n"
    )
    kernel = made_subject().kernel
    (check,) = inspect_ptx(kernel, built, tmp_path)
    assert check.verdict.outcome is Outcome.ERROR
    assert check.verdict.summary == (
        "the build has no kernel called '^gemm$'; kernels in it: softmax"
    )
