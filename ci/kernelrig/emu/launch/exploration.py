"""A launch under several schedules, in parallel processes: what the command and the stages run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
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
from kernelrig.emu.launch.workers import Died, Workers
from kernelrig.emu.machine.findings import OBSERVER_OF, Finding, merge
from kernelrig.emu.machine.grouping import grouped
from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.progress import AT, LAST, Progress
from kernelrig.emu.native.encode import encoded
from kernelrig.emu.native.products import sgemm
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.registry import OBSERVERS
from kernelrig.errors import CiError

ALL_OBSERVERS = ("memory", "races", "init", "sync")
LARGE_BYTES = 1 << 28
"""Of global memory."""
SILENT = Watch()
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


def emulate(
    loaded: Loaded,
    schedules: Sequence[Schedule],
    observe: Sequence[str] = ALL_OBSERVERS,
    dump: Sequence[str] = (),
    jobs: int = 0,
    watch: Watch = SILENT,
    keep: Callable[[Machine], object] = lambda _: None,
    spill: Path | None = None,
) -> Outcome:
    """Run `loaded` under each of `schedules`; `dump` names the buffers to bring back.

    `jobs` processes run at a time, 0 for one per processor. `watch` is told how long it will take.
    The dumped buffers of a large launch go through files without a name in the folder `spill`.
    `keep` is called in those processes with the machine of each schedule at its end; what it
    returns must be picklable.
    Raises CiError if a process died: it says of what, and where in the kernel.
    """
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(schedules))
    # Each schedule of a large launch gets a process, and has the memory as it is forked: what it
    # does not write is there once, for all of them.
    large = len(loaded.kernel.memory) >= LARGE_BYTES
    if any(schedule.engine == NATIVE for schedule in schedules):  # once, for all processes
        encoded(loaded.kernel.program)
        sgemm()
    with ExitStack() as opened:
        files = {
            schedule.number: {name: opened.enter_context(TemporaryFile(dir=spill)) for name in dump}
            for schedule in (schedules if large else ())
        }

        def run_one(schedule: Schedule, progress: Progress) -> _One:
            begin = time.perf_counter()
            one, ran = _run_one(loaded, schedule, tuple(observe), progress, keep, last=large)
            for name in dump:
                left = _buffer(loaded, ran, name)
                if large:
                    left.tofile(files[schedule.number][name])
                else:
                    one.buffers[name] = left.copy()
            return replace(one, wall_s=time.perf_counter() - begin)

        with Workers(run_one, jobs, once=large) as workers:
            estimate = Estimate(workers, len(schedules), watch)
            try:
                ran = workers.map(schedules, estimate.look, watch.look_s)
            except Died as e:
                raise _died(e, loaded, schedules[e.number]) from e
        for schedule, one in zip(schedules, ran, strict=True):
            for name, file in files.get(schedule.number, {}).items():
                entry = loaded.entry.buffers[name]
                one.buffers[name] = np.memmap(file, DTYPES[entry.dtype], "r", shape=entry.shape)
    rows: dict[str, int] = {}
    counters: dict[str, int] = {}
    for one in ran:
        _add(rows, one.rows)
        _add(counters, one.counters)
    unchecked = sorted(loaded.kernel.program.unchecked & rows.keys())
    return Outcome(
        grouped(merge([f for f in o.findings if _is_requested(f, o, observe)] for o in ran)),
        ran[0].buffers,
        rows,
        tuple(unchecked),
        counters,
        sum(o.steps for o in ran),
        tuple(o.wall_s for o in ran),
        tuple(s.number for s, o in zip(schedules, ran, strict=True) if o.stopped),
        _others(ran[0], zip(schedules[1:], ran[1:], strict=True)),
        tuple(o.kept for o in ran),
    )


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


def _died(died: Died, loaded: Loaded, schedule: Schedule) -> CiError:
    """Return the sentence: which signal, which schedule, which instruction, and what to do."""
    cells = died.progress.cells
    places = [loaded.kernel.program.label(at) for at in sorted({cells[AT], cells[LAST]}) if at >= 0]
    where = " to ".join(places) or "its start"
    name = signal.Signals(died.signal).name if died.signal else "an exit"
    what = f"schedule {schedule.number} ended its process by {name}, {schedule.engine} engine, at"
    if died.signal == signal.SIGKILL:
        advice = "the system kills for want of memory: emulate a smaller launch, or pass --jobs 1"
    else:
        advice = "a defect of the emulator: nothing was established; report it with the launch file"
        advice += ", or try --engine numpy" if schedule.engine != NUMPY else ""
    return CiError(f"{what} {where}", advice)


def _run_one(
    loaded: Loaded,
    schedule: Schedule,
    observe: tuple[str, ...],
    progress: Progress,
    keep: Callable[[Machine], object],
    *,
    last: bool = False,
) -> tuple[_One, ScheduleRun]:
    writers = LastWriter() if loaded.entry.expect else None
    observers: list[Hooks] = [made() for made in _factories(observe)]
    inits = [o for o in observers if isinstance(o, Init)]
    observing = [*observers, *([writers] if writers else [])]
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
