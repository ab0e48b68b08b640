"""A program of anybody's that ran with its kernels emulated: what `run` answers."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.model.finding import Finding


@dataclass(frozen=True, slots=True)
class LaunchFinding:
    """A finding of a launch; `severity` is error or warning."""

    severity: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class EmulatedLaunch:
    """A launch of the program, `number` from 1. `place` is the host code's line.

    `observed`: under the observers and all schedules; others ran once. `ctas` is how many of the
    grid's were run, 0 for all. `differing` names allocations that schedules left otherwise than the
    first one did. `stopped`: some schedule did not reach the end.
    """

    number: int
    place: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    observed: bool
    ctas: int
    stopped: bool
    instructions: int
    findings: tuple[LaunchFinding, ...]
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostNote:
    """Something that the host code did: a failed call, a copy of bytes that nothing wrote."""

    kind: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class EmulatedProgram:
    """`exit_code` is the program's own, -N where signal N ended it."""

    gpu: str
    schedules: int
    exit_code: int
    launches: tuple[EmulatedLaunch, ...]
    notes: tuple[HostNote, ...]
