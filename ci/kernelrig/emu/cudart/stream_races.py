"""What is said of two pieces of a program's work that nothing orders (library/order.hpp)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelrig.emu.cudart.host_lines import HostLines
from kernelrig.emu.cudart.messages import RaceMessage, What, WorkMessage
from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.launch.severities import Severities
from kernelrig.emu.machine.state_spaces import Allocation
from kernelrig.emu.observe.global_accesses import STRONG_WRITE, WRITE

RACE, ORDER = "stream-race", "stream-order"
"""Rules: nothing orders them; or only what drivers usually do, or the kernels themselves."""
_HOST = (1 << 64) - 1
_STREAMS = {0: "the default stream", (1 << 64) - 2: "the thread's default stream"}
_CALLS = {
    What.COPY: "Memcpy",
    What.FILL: "Memset",
    What.ALLOCATION: "Malloc|MemAlloc",
    What.OTHER: "randGenerate",
    What.FREE: "Free|MemFree|HostUnregister|MemHostUnregister|DeviceReset",
}
_WORDS = {
    What.COPY: "a copy",
    What.FILL: "a fill",
    What.ALLOCATION: "an allocation",
    What.FREE: "a free",
    What.HOST_FUNCTION: "a host function",
    What.HOST_ACCESS: "the host",
    What.OTHER: "random numbers",
}


@dataclass(frozen=True, slots=True)
class StreamRace:
    """A finding: `rule`, its severity ("off" is none), the host's line of the second, a text."""

    rule: str
    severity: str
    place: str
    text: str


def stream_race(
    said: RaceMessage,
    lines: HostLines,
    launches: Sequence[LaunchRun],
    allocation: Allocation | None,
    severities: Severities,
) -> StreamRace:
    """Describe a race by the launches so far and the allocation that the bytes are in."""
    rule = ORDER if said.usual or said.strong else RACE
    default = "warning" if rule == ORDER else "error"
    severity: str = severities.by_rule.get(rule, default)
    if severity == "warning" and severities.strict:
        severity = "error"
    first, second = said.first, said.second
    where = _bytes(said, allocation)
    text = (
        f"{_named(second, lines, launches)} {_verb(second, said.uses[1])} {where}, which"
        f" {_named(first, lines, launches)}{_at(first, lines)} {_verb(first, said.uses[0])}:"
        f" {_why(said)}\n  fix: {_fix(said)}"
    )
    return StreamRace(rule, severity, lines.place(second.callers), f"{rule}: {text}")


def _bytes(said: RaceMessage, allocation: Allocation | None) -> str:
    if said.second.what is What.HOST_ACCESS and allocation is not None:
        return f"{allocation.name} + {said.address - allocation.address:#x}"
    size = f"{said.size} byte{'s' if said.size != 1 else ''}"
    if allocation is None:
        return f"host memory at {said.address:#x} ({size})"
    return f"{allocation.name} + {said.address - allocation.address:#x} ({size})"


def _named(work: WorkMessage, lines: HostLines, launches: Sequence[LaunchRun]) -> str:
    if work.what is What.KERNEL and 0 < work.launch <= len(launches):
        name = f"launch {work.launch}: {launches[work.launch - 1].kernel}"
    else:
        call = lines.call(work.callers, _CALLS[work.what]) if work.what in _CALLS else ""
        name = call or _WORDS.get(work.what, "a kernel")
    if work.stream == _HOST:
        return name
    graph = f" of graph launch {work.graph}" if work.graph else ""
    made = lines.stream(work.stream_made)
    return f"{name}{graph} on {_stream(work)}{f' ({made})' if made else ''}"


def _stream(work: WorkMessage) -> str:
    return _STREAMS.get(work.stream, f"stream {work.stream}")


def _at(work: WorkMessage, lines: HostLines) -> str:
    place = lines.place(work.callers)
    return f" ({place})" if place else ""


def _verb(work: WorkMessage, use: int) -> str:
    if work.what in (What.ALLOCATION, What.FREE):
        return "allocates" if work.what is What.ALLOCATION else "frees"
    return "writes" if use & (WRITE | STRONG_WRITE) else "reads"


def _why(said: RaceMessage) -> str:
    if said.strong:
        return (
            "no stream orders them; both kernels also go to other bytes by atomics or the like, and"
            " may order themselves by these"
        )
    if said.usual:
        return (
            "only what drivers usually do orders them: CUDA's documents have no rule for it, or a"
            " driver was seen not to keep it"
        )
    return "nothing orders them"


def _fix(said: RaceMessage) -> str:
    first, second = said.first, said.second
    if second.stream == _HOST:
        return f"cudaStreamSynchronize of {_stream(first)} before it, or an event behind the first"
    if first.graph and first.graph == second.graph:
        return "a dependency of the second node on the first"
    if first.stream == second.stream and second.what is What.KERNEL and not second.graph:
        return "griddepcontrol.wait (cudaGridDependencySynchronize) before the second's accesses"
    return (
        f"cudaEventRecord on {_stream(first)} behind the first, and cudaStreamWaitEvent of"
        f" {_stream(second)} for that event before the second"
    )
