"""What came of a set of tunables that was compiled to see whether it can be."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.model.build import FunctionResources
from kernelrig.model.verdict import SCHEMA


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
