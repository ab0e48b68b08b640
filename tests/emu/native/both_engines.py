"""Runs a kernel on both engines and compares all that a run leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Kernel
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from kernelrig.emu.launch.execution import Schedule, ScheduleRun, run
from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barrier
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.core_scheduler import CoreScheduler
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.registry import OBSERVERS as BY_NAME

OBSERVERS: tuple[Callable[[], Hooks], ...] = (*BY_NAME.values(), LastWriter)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any argument of an event
    """Return what is the same of an argument on both engines."""
    match value:
        case WarpBatch():
            lanes = value.mask_of(None)
            return tuple((int(w), m.tobytes()) for w, m in zip(value.warps, lanes, strict=True))
        case Op():
            return (value.name, value.warp, value.lane, value.at)
        case Barrier():
            return (value.slot, value.offset, value.phase)
        case np.ndarray():
            return None  # its shape is the engine's; the observers' findings compare its values
        case list() | tuple():
            return tuple(_plain(v) for v in value)
        case None:
            return None  # a mask of all lanes, which may be an array on the other engine
        case slice() | str() | int() | float() | bool():
            return repr(value)
    return "machine" if isinstance(value, Machine) else type(value).__name__


class Recorder(Hooks):
    """All events in their order."""

    def __init__(self) -> None:
        self.events: list[Any] = []


def _recording(name: str) -> Callable[..., None]:
    def event(self: Recorder, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        said = tuple(_plain(a) for a in (*arguments, *named.values()))
        self.events.append((name, said))

    return event


for _name in [n for n in vars(Hooks) if not n.startswith("_")]:
    setattr(Recorder, _name, _recording(_name))


def run_both(
    kernel: Kernel,
    schedule: Schedule,
    observers: Sequence[Callable[[], Hooks]] = OBSERVERS,
    *,
    recorded: bool = True,
) -> tuple[ScheduleRun, ScheduleRun]:
    """Run `kernel` on both engines and compare: findings, memory, events, times, draws.

    `recorded`: compare events too. Their recorder is an observer of Python, which the core leaves
    accesses and operations to.
    """
    runs, events = [], []
    for engine in (NUMPY, NATIVE):
        recorder = Recorder()
        made = [make() for make in observers]
        runs.append(run(kernel, replace(schedule, engine=engine), [*made, *[recorder] * recorded]))
        events.append(recorder.events)
    one, other = runs
    for number, (left, right) in enumerate(zip(*events, strict=False)):
        assert left == right, f"event {number}: {left} is not {right}"
    assert len(events[0]) == len(events[1])
    for left, right in zip(one.findings, other.findings, strict=False):
        assert _fields(left) == _fields(right)
    assert len(one.findings) == len(other.findings)
    assert one.steps == other.steps
    assert one.counts == other.counts
    assert one.machine.counts == other.machine.counts
    assert one.machine.time == other.machine.time
    assert one.machine.stopped == other.machine.stopped
    assert one.machine.rng.getstate() == other.machine.rng.getstate()
    for space in ("global_", "shared", "local"):
        arenas = [getattr(r.machine.memory, space) for r in runs]
        assert np.array_equal(*(a.bytes for a in arenas)), space
        assert np.array_equal(*(a.written for a in arenas)), f"marks of {space}"
    return one, other


def _fields(value: Any) -> Any:  # noqa: ANN401 - a finding, or a part of one
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _fields(getattr(value, f.name)) for f in fields(value)}
    return value


@contextmanager
def counted_steps() -> Iterator[dict[str, int]]:
    """Count the instructions that the core leaves to Python, by mnemonic: as steps, as questions
    whether they may go on, or which lanes they name.
    """
    found: dict[str, int] = {}
    step, ready, members = CoreScheduler._step, CoreScheduler._ready, CoreScheduler._members

    def count(scheduler: CoreScheduler, at: int) -> None:
        name = scheduler.machine.program.function.instructions[at].mnemonic
        found[name] = found.get(name, 0) + 1

    def first_of(scheduler: CoreScheduler, address: int) -> int:
        return scheduler.segments[scheduler.machine.batch(address).pc].first

    def counted_step(self: CoreScheduler, address: int, at: int) -> int:
        count(self, at)
        return step(self, address, at)

    def counted_ready(self: CoreScheduler, address: int, masks: int, going: int) -> int:
        count(self, first_of(self, address))
        return ready(self, address, masks, going)

    def counted_members(self: CoreScheduler, address: int, into: int) -> int:
        count(self, first_of(self, address))
        return members(self, address, into)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreScheduler, "_step", counted_step)
        patch.setattr(CoreScheduler, "_ready", counted_ready)
        patch.setattr(CoreScheduler, "_members", counted_members)
        yield found
