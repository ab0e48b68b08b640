"""Real disassembly to read: probes compiled once a session, by the toolchain of the builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelrig.model import Toolchain
from kernelrig.sass import Flow, Module, control_flow, parse_sass

from tests.compilations import OUT, compile_once, disassemble

PROBES = Path("tests/sass/probes")


@dataclass(frozen=True, slots=True)
class Probe:
    """A compiled source: its cubin, and what `nvdisasm -c -gi` says of it."""

    cubin: Path
    text: str
    module: Module
    nvdisasm: Path

    def flow(self, function: str) -> Flow:
        return control_flow(self.module, function)

    def disassemble(self, *words: str) -> str:
        return disassemble(self.cubin, self.nvdisasm, *words)


Compile = Callable[..., Probe]
"""(source relative to the repository, arch, *flags of nvcc) -> the probe."""


@pytest.fixture(scope="session")
def compile_sass(cuda_toolchain: Toolchain) -> Compile:
    made: dict[tuple[str, ...], Probe] = {}

    def compile_source(source: str, arch: str, *flags: str) -> Probe:
        if (key := (source, arch, *flags)) not in made:
            made[key] = _compile(cuda_toolchain, source, arch, flags)
        return made[key]

    return compile_source


def _compile(tools: Toolchain, source: str, arch: str, flags: tuple[str, ...]) -> Probe:
    # As kernelrig.build does it: no path of this machine gets into the line table.
    path = f"PATH={tools.root / 'bin'}:{tools.host_compiler.parent}:/usr/bin:/bin"
    env = ("env", "-i", path, "LC_ALL=C", "PWD=/proc/self/cwd")
    argv = (*env, str(tools.nvcc), "-std=c++17", "-O3")
    target = f"arch={arch.replace('sm_', 'compute_')},code={arch}"
    how = ("-lineinfo", "-gencode", target, "-ccbin", str(tools.host_compiler), *flags)
    to_cubin = ("-cubin", "-o", f"{OUT}/probe.cubin", source)
    cubin = compile_once((*argv, *how, *to_cubin), tools, source=source) / "probe.cubin"
    listed = disassemble(cubin, tools.nvdisasm, "-c", "-gi")
    return Probe(cubin, listed, parse_sass(listed), tools.nvdisasm)


@pytest.fixture(scope="session")
def roles_100a(compile_sass: Compile) -> Probe:
    return compile_sass(f"{PROBES}/roles_sm100a.cu", "sm_100a")


@pytest.fixture(scope="session")
def guarded_100a(compile_sass: Compile) -> Probe:
    return compile_sass(
        f"{PROBES}/roles_sm100a.cu", "sm_100a", "-Xptxas", "--g-tensor-memory-access-check"
    )


@pytest.fixture(scope="session")
def roles_90a(compile_sass: Compile) -> Probe:
    return compile_sass(f"{PROBES}/roles_sm90a.cu", "sm_90a")


@pytest.fixture(scope="session")
def odd_100a(compile_sass: Compile) -> Probe:
    return compile_sass(f"{PROBES}/odd_code.cu", "sm_100a")


@pytest.fixture(scope="session")
def odd_90a(compile_sass: Compile) -> Probe:
    return compile_sass(f"{PROBES}/odd_code.cu", "sm_90a", "-DPRINTS")
