"""Sets of tunables: compiled once per content, refused by our own sentences, never guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request, build_all, try_sets
from kernelrig.build.tunable_builds import read_refusal
from kernelrig.config.covering_array import tried_sets
from kernelrig.engines import Engine, LocalEngine
from kernelrig.errors import CiError
from kernelrig.model import Build, Kernel, Outcome, Toolchain, TriedSet
from kernelrig.static import Subject, check_sets

from tests.compilations import build_once
from tests.demo_project import make_demo_project
from tests.toolchain_fixture import REPOSITORY

SETS = ({"WIDTH": 1}, {"WIDTH": 3}, {"WIDTH": 4})


def broken(tools: Toolchain, tree: Path) -> Toolchain:
    """Return tools that say they are `tools`, in a tree whose nvcc cannot compile anything."""
    home = tree / tools.root.parents[1].name / "nvidia" / "cu13"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "nvcc").write_text("#!/bin/sh\necho 'nvcc was started: error' >&2; exit 1\n")
    (home / "bin" / "nvcc").chmod(0o755)
    return replace(tools, root=home, nvcc=home / "bin" / "nvcc")


def test_a_set_is_compiled_once_and_again_when_a_source_changed(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    root = make_demo_project(tmp_path / "project")
    request = Request(config.load_kernels(root)["demo"], "sm_90a", "production")
    (build,) = build_all(root, [request], cuda_toolchain)
    with LocalEngine() as engine:
        compile_twice(root, build, request, cuda_toolchain, tmp_path, engine)


def compile_twice(
    root: Path, build: Build, request: Request, tools: Toolchain, tmp_path: Path, engine: Engine
) -> None:
    first = try_sets(root, build, request, SETS, tools, engine)
    assert [one.values for one in first] == list(SETS)
    assert [bool(one.functions) for one in first] == [True, False, True]
    assert [one.refused for one in first] == [(), ("WIDTH 3 leaves a part of a line",), ()]
    assert not any(one.reused or one.complaint or one.local_instructions for one in first)
    no_compiler = broken(tools, tmp_path)
    again = try_sets(root, build, request, SETS, no_compiler, engine)
    assert again == tuple(replace(one, reused=True) for one in first)
    # The key of a whole build of the same files knows every header.
    other = try_sets(root, replace(build, key="0123"), request, SETS[:1], no_compiler, engine)
    assert other[0].complaint == "nvcc was started: error"
    # A worker that has other sources must not say what becomes of these.
    elsewhere = replace(build, key="4567", inputs={**build.inputs, "kernel/demo.cu": "0"})
    with pytest.raises(CiError, match="the sources in"):
        try_sets(root, elsewhere, request, SETS[:1], tools, engine)


@pytest.mark.parametrize(
    ("log", "refused", "complaint"),
    [
        ('kernel/a.cu:3: error: static assertion failed with "too wide"\n', ("too wide",), ""),
        (
            'kernel/a.cu:3: error: static assertion failed with "too wide"\n'
            'kernel/a.cu:9: error: static assertion failed with "too wide"\n'
            'kernel/b.cuh:1: error: static assertion failed with "too deep"\n2 errors detected\n',
            ("too wide", "too deep"),
            "",
        ),
        (
            'kernel/a.cu:3: error: static assertion failed with "too wide"\n'
            "kernel/a.cu:4: error: an array may not have elements of this type\n",
            ("too wide",),
            "kernel/a.cu:4: error: an array may not have elements of this type",
        ),
        (
            '/usr/include/c++/12/array:3: error: static assertion failed with "theirs"\n',
            (),
            '/usr/include/c++/12/array:3: error: static assertion failed with "theirs"',
        ),
        (
            "ptxas error   : Entry function 'gemm' uses too much shared data\n",
            (),
            "ptxas error   : Entry function 'gemm' uses too much shared data",
        ),
        ("ptxas fatal   : Unresolved extern\n", (), "ptxas fatal   : Unresolved extern"),
        ("", (), "the compiler failed and printed nothing"),
        ("killed\n", (), "killed"),
    ],
)
def test_only_our_own_static_asserts_refuse_a_set(
    log: str, refused: tuple[str, ...], complaint: str
) -> None:
    assert read_refusal(log) == (refused, complaint)


def megakernel() -> Kernel:
    return config.load_kernels(REPOSITORY)["patch_embed"]


def try_megakernel(tools: Toolchain, few: bool) -> tuple[tuple[TriedSet, ...], Subject]:
    kernel = megakernel()
    request = Request(kernel, "sm_100a", "production")
    build = build_once(REPOSITORY, request, tools)
    sets = tried_sets(kernel.tunables["sm_100a"])
    # From the end: there the structural ones are all other than by default.
    chosen = (sets[0], *sets[-1::-25]) if few else sets
    with LocalEngine() as engine:
        tried = try_sets(REPOSITORY, build, request, chosen, tools, engine)
    return tried, Subject(kernel, "sm_100a", "production")


def judge(tried: tuple[TriedSet, ...], subject: Subject) -> None:
    checks = check_sets(subject, tried)
    assert [c.verdict for c in checks if c.verdict.outcome is not Outcome.PASS] == []
    assert any(one.functions for one in tried)
    assert any(one.refused for one in tried)


@pytest.mark.long
def test_some_sets_of_the_megakernel_compile_or_are_refused_in_a_sentence(
    cuda_toolchain: Toolchain,
) -> None:
    judge(*try_megakernel(cuda_toolchain, few=True))


@pytest.mark.long
def test_every_set_of_the_megakernel_compiles_or_is_refused_in_a_sentence(
    cuda_toolchain: Toolchain,
) -> None:
    tried, subject = try_megakernel(cuda_toolchain, few=False)
    assert len(tried) >= 150
    judge(tried, subject)
