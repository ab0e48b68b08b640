"""The tools that compile, and what they made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ci.model.verdict import SCHEMA


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The CUDA tools chosen, and why. `root` is a CUDA_HOME; versions as the tools print them."""

    root: Path
    nvcc: Path
    cuobjdump: Path
    nvdisasm: Path
    host_compiler: Path
    version: str
    cuobjdump_version: str
    nvdisasm_version: str
    host_compiler_version: str
    origin: Literal["wheels", "system"]
    reason: str


@dataclass(frozen=True, slots=True)
class FunctionResources:
    """What ptxas gave one kernel function; bytes are per thread, shared memory per CTA."""

    name: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Build:
    """A finished entry of artifacts/builds; `files` maps each file's name to its SHA-256."""

    kernel: str
    arch: str
    variant: str
    key: str
    folder: Path
    program: str
    command: tuple[str, ...]
    toolchain_version: str
    resources: tuple[FunctionResources, ...]
    glibc: str
    min_driver: str
    inputs: dict[str, str]
    files: dict[str, str]
    compile_s: float
    reused: bool = False
    schema: int = SCHEMA

    @property
    def binary(self) -> Path:
        return self.folder / self.program
