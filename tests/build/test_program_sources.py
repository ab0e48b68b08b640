"""A program of the user's is compiled again where a header that it includes can be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.build.libraries import extra_of_header
from kernelrig.build.program_sources import build_program, program_argv
from kernelrig.errors import BuildError
from kernelrig.model import Toolchain

NVCC = """#!/bin/sh
case "$*" in
*-idirafter,/headers*) while [ "$1" != -o ]; do shift; done; : > "$2";;
*) echo 'in.cuh:1:10: fatal error: curand_kernel.h: No such file or directory' >&2; exit 1;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    """Return a compiler that finds a header in /headers alone."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    none = Path()
    return Toolchain(
        tmp_path, nvcc, none, none, Path("g++"), "13.0", "", "", "", origin="wheels", reason=""
    )


def test_a_header_that_can_be_fetched_is_fetched_once_a_source_includes_it(
    tools: Toolchain, tmp_path: Path
) -> None:
    asked: list[str] = []

    def find(name: str) -> Path:
        asked.append(name)
        return Path("/headers")

    made = build_program(
        [Path("a.cu")], "sm_100a", tools, tmp_path, tmp_path, cwd=tmp_path, find_header=find
    )
    assert asked == ["curand_kernel.h"]
    assert made.path.is_file()


def test_a_header_that_nobody_has_is_named(tools: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="name the folder that has curand_kernel"):
        build_program([Path("a.cu")], "sm_100a", tools, tmp_path, tmp_path, cwd=tmp_path)


def test_the_first_error_comes_before_the_warnings_above_it(
    tools: Toolchain, tmp_path: Path
) -> None:
    said = ["in.h(7): warning #20012-D: no error, and long"] * 90 + ["a.cu(3): error: no such name"]
    lines = " ".join(f"'{line}'" for line in said)
    tools.nvcc.write_text(f"#!/bin/sh\nprintf '%s\\n' {lines} >&2; exit 1\n")
    with pytest.raises(BuildError, match=r"a\.cu does not compile") as caught:
        build_program([Path("a.cu")], "sm_100a", tools, tmp_path, tmp_path, cwd=tmp_path)
    first, then, *_ = caught.value.details.splitlines()
    assert first == "a.cu:3: error: no such name"
    assert then == "in.h:7: warning #20012-D: no error, and long"


def test_host_code_has_the_lines_that_addr2line_reads_right(tmp_path: Path) -> None:
    tools = Toolchain(
        *(tmp_path, Path("nvcc"), Path(), Path(), Path("g++"), "13.0", "", "", ""),
        origin="wheels",
        reason="",
    )
    argv = program_argv([Path("a.cu")], "sm_100a", tools, tmp_path, tmp_path / "program", ())
    assert argv[argv.index("-gdwarf-4") - 1] == "-Xcompiler"


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("curand_kernel.h", "curand"),
        ("curand_mtgp32.h", "curand"),
        ("mine/curand.h", ""),
        ("nvtx3/nvtx3.hpp", "nvtx"),
        ("a.h", ""),
    ],
)
def test_headers_of_the_toolkit_that_its_wheels_lack_are_known(name: str, extra: str) -> None:
    assert extra_of_header(name) == extra
