"""The tools that compile, and what they made."""

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

    `extras` has the folder of headers of each extra that was asked for.
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


@dataclass(frozen=True, slots=True)
class Builds:
    """The builds of one run: its `own`, those that stages name by variant, the self-test's."""

    own: Build
    variants: dict[str, Build] = field(default_factory=dict)
    selftest: Build | None = None

    def __iter__(self) -> Iterator[Build]:
        yield from self.by_variant.values()
        if self.selftest is not None:
            yield self.selftest

    @property
    def by_variant(self) -> dict[str, Build]:
        """The kernel's builds under the names that `variant_for` gives them: "" is the run's."""
        return {"": self.own, **self.variants}

    def variant_for(self, stage: Stage) -> str:
        """Return the variant that the stage runs in place of the run's own, empty if it does not.

        A stage may name the very variant that the whole run is of: there is one build of it.
        """
        return "" if stage.variant == self.own.variant else stage.variant

    def build_for(self, stage: Stage) -> Build:
        return self.by_variant[self.variant_for(stage)]


@dataclass(frozen=True, slots=True)
class TriedSet:
    """Either `functions` (it compiles), `refused` (our static asserts' sentences), or `complaint`:
    what the compiler said that we did not foresee.
    """

    values: dict[str, int]
    functions: tuple[FunctionResources, ...] = ()
    local_instructions: int = 0
    refused: tuple[str, ...] = ()
    complaint: str = ""
    seconds: float = 0.0
    reused: bool = False
    schema: int = SCHEMA
