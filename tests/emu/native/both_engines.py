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
from kernelrig.emu.launch.exploration import Outcome, emulate
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.machine.events import EVENTS
from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barrier
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.core_observer import each_of
from kernelrig.emu.native.core_scheduler import CoreScheduler
from kernelrig.emu.numerics.arrays import LANES
from kernelrig.emu.observe.global_accesses import GlobalAccesses
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.registry import OBSERVERS as BY_NAME

OBSERVERS: tuple[Callable[[], Hooks], ...] = (*BY_NAME.values(), LastWriter, GlobalAccesses)
MOST_RANGES = 1 << 20


Event = tuple[str, tuple[Any, ...]]


def _plain(value: Any, shape: tuple[int, int] | None) -> Any:  # noqa: ANN401 - of an event
    """Return what is the same of an argument on both engines. `shape` is that of the event's
    warps and lanes: what holds for all of them may be one number on one engine and many on the
    other, and so may the mask of all lanes.
    """
    match value:
        case WarpBatch():
            lanes = value.mask_of(None)
            return tuple((int(w), m.tobytes()) for w, m in zip(value.warps, lanes, strict=True))
        case Op():
            return (value.name, value.warp, value.lane, value.at)
        case Barrier():
            return (value.slot, value.offset, value.phase)
        case np.ndarray():  # without `shape`: the places of an operation
            return np.broadcast_to(value, shape) if shape else value.reshape(-1).tolist()
        case list() | tuple():
            return tuple(_plain(v, shape) for v in value)
        case None:
            return None
        case slice() | str() | int() | float() | bool():
            return repr(value)
    return "machine" if isinstance(value, Machine) else type(value).__name__


class Recorder(Hooks):
    """All events in their order."""

    def __init__(self) -> None:
        self.events: list[Event] = []


def _recording(name: str) -> Callable[..., None]:
    def event(self: Recorder, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        first = arguments[0]
        shape = (first.size, LANES) if isinstance(first, WarpBatch) else None
        given = (*arguments, *named.values())
        values = [v for a in given if isinstance(a, tuple) for v in a if isinstance(v, np.ndarray)]
        others = [a for a in given if not isinstance(a, tuple)] if values else given
        said = [_plain(a, shape) for a in (*others, *values)]
        if shape and said[1] is None:
            said[1] = first.mask_of(None)
        arrays = [a for a in said if isinstance(a, np.ndarray)]
        if arrays:  # what is said of lanes that are not in the mask is nothing
            mask = arrays[0]
            kept = iter(np.where(mask, a, 0).tolist() for a in arrays)
            said = [next(kept) if isinstance(a, np.ndarray) else a for a in said]
        self.events.append((name, tuple(said)))

    return event


for _name in EVENTS:
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
    recorder = Recorder() if recorded else None
    one = _run(kernel, replace(schedule, engine=NUMPY), observers, recorder)
    other = _compared(kernel, schedule, observers, one, recorder)
    return one, other


def run_every_way(kernel: Kernel, schedule: Schedule) -> None:
    """Compare as `run_both` does: with all observers, of which the core knows each; with a recorder
    of events, to which Python leads what happens; and with none.
    """
    recorder = Recorder()
    one = _run(kernel, replace(schedule, engine=NUMPY), OBSERVERS, recorder)
    for heard in (None, recorder):
        _compared(kernel, schedule, OBSERVERS, one, heard)
    run_both(kernel, schedule, (), recorded=False)


def _run(
    kernel: Kernel,
    schedule: Schedule,
    observers: Sequence[Callable[[], Hooks]],
    recorder: Recorder | None,
) -> ScheduleRun:
    made = [make() for make in observers]
    return run(kernel, schedule, made if recorder is None else [*made, recorder])


def _compared(
    kernel: Kernel,
    schedule: Schedule,
    observers: Sequence[Callable[[], Hooks]],
    one: ScheduleRun,
    heard: Recorder | None,
) -> ScheduleRun:
    """Run `kernel` on the native engine, and compare with `one`, and with the events it `heard`."""
    recorder = None if heard is None else Recorder()
    other = _run(kernel, replace(schedule, engine=NATIVE), observers, recorder)
    if heard is not None and recorder is not None:
        for number, (was, is_) in enumerate(zip(heard.events, recorder.events, strict=False)):
            assert was == is_, f"event {number}: {was} is not {is_}"
        assert len(heard.events) == len(recorder.events)
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
        arenas = [getattr(r.machine.memory, space) for r in (one, other)]
        assert np.array_equal(*(a.bytes for a in arenas)), space
        assert np.array_equal(*(a.written for a in arenas)), f"marks of {space}"
    assert _accesses(one.machine) == _accesses(other.machine)
    return other


def _accesses(machine: Machine) -> list[list[int]]:
    found = [o for o in each_of(machine.hooks) if isinstance(o, GlobalAccesses)]
    return [row for o in found for row in o.ranges(machine, MOST_RANGES)[0].tolist()]


def emulate_both(loaded: Loaded, schedules: Sequence[Schedule]) -> Outcome:
    """Emulate `loaded` on both engines as the command does, and compare all but the seconds."""
    one, other = (
        emulate(loaded, [replace(s, engine=e) for s in schedules], dump=(*loaded.kernel.buffers,))
        for e in (NUMPY, NATIVE)
    )
    for left, right in zip(one.findings, other.findings, strict=False):
        assert _fields(left) == _fields(right)
    for field in fields(Outcome):
        if field.name != "wall_s":
            left, right = getattr(one, field.name), getattr(other, field.name)
            assert _fields(left) == _fields(right), field.name
    return one


def _fields(value: Any) -> Any:  # noqa: ANN401 - a result, or a part of one
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _fields(getattr(value, f.name)) for f in fields(value)}
    match value:
        case np.ndarray():
            return value.tobytes()
        case dict():
            return {key: _fields(of) for key, of in value.items()}
        case list() | tuple():
            return [_fields(of) for of in value]
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
