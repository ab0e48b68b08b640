"""A kernel of ours with one thing broken, compiled for the GPU alone, as `static` reads it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.model import FunctionResources, Kernel, Toolchain
from kernelrig.sass import Module, control_flow, parse_sass
from kernelrig.static import Subject
from kernelrig.static.role_graph import RoleGraph, part_roles

from tests.kernel.bad_kernels import compile_device_code
from tests.toolchain_fixture import REPOSITORY

ENTRY = "patch_embed_gemm"
ARCH = "sm_100a"
SOURCE = "kernel/sm100a_patch_embed_fp8.cu"

Edit = tuple[str, str, str]
"""(file, old text, new text): the old text stands there exactly once."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What nvcc and nvdisasm made of it."""

    subject: Subject
    module: Module
    resources: tuple[FunctionResources, ...]

    @property
    def graph(self) -> RoleGraph:
        return part_roles(control_flow(self.module, ENTRY), self.subject.roles)


def kernel() -> Kernel:
    return config.load_kernels(REPOSITORY)["patch_embed"]


def copy_kernels(root: Path, edits: Iterable[Edit] = ()) -> Path:
    """Copy the kernel folder into `root`, break it, and return `root`."""
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    for file, old, new in edits:
        path = root / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        path.write_text(text.replace(old, new))
    return root


def compile_kernel(
    root: Path, tools: Toolchain, edits: Iterable[Edit] = (), arch: str = ARCH, **defines: int
) -> Compiled:
    """Compile a broken copy in `root`; `defines` are set without the rules being told of them."""
    copy_kernels(root, edits)
    known = kernel()
    way = known.variants["production"]
    variants = {**known.variants, "production": replace(way, defines={**way.defines, **defines})}
    request = Request(replace(known, variants=variants), arch, "production")
    code = compile_device_code(request, root, tools)
    subject = Subject(known, arch, "production")
    return Compiled(subject, parse_sass(code.sass), parse_ptxas_log(code.log))
