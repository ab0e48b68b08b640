"""Real PTX to read, and what ptxas makes of PTX: nvcc and ptxas of the builds' toolchain."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.command import compile_argv
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.compilations import OUT, compile_once
from tests.toolchain_fixture import REPOSITORY

CompilePtx = Callable[..., str]
"""(source relative to the repository, arch, *flags of nvcc) -> its PTX."""
OwnPtx = Callable[[str, str, str], str]
"""(kernel, arch, variant) -> its PTX, by the command of its build without the harness."""
Assemble = Callable[[str, str], str]
"""(PTX, arch) -> the machine code that ptxas makes of it, encoding and all."""


@pytest.fixture(scope="session")
def compile_ptx(cuda_toolchain: Toolchain) -> CompilePtx:
    def compile_source(source: str, arch: str, *flags: str) -> str:
        return ptx_of(cuda_toolchain, source, arch, *flags)

    return compile_source


@pytest.fixture(scope="session")
def own_ptx(cuda_toolchain: Toolchain) -> OwnPtx:
    kernels = config.load_kernels(REPOSITORY)

    def build(kernel: str, arch: str, variant: str) -> str:
        request = Request(kernels[kernel], arch, variant)
        argv = compile_argv(request, cuda_toolchain, REPOSITORY)
        only_ptx = ("-DKERNELRIG_DEVICE_ONLY", "-ptx", "-o", f"{OUT}/kernel.ptx")
        folder = compile_once([*argv, *only_ptx], cuda_toolchain, source=request.source)
        return (folder / "kernel.ptx").read_text()

    return build


@pytest.fixture(scope="session")
def assemble(cuda_toolchain: Toolchain) -> Assemble:
    def assemble_text(ptx: str, arch: str) -> str:
        with tempfile.TemporaryDirectory(prefix="kernelrig-") as folder:
            text, cubin = Path(folder) / "text.ptx", Path(folder) / "text.cubin"
            text.write_text(ptx)
            ptxas = cuda_toolchain.root / "bin/ptxas"
            done = run_process([ptxas, f"-arch={arch}", text, "-o", cubin])
            assert done.exit_code == 0, done.stderr
            done = run_process([cuda_toolchain.nvdisasm, "-c", "-hex", cubin])
            assert done.exit_code == 0, done.stderr
            return done.stdout

    return assemble_text


def ptx_of(tools: Toolchain, source: str, arch: str, *flags: str) -> str:
    # As kernelrig.build does it: no path of this machine gets into the line table.
    path = f"PATH={tools.root / 'bin'}:{tools.host_compiler.parent}:/usr/bin:/bin"
    argv: list[str | Path] = ["env", "-i", path, "LC_ALL=C", "PWD=/proc/self/cwd", tools.nvcc]
    virtual = arch.replace("sm_", "compute_")
    argv += ["-std=c++17", "-O3", "-ccbin", tools.host_compiler]
    argv += ["-gencode", f"arch={virtual},code={virtual}"]
    argv += [*flags, "-ptx", "-o", f"{OUT}/probe.ptx", source]
    return (compile_once(argv, tools, source=source) / "probe.ptx").read_text()
