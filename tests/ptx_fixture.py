"""Real PTX to read, and what ptxas makes of PTX: nvcc and ptxas of the builds' toolchain."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request, build_all
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.toolchain_fixture import REPOSITORY

CompilePtx = Callable[..., str]
"""(source relative to the repository, arch, *flags of nvcc) -> its PTX."""
OwnPtx = Callable[[str, str, str], str]
"""(kernel, arch, variant) -> the PTX of its build, from the repository's own store."""
Assemble = Callable[[str, str], str]
"""(PTX, arch) -> the machine code that ptxas makes of it, encoding and all."""


@pytest.fixture(scope="session")
def compile_ptx(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> CompilePtx:
    made: dict[tuple[str, ...], str] = {}

    def compile_once(source: str, arch: str, *flags: str) -> str:
        if (key := (source, arch, *flags)) not in made:
            out = tmp_path_factory.mktemp("ptx") / "probe.ptx"
            made[key] = _compile(cuda_toolchain, source, arch, flags, out)
        return made[key]

    return compile_once


@pytest.fixture(scope="session")
def own_ptx(cuda_toolchain: Toolchain) -> OwnPtx:
    kernels = config.load_kernels(REPOSITORY)

    def build(kernel: str, arch: str, variant: str) -> str:
        request = Request(kernels[kernel], arch, variant)
        (made,) = build_all(REPOSITORY, [request], cuda_toolchain)
        return (made.folder / made.program).with_suffix(".ptx").read_text()

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
            told = run_process([cuda_toolchain.nvdisasm, "-c", "-hex", cubin])
            assert told.exit_code == 0, told.stderr
            return told.stdout

    return assemble_text


def _compile(tools: Toolchain, source: str, arch: str, flags: tuple[str, ...], out: Path) -> str:
    # As kernelrig.build does it: no path of this machine gets into the line table.
    path = f"PATH={tools.root / 'bin'}:{tools.host_compiler.parent}:/usr/bin:/bin"
    argv: list[str | Path] = ["env", "-i", path, "LC_ALL=C", "PWD=/proc/self/cwd", tools.nvcc]
    virtual = arch.replace("sm_", "compute_")
    argv += ["-std=c++17", "-O3", "-ccbin", tools.host_compiler]
    argv += ["-gencode", f"arch={virtual},code={virtual}"]
    done = run_process([*argv, *flags, "-ptx", "-o", out, source], cwd=REPOSITORY)
    assert done.exit_code == 0, done.stderr
    return out.read_text()
