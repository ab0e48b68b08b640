"""A launch of a program: run under each schedule, and the program given the memory of the first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.cudart.device_memory import HOST_MEMORY, PAGE, Change, DeviceMemory, SharedArena
from kernelrig.emu.cudart.messages import LaunchMessage, Triple
from kernelrig.emu.cudart.modules import LoadedFunction
from kernelrig.emu.launch.estimate import Watch
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import AS_TABLED, emulate, schedules_of
from kernelrig.emu.launch.file import LaunchEntry
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.launch.severities import Severities
from kernelrig.emu.launch.workers import StandingWorkers
from kernelrig.emu.machine.addressing import NO_WINDOW, NULL_POINTER
from kernelrig.emu.machine.device_heap import DEVICE_HEAP
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import Geometry, Machine
from kernelrig.emu.native.core_observer import each_of
from kernelrig.emu.observe.global_accesses import NO_RANGES, GlobalAccesses, Ranges, joined
from kernelrig.errors import ConfigError, Interrupted

Standing = StandingWorkers[Any, Any]
"""The processes of a program's short launches."""
MOST_RANGES = 1 << 18
"""Of what a launch accessed: the order of the rest is not judged."""
SUCCESS, LAUNCH_TIMEOUT, LAUNCH_FAILURE = 0, 702, 719
ILLEGAL_ADDRESS, ASSERTION, MISALIGNED = 700, 710, 716
_GLOBAL = "of global memory:"
_NOT_RUN = "a CTA that was not run (--ctas, --clusters) may be the one to write it"
SHORT = 1 << 15
"""Warp-instructions of all schedules of a launch: to fork a process takes longer than these."""
_FATAL = (HOST_MEMORY, NULL_POINTER, NO_WINDOW)
"""Objects of accesses that no GPU survives; those just behind an allocation it usually does."""


@dataclass(frozen=True, slots=True)
class HowToRun:
    """Schedules and observers; `first` is the schedule whose memory is kept.

    Launches of another kernel than those that `kernel` finds, or of none of the numbers `launches`,
    are run once and unobserved: those that come later need what they write. Of each grid the first
    `ctas` CTAs are run, or as many as `clusters` have; 0 is all.
    """

    first: Schedule
    schedules: int
    observe: tuple[str, ...]
    jobs: int = 0
    kernel: str = ""
    launches: tuple[int, ...] = ()
    ctas: int = 0
    clusters: int = 0
    severities: Severities = AS_TABLED

    def observes(self, number: int, name: str) -> bool:
        """Whether a launch is one of those that were asked for."""
        named = not self.kernel or re.search(self.kernel, name) is not None
        return named and (not self.launches or number in self.launches)

    def after(self, instructions: int | None) -> HowToRun:
        """Return how to run a launch of whose kernel and grid one had so many warp-instructions,
        None for the first: schedules of a short one run in one process, one after the other.
        """
        return self if instructions is None or instructions >= SHORT else replace(self, jobs=1)

    def part_of(self, geometry: Geometry) -> int:
        """Return how many CTAs of a grid are run, 0 for all: a cooperative one waits for all."""
        if geometry.grid_workspace:
            return 0
        asked = self.clusters * geometry.cluster_ctas or self.ctas
        asked = -(-asked // geometry.cluster_ctas) * geometry.cluster_ctas
        return asked if asked < geometry.ctas else 0


@dataclass(frozen=True, slots=True)
class LaunchRun:
    """A launch that was emulated. `number` counts the program's launches from 1, `place` is the
    host code's line.

    `differing` names what some schedules left otherwise than the first; `error` is what the program
    is told by its next CUDA call.
    """

    number: int
    place: str
    kernel: str
    grid: Triple
    block: Triple
    cluster: Triple
    findings: tuple[Finding, ...]
    instructions: int
    wall_s: float
    stopped: bool
    error: int
    differing: tuple[str, ...]
    printed: bytes = b""
    complained: bytes = b""
    observed: bool = True
    ctas: int = 0  # that were run, 0 for the whole grid


@dataclass(frozen=True, slots=True)
class SeenLaunch:
    """What a witness is told of a launch that has been emulated, before its changes are made.

    `accessed` says of each page of device memory whether some schedule read or wrote it, `changes`
    are those of the first one, and `findings` those of all. `incomplete`: of a launch before, a
    part was run.
    """

    number: int
    place: str
    function: LoadedFunction
    asked: LaunchMessage
    ctas: int
    memory: DeviceMemory
    accessed: NDArray[np.bool_]
    changes: list[Change]
    findings: tuple[Finding, ...]
    incomplete: bool


@dataclass(slots=True)
class Accessed:
    """What the schedules of a launch accessed of device memory; `whole`: all of it is here."""

    ranges: Ranges = field(default_factory=NO_RANGES.copy)
    whole: bool = True


class Witness(Protocol):
    """Who is told of each observed launch: what it began with, and that its changes are made."""

    def seen(self, launch: SeenLaunch) -> None: ...

    def applied(self, launch: SeenLaunch) -> None: ...


@dataclass(frozen=True, slots=True)
class _Left:
    """What a schedule left in device memory: the bytes of the first one, of others their hashes.

    `digests` has the bytes and the hash of each page, by its start.
    """

    changes: list[Change]
    digests: dict[int, tuple[int, bytes]]
    accessed: NDArray[np.bool_] | None
    error: int
    printed: bytes
    complained: bytes
    ranges: Ranges
    whole: bool


def run_launch(
    number: int,
    place: str,
    function: LoadedFunction,
    asked: LaunchMessage,
    memory: DeviceMemory,
    how: HowToRun,
    say: Callable[[str], None],
    witness: Witness | None = None,
    *,
    incomplete: bool = False,
    accessed: Accessed | None = None,
    standing: Standing | None = None,
) -> LaunchRun:
    """Emulate a launch and put what the first schedule left into device memory.

    A `witness` is told of it if it is observed. `incomplete`: of a launch before, a part was run.
    `accessed` is filled, where it is given. Of `standing` workers one runs all schedules, where
    `how` lets one process do so: to fork it takes longer than a short launch.

    Raises ConfigError for a launch that cannot be emulated, CiError if a process died.
    """
    workspace = memory.grid_workspace if asked.cooperative else 0
    geometry = Geometry(asked.grid, asked.block, asked.cluster, workspace)
    arena = memory.arena
    arena.fill(function.compiled.params, asked.params)
    try:
        kernel = function.compiled.kernel(geometry, arena, {}, asked.dynamic_shared_bytes)
    except Unsupported as e:
        raise ConfigError(f"launch {number} of {function.name}: {e}") from e
    name = function.entry.name
    entry = LaunchEntry(2, name, asked.grid, asked.block, {}, (), cluster=asked.cluster)
    observed, ctas = how.observes(number, function.name), how.part_of(geometry)
    first = replace(how.first, ctas=ctas)
    if asked.cooperative:
        first = replace(first, resident_ctas=geometry.ctas)
    alike = (
        id(function), geometry, asked.dynamic_shared_bytes, memory.layout, memory.heap_bytes,
        observed, witness is None, accessed is None,
    )  # fmt: skip
    try:
        outcome = emulate(
            Loaded(entry, Path(), kernel),
            schedules_of(first, how.schedules if observed else 1),
            how.observe if observed else (),
            jobs=how.jobs,
            watch=Watch(say),
            keep=partial(_left, accessed=witness is not None),
            also=() if accessed is None else (GlobalAccesses,),
            severities=how.severities,
            kept=partial(standing.of, alike) if standing and how.jobs == 1 else None,
        )
    except Interrupted as e:
        at = f"{place}: " if place else ""
        raise Interrupted(
            f"{e} while launch {number} ({at}{function.name}) was emulated; if the kernel hangs,"
            " `--max-steps 1000000` ends it early and names the line"
        ) from e
    findings = outcome.findings
    if (incomplete or ctas) and not how.severities.strict:
        findings = excused(findings)
    left = [kept for kept in outcome.kept if isinstance(kept, _Left)]
    if accessed is not None:
        accessed.ranges = joined([one.ranges for one in left])
        accessed.whole = all(one.whole for one in left)
    differing = _differing(arena, left)
    told = witness if observed else None
    seen = SeenLaunch(
        number, place, function, asked, ctas, memory, _accessed(arena, left), left[0].changes,
        findings, incomplete,
    )  # fmt: skip
    if told:
        told.seen(seen)
    memory.apply(left[0].changes)
    if told:
        told.applied(seen)
    return LaunchRun(
        number,
        place,
        function.name,
        asked.grid,
        asked.block,
        asked.cluster,
        findings,
        outcome.instructions,
        sum(outcome.wall_s),
        bool(outcome.stopped),
        left[0].error,
        differing,
        left[0].printed,
        left[0].complained,
        observed,
        ctas,
    )


def excused(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings of a program of whose grids parts are run: what nothing wrote may be theirs
    to write who were not run, and is no error.
    """
    return tuple(
        replace(f, severity="warning", message=f"{f.message}; {_NOT_RUN}")
        if f.kind == "uninitialised" and f.severity == "error" and _GLOBAL in f.message
        else f
        for f in findings
    )


def _accessed(arena: SharedArena, left: Sequence[_Left]) -> NDArray[np.bool_]:
    """Say of each page whether a schedule accessed it."""
    pages = np.zeros(len(arena) // PAGE, np.bool_)
    for one in left:
        if one.accessed is not None:
            pages |= one.accessed
    return pages


def _left(machine: Machine, *, accessed: bool) -> _Left:
    arena = machine.memory.global_
    assert isinstance(arena, SharedArena)
    touched = arena.accessed() if accessed else None
    seen = next((o for o in each_of(machine.hooks) if isinstance(o, GlobalAccesses)), None)
    ranges, whole = seen.ranges(machine, MOST_RANGES) if seen else (NO_RANGES, True)
    changes = arena.changes()
    pages = {
        change.start + at: change.bytes[at : at + PAGE].tobytes()
        for change in changes
        for at in range(0, len(change.bytes), PAGE)
    }
    digests = {at: (len(page), hashlib.sha256(page).digest()) for at, page in pages.items()}
    return _Left(
        [] if machine.findings.schedule else changes,
        digests,
        touched,
        _error(machine),
        bytes(machine.output.printed),
        bytes(machine.output.complained),
        ranges,
        whole,
    )


def _error(machine: Machine) -> int:
    """Return the CUDA error that a GPU would give for what the schedule did."""
    found = machine.findings.all
    if machine.output.stopped_by:
        return ASSERTION if machine.output.stopped_by == "assertion" else LAUNCH_FAILURE
    if any(f.kind == "out-of-bounds" and set(f.objects) & set(_FATAL) for f in found):
        return ILLEGAL_ADDRESS
    if any(f.kind == "misaligned" for f in found):
        return MISALIGNED
    if machine.stopped or any(f.kind in ("deadlock", "step-limit") for f in found):
        return LAUNCH_TIMEOUT
    return SUCCESS


def _differing(before: SharedArena, left: Sequence[_Left]) -> tuple[str, ...]:
    """Return the names of allocations of which schedules left different bytes."""
    names: dict[str, None] = {}
    sizes = {start: size for one in left for start, (size, _) in one.digests.items()}
    for start, size in sorted(sizes.items()):
        held = (size, hashlib.sha256(before.bytes[start : start + size].tobytes()).digest())
        if len({one.digests.get(start, held) for one in left}) > 1:
            found = before.find(start)
            if found is None or found.name != DEVICE_HEAP:  # its blocks lie as malloc was called
                names[found.name if found else "freed memory"] = None
    return tuple(names)
