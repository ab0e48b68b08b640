"""The CUDA toolchain, and the builds made with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kernelrig.model.configuration import Stage
from kernelrig.model.verdict import SCHEMA


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The CUDA tools chosen, and why. `root` is a CUDA_HOME; versions as the tools print them.

    `extras` has the include folder of each extra that was requested.
    """

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
    extras: dict[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FunctionResources:
    """What ptxas allocated for one function; bytes are per thread, shared memory per CTA."""

    name: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Build:
    """A finished entry of artifacts/builds; `files` maps each file's name to its SHA-256.

    `resources` has the kernel that `kernel_regex` names first; empty for a CPU program.
    """

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

    @property
    def spill_bytes(self) -> int | None:
        """Bytes that the kernel and its callees spill per thread, stores and loads; None for a CPU
        program.
        """
        if not self.resources:
            return None
        # A function that is called and not launched has no registers of its own. What else has
        # registers is another kernel, such as those of the harness.
        callees = (f for f in self.resources[1:] if not f.registers)
        return sum(f.spill_store_bytes + f.spill_load_bytes for f in (self.resources[0], *callees))


@dataclass(frozen=True, slots=True)
class Builds:
    """The builds of one run: its `own`, those of the variants that stages name, the self-test."""

    own: Build
    variants: dict[str, Build] = field(default_factory=dict)
    selftest: Build | None = None

    def __iter__(self) -> Iterator[Build]:
        yield from self.by_variant.values()
        if self.selftest is not None:
            yield self.selftest

    @property
    def by_variant(self) -> dict[str, Build]:
        """The kernel's builds by the names that `variant_for` returns: "" is the run's own."""
        return {"": self.own, **self.variants}

    def variant_for(self, stage: Stage) -> str:
        """Return the variant that the stage runs in place of the run's own, empty for the own.

        A stage that names the run's own variant uses the run's own build.
        """
        return "" if stage.variant == self.own.variant else stage.variant

    def build_for(self, stage: Stage) -> Build:
        return self.by_variant[self.variant_for(stage)]


@dataclass(frozen=True, slots=True)
class TriedSet:
    """A set of tunables that was compiled to see whether it can be.

    Either `functions` (it compiles), `refused` (messages of our static asserts), or `complaint`
    (any other compiler error).
    """

    values: dict[str, int]
    functions: tuple[FunctionResources, ...] = ()
    local_instructions: int = 0
    refused: tuple[str, ...] = ()
    complaint: str = ""
    seconds: float = 0.0
    reused: bool = False
    schema: int = SCHEMA

    @property
    def unexpected(self) -> str:
        """Return the complaint as the result of the set."""
        return f"a compiler error that is not a static assert of the kernel: {self.complaint}"
