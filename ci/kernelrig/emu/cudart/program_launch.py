"""A launch of a program: run under each schedule, and the program given the memory of the first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.emu.cudart.device_memory import HOST_MEMORY, Change, DeviceMemory, SharedArena
from kernelrig.emu.cudart.messages import LaunchMessage, Triple
from kernelrig.emu.cudart.modules import LoadedFunction
from kernelrig.emu.launch.estimate import Watch
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.file import LaunchEntry
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.machine.addressing import NO_WINDOW, NULL_POINTER
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import Geometry, Machine
from kernelrig.errors import ConfigError

SUCCESS, LAUNCH_TIMEOUT, LAUNCH_FAILURE = 0, 702, 719
ILLEGAL_ADDRESS, ASSERTION, MISALIGNED = 700, 710, 716
_FATAL = (HOST_MEMORY, NULL_POINTER, NO_WINDOW)
"""Objects of accesses that no GPU survives; those just behind an allocation it usually does."""


@dataclass(frozen=True, slots=True)
class HowToRun:
    """Schedules and observers of every launch; `first` is the schedule whose memory is kept."""

    first: Schedule
    schedules: int
    observe: tuple[str, ...]
    jobs: int = 0


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


@dataclass(frozen=True, slots=True)
class _Left:
    """What a schedule left in device memory: the bytes of the first one, of others their hashes."""

    changes: list[Change]
    digests: dict[int, bytes]
    error: int
    printed: bytes
    complained: bytes


def run_launch(
    number: int,
    place: str,
    function: LoadedFunction,
    asked: LaunchMessage,
    memory: DeviceMemory,
    how: HowToRun,
    say: Callable[[str], None],
) -> LaunchRun:
    """Emulate a launch and put what the first schedule left into device memory.

    Raises ConfigError for a launch that cannot be emulated, CiError if a process died.
    """
    arena = memory.arena
    arena.fill(function.compiled.params, asked.params)
    geometry = Geometry(asked.grid, asked.block, asked.cluster)
    try:
        kernel = function.compiled.kernel(geometry, arena, {}, asked.dynamic_shared_bytes)
    except Unsupported as e:
        raise ConfigError(f"launch {number} of {function.name}: {e}") from e
    name = function.entry.name
    entry = LaunchEntry(2, name, asked.grid, asked.block, {}, (), cluster=asked.cluster)
    outcome = emulate(
        Loaded(entry, Path(), kernel),
        schedules_of(how.first, how.schedules),
        how.observe,
        jobs=how.jobs,
        watch=Watch(say),
        keep=_left,
    )
    left = [kept for kept in outcome.kept if isinstance(kept, _Left)]
    memory.apply(left[0].changes)
    return LaunchRun(
        number,
        place,
        function.name,
        asked.grid,
        asked.block,
        asked.cluster,
        outcome.findings,
        outcome.instructions,
        sum(outcome.wall_s),
        bool(outcome.stopped),
        left[0].error,
        _differing(memory, left),
        left[0].printed,
        left[0].complained,
    )


def _left(machine: Machine) -> _Left:
    arena = machine.memory.global_
    assert isinstance(arena, SharedArena)
    changes = arena.changes()
    digests = {c.start: hashlib.sha256(c.bytes.tobytes()).digest() for c in changes}
    return _Left(
        [] if machine.findings.schedule else changes,
        digests,
        _error(machine),
        bytes(machine.output.printed),
        bytes(machine.output.complained),
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


def _differing(memory: DeviceMemory, left: Sequence[_Left]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    arena = memory.arena
    for other in left[1:]:
        for start in sorted(left[0].digests.keys() | other.digests.keys()):
            if left[0].digests.get(start) != other.digests.get(start):
                found = arena.find(start)
                names[found.name if found else "freed memory"] = None
    return tuple(names)
