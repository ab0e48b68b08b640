"""One kernel, one schedule: waves of CTAs until the grid is done."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from kernelrig.emu.launch.bind import Kernel
from kernelrig.emu.launch.engines import NATIVE, NUMPY
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.machine.machine_state import Hooks, Machine
from kernelrig.emu.machine.progress import WAVE, WAVES, Progress
from kernelrig.emu.machine.schedule_policy import Policy
from kernelrig.emu.machine.scheduler import Scheduler
from kernelrig.emu.native.core_scheduler import CoreScheduler
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.native.observers import in_core
from kernelrig.emu.observe.composite import CompositeObserver
from kernelrig.emu.observe.held_registers import NOTHING
from kernelrig.reference.one_thread import one_thread

RESIDENT_CTAS = 16
DEFAULT_STEPS = 20_000_000
_CANCELS = "clusterlaunchcontrol"


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to run: number and seed choose the schedule, `engine` what runs it, the rest the machine.

    `resident_ctas` is how many CTAs are on the machine at a time; the others wait for their wave.
    `elected` is the lane that elect.sync takes: first, last, hash, or "" for one by the number.
    Each wave may take `max_steps`. `ctas` is how many of the grid's first CTAs are run, rounded up
    to whole clusters; 0 is all.
    """

    number: int = 0
    seed: int = 0
    max_steps: int = DEFAULT_STEPS
    hardware_accumulation: bool = False
    elected: str = ""
    resident_ctas: int = RESIDENT_CTAS
    engine: str = NUMPY
    ctas: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A finished schedule: its machine with the memory, findings, steps, counts by table row."""

    machine: Machine
    findings: tuple[Finding, ...]
    steps: int
    counts: dict[str, int]


def run(
    kernel: Kernel,
    schedule: Schedule,
    observers: Sequence[Hooks] = (),
    progress: Progress | None = None,
    *,
    last: bool = False,
) -> ScheduleRun:
    """Run `kernel` once; equal schedules give equal runs. `progress` says how far it is.

    After the `last` run in a process the kernel can be run no more (see `Kernel.machine`).
    """
    rng = random.Random(f"{schedule.seed}:{schedule.number}")
    geometry = kernel.geometry
    group = geometry.cluster_ctas
    resident = max(schedule.resident_ctas // group, 1) * group
    native = schedule.engine == NATIVE
    kind = NativeMachine if native else Machine
    machine = kernel.machine(rng, resident, kind, last=last)
    machine.findings.schedule = schedule.number
    machine.hardware_accumulation = schedule.hardware_accumulation
    machine.follow_values(NOTHING)  # a run that stopped may have left it on
    if native:
        observers = in_core(observers)
    if observers:
        machine.hooks = observers[0] if len(observers) == 1 else CompositeObserver(tuple(observers))
    policy = Policy.of(schedule.number, machine.rng)
    machine.spurious = policy.spurious
    machine.patient = policy.patient
    machine.in_turn = policy.in_turn
    machine.elected = schedule.elected or policy.elected
    progress = progress or Progress()
    scheduler: Scheduler | CoreScheduler
    if isinstance(machine, NativeMachine):
        scheduler = CoreScheduler(machine, policy, schedule.max_steps, progress)
    else:
        scheduler = Scheduler(machine, policy, schedule.max_steps, progress.cells)
    order = _cluster_order(kernel)
    if schedule.ctas:
        order = order[: -(-schedule.ctas // group) * group]
    unlaunched = machine.unlaunched = deque(order.reshape(-1, group))
    most = _clusters_at_once(kernel, schedule, min(resident // group, len(unlaunched)))
    with one_thread():
        for wave in count():
            if not unlaunched:
                break
            progress.cells[WAVE] = wave
            progress.cells[WAVES] = wave - (-len(unlaunched) // most)
            taken = [unlaunched.popleft() for _ in range(min(most, len(unlaunched)))]
            scheduler.start(np.concatenate(taken))
            if machine.hooks:
                machine.hooks.started(machine)
            scheduler.run()
            if machine.stopped:
                break
    return ScheduleRun(machine, machine.findings.all, scheduler.steps, kernel.program.counts())


def _clusters_at_once(kernel: Kernel, schedule: Schedule, most: int) -> int:
    """Return how many clusters a wave has. Of a kernel that cancels launches, schedules hold some
    back, as a GPU may: it could cancel nothing otherwise.
    """
    function = kernel.program.function
    if all(i.opcode != _CANCELS for i in function.instructions) or most < 2:
        return max(most, 1)
    return random.Random(f"launch {schedule.seed}:{schedule.number}").randrange(1, most + 1)


def _cluster_order(kernel: Kernel) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the linear indices of all CTAs, those of a cluster side by side by rank."""
    gx, gy, gz = kernel.geometry.grid
    cx, cy, cz = kernel.geometry.cluster
    index = np.arange(kernel.geometry.ctas, dtype=np.int64).reshape(
        gz // cz, cz, gy // cy, cy, gx // cx, cx
    )
    return index.transpose(0, 2, 4, 1, 3, 5).reshape(-1)
