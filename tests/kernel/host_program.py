"""A C++ program of tests/data, compiled against the headers of kernel/ without CUDA."""

from __future__ import annotations

from pathlib import Path

from kernelrig.proc import run_process

KERNEL = Path(__file__).parents[2] / "kernel"


def compile_for_host(source: Path, program: Path) -> Path:
    """Compile `source` into `program` and return it; a warning is an error."""
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")
    built = run_process(["g++", *flags, "-o", program, "-I", KERNEL, source])
    assert built.exit_code == 0, built.stderr
    return program
