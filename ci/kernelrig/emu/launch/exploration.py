"""A launch under several schedules, in parallel processes: what the command and the stages run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from kernelrig.emu.launch.element_types import DTYPES
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from kernelrig.emu.launch.estimate import Estimate, Watch
from kernelrig.emu.launch.execution import Schedule, ScheduleRun, run
from kernelrig.emu.launch.expect import compare
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.launch.severities import Severities
from kernelrig.emu.launch.workers import Loss, Workers
from kernelrig.emu.machine.findings import OBSERVER_OF, Finding, merge
from kernelrig.emu.machine.grouping import grouped
from kernelrig.emu.machine.machine_state import Hooks, Machine
from kernelrig.emu.machine.progress import Progress
from kernelrig.emu.native.encode import encoded
from kernelrig.emu.native.library import OUT_OF_MEMORY
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.registry import OBSERVERS
from kernelrig.errors import CiError
from kernelrig.proc.workers import Died, raised_at
from kernelrig.reference.one_thread import libraries, stay_in_one_thread

ALL_OBSERVERS = ("memory", "races", "init", "sync")
LARGE_BYTES = 1 << 28
"""Of global memory."""
SILENT = Watch()
AS_TABLED = Severities()
MOST_LOST = 4
"""Where the first schedules to end have no result, so many of them, no others are begun."""
_ALWAYS = frozenset({"results", "run"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What some schedules found. `buffers` are those of the first one at its end.

    `others` are the buffers of the schedules that left other bits, by number; `stopped` those that
    did not reach the end of the launch: a deadlock, a trap, the step limit. `rows` counts warps
    through each row of the table, over all schedules; `unchecked` are the rows among them that were
    never compared with hardware. `steps` are the scheduler's: segments of code, and events of
    asynchronous operations. `wall_s` is in seconds, one number for each schedule. `kept` is what
    `keep` returned of each (see `emulate`).

    `lost` says what each of the schedules ended with that have no result, by number: all else is of
    the others.
    """

    findings: tuple[Finding, ...]
    buffers: dict[str, Array]
    rows: dict[str, int]
    unchecked: tuple[str, ...]
    counters: dict[str, int]
    steps: int
    wall_s: tuple[float, ...]
    stopped: tuple[int, ...] = ()
    others: dict[int, dict[str, Array]] = field(default_factory=dict)
    kept: tuple[object, ...] = ()
    lost: dict[int, CiError] = field(default_factory=dict)

    @property
    def instructions(self) -> int:
        """Warp-instructions over all schedules; lanes that diverged execute theirs on their own."""
        return sum(self.rows.values())

    @property
    def rate(self) -> float:
        """Warp-instructions a second of each process."""
        return self.instructions / max(sum(self.wall_s), 1e-9)

    @property
    def failed(self) -> bool:
        """Whether there is an error, or a schedule of which the end was not seen."""
        return bool(self.stopped) or any(f.severity == "error" for f in self.findings)


@dataclass(frozen=True, slots=True)
class _One:
    findings: tuple[Finding, ...]
    buffers: dict[str, Array]
    rows: dict[str, int]
    counters: dict[str, int]
    steps: int
    wall_s: float
    stopped: bool
    kept: object


RunSchedule = Callable[[Schedule, Progress], _One]


def emulate(
    loaded: Loaded,
    schedules: Sequence[Schedule],
    observe: Sequence[str] = ALL_OBSERVERS,
    dump: Sequence[str] = (),
    jobs: int = 0,
    watch: Watch = SILENT,
    keep: Callable[[Machine], object] = lambda _: None,
    spill: Path | None = None,
    *,
    partial: bool = False,
    also: Sequence[Callable[[], Hooks]] = (),
    severities: Severities = AS_TABLED,
    kept: Callable[[RunSchedule], Workers[Schedule, _One]] | None = None,
) -> Outcome:
    """Run `loaded` under each of `schedules`; `dump` names the buffers to bring back.

    `jobs` processes run at a time, 0 for one per processor. `watch` is told how long it will take.
    The dumped buffers of a large launch go through files without a name in the folder `spill`.
    `keep` is called in those processes with the machine of each schedule at its end; what it
    returns must be picklable. `also` makes observers that report no findings, for `keep`.
    `severities` are what the caller says of the table: what the launch file says counts only where
    the caller took it, as one of a user's may soften a finding and one of a kernel's may not.
    `kept` returns processes that run all schedules, of a launch like this one before, or new ones,
    where nothing is dumped.
    Raises CiError if a process died: it says of what, and where in the kernel; with `partial` only
    if no schedule has a result, else the outcome has it as `lost`.
    """
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(schedules))
    # Each schedule of a large launch gets a process, and has the memory as it is forked: what it
    # does not write is there once, for all of them.
    large = len(loaded.kernel.memory) >= LARGE_BYTES
    if any(schedule.engine == NATIVE for schedule in schedules):  # once, for all processes
        encoded(loaded.kernel.program)
    libraries()

    def hopeless(ended: Mapping[int, _One | Loss]) -> bool:
        lost = sum(isinstance(one, Loss) for one in ended.values())
        return lost >= MOST_LOST and lost == len(ended) if partial else lost > 0

    with ExitStack() as opened:
        files = {
            schedule.number: {name: opened.enter_context(TemporaryFile(dir=spill)) for name in dump}
            for schedule in (schedules if large else ())
        }

        def run_one(schedule: Schedule, progress: Progress) -> _One:
            begin = time.perf_counter()
            stay_in_one_thread()  # this process runs schedules alone
            one, ran = _run_one(loaded, schedule, tuple(observe), progress, keep, also, last=large)
            for name in dump:
                left = _buffer(loaded, ran, name)
                if large:
                    left.tofile(files[schedule.number][name])
                else:
                    one.buffers[name] = left.copy()
            return replace(one, wall_s=time.perf_counter() - begin)

        made = Workers(run_one, jobs, once=large) if kept is None or large else kept(run_one)
        with made as workers:
            estimate = Estimate(workers, len(schedules), watch)
            ended = workers.map(schedules, estimate.look, watch.look_s, hopeless)
        lost = {n: loss for n, loss in sorted(ended.items()) if isinstance(loss, Loss)}
        results = [(schedules[n], o) for n, o in sorted(ended.items()) if not isinstance(o, Loss)]
        for number, loss in lost.items():
            if not (partial and results):
                raise _raised(loss, loaded, schedules[number]) from loss.error
        for schedule, one in results:
            for name, file in files.get(schedule.number, {}).items():
                entry = loaded.entry.buffers[name]
                one.buffers[name] = np.memmap(file, DTYPES[entry.dtype], "r", shape=entry.shape)
    ran = [one for _, one in results]
    rows: dict[str, int] = {}
    counters: dict[str, int] = {}
    for one in ran:
        _add(rows, one.rows)
        _add(counters, one.counters)
    unchecked = sorted(loaded.kernel.program.unchecked & rows.keys())
    return Outcome(
        severities.shown(grouped(severities.apply(merge(_requested(o, observe) for o in ran)))),
        ran[0].buffers,
        rows,
        tuple(unchecked),
        counters,
        sum(o.steps for o in ran),
        tuple(o.wall_s for o in ran),
        tuple(s.number for s, o in results if o.stopped),
        _others(ran[0], results[1:]),
        tuple(o.kept for o in ran),
        {schedules[n].number: _explain(loss, loaded, schedules[n]) for n, loss in lost.items()},
    )


def _requested(one: _One, observe: Sequence[str]) -> list[Finding]:
    return [f for f in one.findings if _is_requested(f, one, observe)]


def _is_requested(finding: Finding, one: _One, observe: Sequence[str]) -> bool:
    """Return whether `finding` is reported: its observer was asked for, or its schedule stopped."""
    asked = OBSERVER_OF[finding.kind] in (*observe, *_ALWAYS)
    return asked or (one.stopped and finding.severity == "error")


def _others(first: _One, later: Iterable[tuple[Schedule, _One]]) -> dict[int, dict[str, Array]]:
    """Return the buffers that are not, bit for bit, those of the first schedule."""
    found: dict[int, dict[str, Array]] = {}
    for schedule, one in later:
        for name, array in one.buffers.items():
            if not _same_bits(array, first.buffers[name]):
                found.setdefault(schedule.number, {})[name] = array
    return found


def _same_bits(one: Array, other: Array) -> bool:
    a, b = one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)
    starts = range(0, len(a), LARGE_BYTES)
    return all(np.array_equal(a[i : i + LARGE_BYTES], b[i : i + LARGE_BYTES]) for i in starts)


def schedules_of(first: Schedule, count: int) -> tuple[Schedule, ...]:
    """Return `count` schedules from number 0 on, otherwise like `first`."""
    return tuple(replace(first, number=number) for number in range(count))


def _raised(loss: Loss, loaded: Loaded, schedule: Schedule) -> Exception:
    """Return what is raised for a loss: an exception of ours has a traceback worth a report."""
    of_the_system = isinstance(loss.error, Died | MemoryError)
    return _explain(loss, loaded, schedule) if of_the_system else loss.error


def _explain(loss: Loss, loaded: Loaded, schedule: Schedule) -> CiError:
    """Return the sentence: what ended it, which schedule, which instruction, and what to do."""
    label = loaded.kernel.program.label
    where = " to ".join(label(at) for at in sorted({loss.at, loss.last}) if at >= 0) or "its start"
    where = f"{schedule.engine} engine, at {where}"
    error, name = loss.error, f"schedule {schedule.number}"
    smaller = "emulate a smaller launch, or pass --jobs 1"
    exhausted = isinstance(error, Died) and error.exit_code == OUT_OF_MEMORY
    if exhausted or isinstance(error, MemoryError):
        return CiError(f"{name} ran out of memory, {where}", smaller)
    if isinstance(error, Died) and error.signal == signal.SIGKILL:
        advice = f"the system kills for want of memory: {smaller}"
        return CiError(f"{name} ended its process by SIGKILL, {where}", advice)
    advice = "a defect of the emulator: nothing was established; report it with the launch file"
    advice += ", or try --engine numpy" if schedule.engine != NUMPY else ""
    if isinstance(error, Died):
        by = signal.Signals(error.signal).name if error.signal else "an exit"
        return CiError(f"{name} ended its process by {by}, {where}", advice)
    what = f"{name} failed, {type(error).__name__} at {raised_at(error)}: {error}"
    return CiError(f"{what}, {where}", advice)


def _run_one(
    loaded: Loaded,
    schedule: Schedule,
    observe: tuple[str, ...],
    progress: Progress,
    keep: Callable[[Machine], object],
    also: Sequence[Callable[[], Hooks]],
    *,
    last: bool = False,
) -> tuple[_One, ScheduleRun]:
    writers = LastWriter() if loaded.entry.expect else None
    observers: list[Hooks] = [made() for made in _factories(observe)]
    inits = [o for o in observers if isinstance(o, Init)]
    observing = [*observers, *([writers] if writers else []), *(made() for made in also)]
    ran = run(loaded.kernel, schedule, observing, progress, last=last)
    if writers and not ran.machine.stopped:
        for init in inits:
            init.left_unwritten(ran.machine, tuple(loaded.entry.expect))
        compare(loaded, ran.machine, writers)
    one = _One(
        ran.machine.findings.all,
        {},
        ran.counts,
        dict(ran.machine.counts),
        ran.steps,
        0.0,
        ran.machine.stopped,
        keep(ran.machine),
    )
    return one, ran


def _factories(observe: tuple[str, ...]) -> list[Callable[[], Hooks]]:
    return [OBSERVERS[name] for name in observe if name in OBSERVERS]


def _buffer(loaded: Loaded, ran: ScheduleRun, name: str) -> Array:
    at = loaded.kernel.buffers[name]
    entry = loaded.entry.buffers[name]
    raw = ran.machine.memory.global_.bytes[at.start : at.start + at.size]
    return raw.view(DTYPES[entry.dtype]).reshape(entry.shape)


def _add(into: dict[str, int], more: dict[str, int]) -> None:
    for key, count in more.items():
        into[key] = into.get(key, 0) + count
