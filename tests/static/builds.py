"""Builds and subjects made by hand, for what needs no compiler."""

from __future__ import annotations

from pathlib import Path

from kernelrig.model import Budget, Build, FunctionResources, Kernel, Variant
from kernelrig.static import Subject

FUNCTION = FunctionResources("gemm", 120, 0, 0, 0, 512, 1)


def made_build(
    folder: Path, program: str, *functions: FunctionResources, arch: str = "sm_100a"
) -> Build:
    """Return a build whose program is that script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program").write_text(program)
    (folder / "program").chmod(0o755)
    return Build(
        kernel="demo",
        arch=arch,
        variant="production",
        key="aabbccddeeff0011",
        folder=folder,
        program="program",
        command=("nvcc",),
        toolchain_version="nvcc 13.0.88",
        resources=functions or (FUNCTION,),
        glibc="2.34",
        min_driver="580",
        inputs={},
        files={},
        compile_s=1.0,
    )


def made_subject(budget: Budget | None = None, *, arch: str = "sm_100a") -> Subject:
    kernel = Kernel(
        name="demo",
        sources={arch: "demo.cu"},
        variants={"production": Variant("production", "program")},
        kernel_regex="^gemm$",
        budgets={arch: {"production": budget}} if budget else {},
    )
    return Subject(kernel, arch, "production")
