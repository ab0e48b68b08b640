"""Runs a `NativeMachine`: `machine.scheduler.Scheduler` with its loop in the core.

What is left here is what the core calls back for: Python steps, issue conditions, events of
operations, reports. An exception in a callback must not cross the core: it is kept, the core
unwinds, and `run` raises it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.frontend.runtime import unready
from kernelrig.emu.machine.deadlock import report_deadlock
from kernelrig.emu.machine.divergence import ConvergenceWaiters, joined_register
from kernelrig.emu.machine.divergent_collectives import (
    report_divergent_waiters,
    report_missing_lanes,
)
from kernelrig.emu.machine.endless_loops import EndlessLoops
from kernelrig.emu.machine.machine_state import ReconvergencePoint
from kernelrig.emu.machine.progress import AT, Progress
from kernelrig.emu.machine.schedule_policy import FRIENDLY, LATE, RANDOM, UNFAIR, Policy
from kernelrig.emu.machine.time_limit import limits_pass
from kernelrig.emu.machine.unwritten_registers import UnwrittenRegisters
from kernelrig.emu.machine.warp_barriers import meet
from kernelrig.emu.native.batch_facade import (
    IN_FLIGHT,
    PYTHON_IN_FLIGHT,
    NativeBatch,
    words_at,
)
from kernelrig.emu.native.core_calls import CALLBACKS, Callbacks
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.native.memory import NativeMemory
from kernelrig.emu.native.observers import listens_to_others
from kernelrig.emu.native.products import ON_DESCRIPTOR, decode_descriptor
from kernelrig.emu.native.sync import FAULTS, ON_FAULT, LastWaits, parts_of_core, settle_parts
from kernelrig.emu.native.warpgroups import ON_REPORT, report
from kernelrig.emu.numerics.arrays import LANES, UNDEFINED, lanes_of_words
from kernelrig.emu.tensor.warpgroup_misuse import overwritten, report_overwritten

_KINDS = {FRIENDLY: 0, LATE: 1, RANDOM: 2, UNFAIR: 3}
_ELECTED = {"first": 0, "last": 1, "hash": 2}
FAILED = -1


@dataclass
class CoreScheduler:
    """Runs the wave of CTAs on `machine`, as the `Scheduler` does. What it executes stands in
    `progress` first. A wave may take `max_steps`.
    """

    machine: NativeMachine
    policy: Policy
    max_steps: int
    progress: Progress
    raised: BaseException | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        machine = self.machine
        self.functions = machine.encoded.functions
        self.segments = machine.program.segments
        self.memory = NativeMemory(machine)
        machine.calls.core_memory(machine.core, ctypes.byref(self.memory.table))
        machine.calls.core_progress(machine.core, self.progress.address)
        machine.calls.core_policy(machine.core, _KINDS[self.policy.kind])
        self.on_fault = ON_FAULT(self._guarded(self._fault))
        said = machine.encoded.op_names
        names = (ctypes.c_char_p * len(said))(*(name.encode() for name in said))
        machine.synchronises = not listens_to_others(machine.hooks)
        machine.replaced = parts_of_core(machine)
        machine.calls.core_sync(
            machine.core, ctypes.byref(self.memory.table), names, len(said), self.on_fault,
            not machine.synchronises,
        )  # fmt: skip
        self.on_descriptor = ON_DESCRIPTOR(self._guarded(partial(decode_descriptor, machine)))
        machine.calls.core_tensor_products(machine.core, self.on_descriptor)
        machine.last_wait = LastWaits(machine)  # type: ignore[assignment]
        self.on_report = ON_REPORT(self._guarded(partial(report, machine)))
        machine.calls.core_warpgroups(
            machine.core, self.on_report, machine.encoded.product_names.ctypes.data,
            machine.python_products,
        )  # fmt: skip
        self.loops = EndlessLoops(
            machine, self.max_steps, lambda: machine.visits.tolist(),
            partial(machine.calls.core_segments_run, machine.core),
            lambda: machine.listed(machine.calls.core_waiters),
        )  # fmt: skip
        self.callbacks = Callbacks(
            **{name: kind(self._guarded(getattr(self, f"_{name}"))) for name, kind in CALLBACKS}
        )

    @property
    def steps(self) -> int:
        return int(self.machine.shared.steps)

    def _guarded(self, call: Callable[..., int]) -> Callable[..., int]:
        def guarded(*arguments: int) -> int:
            try:
                return call(*arguments)
            except BaseException as e:
                if self.raised is None:
                    self.raised = e
                return FAILED

        return guarded

    def start(self, ctas: NDArray[np.int64]) -> None:
        """Make `ctas`, linear indices of whole clusters in order, the wave that runs."""
        machine = self.machine
        machine.shared.elected = _ELECTED[machine.elected]
        machine.shared.next_look = self.loops.start(self.steps)
        machine.new_wave()
        machine.place(ctas)
        machine.start()
        machine.calls.core_sync_start(machine.core)

    def run(self) -> None:
        """Run until all warps have exited and nothing is in flight, or nothing can go on."""
        machine = self.machine
        machine.calls.core_callbacks(machine.core, ctypes.byref(self.callbacks))
        machine.calls.core_conduct(machine.core, machine.in_turn, machine.spurious)
        self.memory.start(machine.alive_masks)
        with np.errstate(all="ignore"):
            machine.calls.core_run(machine.core)
        self.memory.settle()
        machine.program.visits[:] = machine.visits.tolist()
        if self.raised is not None:
            raise self.raised
        self._finish()

    def _finish(self) -> None:
        machine = self.machine
        if machine.stopped:
            return
        settle_parts(machine)
        parked, waiters = machine.parked, self._waiters()
        if parked or waiters.waiting:
            report_deadlock(machine, parked, [*waiters.waiting.values()])
            report_divergent_waiters(machine, waiters)
            machine.stopped = True
            return
        for state in machine.components:
            if hasattr(state, "finish"):
                state.finish()
        if machine.hooks:
            machine.hooks.ended(machine)

    def _waiters(self) -> ConvergenceWaiters:
        made = ConvergenceWaiters()
        for batch in self.machine.listed(self.machine.calls.core_waiters):
            made.waiting[batch.pc, int(batch.warps[0])] = batch
        return made

    # What the core calls back for.
    def _step(self, address: int, at: int) -> int:
        batch = self.machine.batch(address)
        batch.at = at
        self.functions.function_of(at)(batch, batch.registers, batch.lanes)
        return 0

    def _follow(self, address: int, at: int) -> int:
        """Return 1 where Python's step has to do it; behind it comes the complement of `at`."""
        if at < 0:
            self.machine.values.stores.finish()
            return 0
        batch = self.machine.batch(address)
        return int(self.functions.following_of(at)(batch, batch.registers, batch.lanes))

    def _unready(self, address: int, register: int, at: int) -> int:
        batch = self.machine.batch(address)
        value = unready(batch, register, at)
        if batch.flags[register] in (IN_FLIGHT, PYTHON_IN_FLIGHT):
            self.machine.files.write(batch, register, value)
        return 0

    def _unwritten(self, address: int, number: int, at: int, lanes: int) -> int:
        batch = self.machine.batch(address)
        words = words_at(lanes, batch.size)
        self.machine.part(UnwrittenRegisters).found(batch, number, at, words)
        return 0

    def _early(self, address: int, register: int, at: int) -> int:
        batch = self.machine.batch(address)
        batch.registers[register] = batch.in_flight[register].values
        return 0

    def _overwritten(self, address: int, register: int, at: int, lanes: int, late: int) -> int:
        batch = self.machine.batch(address)
        words = np.ctypeslib.as_array((ctypes.c_uint32 * batch.size).from_address(lanes))
        mask = lanes_of_words(words)
        batch.at = at
        if late:  # the core knows
            report_overwritten(batch, mask, register)
        else:
            overwritten(batch, mask, register, at)
        return 0

    def _condition(self, batch: NativeBatch) -> Any:  # noqa: ANN401 - its IssueCondition
        return self.segments[batch.pc].condition

    def _members(self, address: int, into: int) -> int:
        batch = self.machine.batch(address)
        members = self._condition(batch).members(batch, batch.registers, batch.lanes)
        self._fill(into, members, batch.size)
        return 0

    def _fill(self, into: int, values: NDArray[Any], size: int) -> None:
        made = (ctypes.c_uint32 * (size * LANES)).from_address(into)
        np.ctypeslib.as_array(made).reshape(size, LANES)[...] = values

    def _ready(self, address: int, masks: int, going: int) -> int:
        batch = self.machine.batch(address)
        mask = lanes_of_words(words_at(masks, batch.size)) if masks else batch.lanes
        block = self._condition(batch).ready(batch, batch.registers, mask)
        if block is None:
            return 0
        ready = (ctypes.c_uint8 * batch.size).from_address(going)
        np.ctypeslib.as_array(ready)[...] = block.ready
        machine = self.machine
        if not block.ready.all():
            keys = np.array([machine.keys.number_of(key) for key in block.keys], np.int64)
            machine.calls.core_blocked(machine.core, keys.ctypes.data, len(keys))
        return 1

    def _table(self, address: int, into: int) -> int:
        batch = self.machine.batch(address)
        at = self.segments[batch.pc].last - 1
        index = self.functions.function_of(at)(batch, batch.registers, batch.lanes)
        self._fill(into, index, batch.size)
        return 0

    def _beyond(self, address: int, masks: int) -> int:
        batch = self.machine.batch(address)
        batch.at = self.segments[batch.pc].last - 1
        lanes = lanes_of_words(words_at(masks, batch.size))
        batch.report("barrier-misuse", "brx.idx beyond its table of targets", lanes)
        self.machine.stopped = True
        return 0

    def _taken(self, parent: int, made: int, rows: int, count: int) -> int:
        batch = self.machine.batch(parent)
        chosen = words_at(rows, count).astype(np.intp) if count < batch.size else None
        self.machine.batch(made).follow(batch, chosen)
        return 0

    def _joined(self, parts: int, count: int, made: int) -> int:
        addresses = (ctypes.c_int64 * count).from_address(parts)
        batches = [self.machine.batch(address) for address in addresses]
        into = self.machine.batch(made)
        first, *others = batches
        into.pending = tuple(dict.fromkeys(r for c in batches for r in c.pending))
        live: frozenset[int] | None = None
        for register in dict.fromkeys(r for c in batches for r in c.in_flight):
            if into.flags[register] != PYTHON_IN_FLIGHT:
                continue
            held = first.in_flight.get(register)
            # Sides of one branch have the same results in flight, unless one of them wrote there.
            if all(c.flags[register] == PYTHON_IN_FLIGHT for c in batches) and all(
                c.in_flight[register] is held for c in others
            ):
                assert held is not None
                into.in_flight[register] = held
                continue
            if live is None:
                live = frozenset(self.segments[into.pc].live)
            # What nothing reads is in flight no more.
            into.registers[register] = (
                joined_register(batches, register) if register in live else UNDEFINED
            )
        return 0

    def _event(self, number: int) -> int:
        queue = self.machine.queue
        queue.step(queue.by_id[number])
        return 0

    def _fault(self, number: int, fault: int, *about: int) -> int:
        FAULTS[fault](self.machine, self.machine.queue.op(number), *about)
        return 0

    def _unreachable(self, address: int) -> int:
        calls = self.machine.calls
        count = calls.core_point_missing(address, None, None, 0)
        warps, lanes = np.empty(count, np.int32), np.empty(count, np.uint32)
        calls.core_point_missing(address, warps.ctypes.data, lanes.ctypes.data, count)
        missing = dict(zip(warps.tolist(), lanes_of_words(lanes), strict=True))
        point = ReconvergencePoint(calls.core_point_segment(address), missing)
        report_missing_lanes(self.machine, self._waiters(), point)
        return 0

    def _meet(self, warp: int) -> int:
        machine = self.machine
        for one in meet(machine, self.segments, self._waiters().of(warp)):
            assert isinstance(one, NativeBatch)
            machine.calls.core_pass(machine.core, one.address)
        return 0

    def _look(self) -> int:
        machine = self.machine
        machine.shared.next_look = self.loops.look(self.steps, self.progress.cells[AT])
        return 0

    def _limits(self) -> int:
        machine = self.machine
        settle_parts(machine)
        if not limits_pass(machine):
            return 0
        machine.calls.core_conduct(machine.core, machine.in_turn, 1.0)
        return 1

    def _poll(self) -> int:
        return 0
