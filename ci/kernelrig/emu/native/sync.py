"""What warps wait for, in the core: mbarriers, groups of bulk copies, operations of its own.

The parts of a machine that the core keeps are these: they are the NumPy engine's with their state
in the core, so that steps, findings and deadlocks read and write one state. Where an observer that
the core does not know hears of operations, it leaves them to Python (`machine.synchronises`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.async_groups import BulkGroups, MatrixGroups
from kernelrig.emu.machine.bulk_copy import report_exited
from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.machine.lane_groups import Lanes
from kernelrig.emu.machine.loads_in_flight import InFlight
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.native import barrier_uses, operation_groups
from kernelrig.emu.native.access_details import accessed, tensor_accessed
from kernelrig.emu.native.barrier_words import NativeBarrier
from kernelrig.emu.native.core_observer import each_of
from kernelrig.emu.native.machine_facade import NativeMachine, PartKind
from kernelrig.emu.native.operation_groups import BULK, NativeMatrixGroups
from kernelrig.emu.native.operation_queue import numbered_wait
from kernelrig.emu.native.tensor_in_flight import NativeInFlight
from kernelrig.emu.native.warpgroups import NativeWarpgroups
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.tensor.tensor_memory import (
    COLUMNS,
    TENSOR_LANES,
    UNIT_COLUMNS,
    Allocated,
    Holdings,
    TensorMemory,
)
from kernelrig.emu.tensor.warpgroup_product import Warpgroups

ON_FAULT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class _Live(dict[int, Barrier]):
    """The live mbarriers; the core is told of each."""

    def __init__(self, machine: NativeMachine) -> None:
        super().__init__()
        self._machine = machine

    def __setitem__(self, flat: int, barrier: Barrier) -> None:
        super().__setitem__(flat, barrier)
        assert isinstance(barrier, NativeBarrier)
        self._tell(flat, ctypes.addressof(barrier.words))

    def pop(self, flat: int, default: Any = None) -> Any:  # noqa: ANN401 - dict.pop
        found = super().pop(flat, default)
        self._tell(flat, None)
        return found

    def _tell(self, flat: int, address: int | None) -> None:
        self._machine.calls.core_barrier(self._machine.core, flat, address)


class _GaveUp:
    """Waits that gave up: (warp, instruction, (key, phase)), or of more mbarriers."""

    def __init__(self, machine: NativeMachine) -> None:
        self._machine = machine
        self._others: set[tuple[Any, ...]] = set()

    def _asked(self, tried: tuple[Any, ...], add: bool) -> bool:
        warp, at, ((_, slot, offset), phase) = tried
        flat = slot * SLOT_BYTES + offset
        machine = self._machine
        return bool(machine.calls.core_gave_up(machine.core, warp, at, flat, phase, add))

    def __contains__(self, tried: tuple[Any, ...]) -> bool:
        return self._asked(tried, False) if len(tried) == 3 else tried in self._others

    def add(self, tried: tuple[Any, ...]) -> None:
        if len(tried) == 3:
            self._asked(tried, True)
        else:
            self._others.add(tried)


class _Wanted:
    """What warps waited for last: phases of mbarriers."""

    def __init__(self, barriers: NativeBarriers) -> None:
        self._barriers = barriers
        self._python: dict[int, list[tuple[Barrier, int]]] = {}

    def __setitem__(self, warp: int, waits: list[tuple[Barrier, int]]) -> None:
        machine = self._barriers.machine
        machine.calls.core_forget_wanted(machine.core, warp)
        self._python[warp] = waits

    def items(self) -> Iterator[tuple[int, list[tuple[Barrier, int]]]]:
        machine, words = self._barriers.machine, (ctypes.c_int64 * 2)()
        for warp in range(len(machine.slot_of)):
            if machine.calls.core_wanted(machine.core, warp, words):
                yield warp, [(self._barriers.at(words[0]), words[1])]
            elif warp in self._python:
                yield warp, self._python[warp]


class NativeBarriers(Barriers):
    """All mbarriers of a machine."""

    machine: NativeMachine

    def __init__(self, machine: NativeMachine) -> None:
        self._by_address: dict[int, NativeBarrier] = {}
        super().__init__(
            machine,
            _live=_Live(machine),
            _wanted=_Wanted(self),  # type: ignore[arg-type]
            _returned=_GaveUp(machine),  # type: ignore[arg-type]
        )

    def at(self, address: int) -> NativeBarrier:
        """Return the mbarrier whose counts lie at an address."""
        return self._by_address[address]

    def _made(
        self, slot: int, offset: int, count: int, made_by: tuple[int, int], name: str
    ) -> Barrier:
        made = NativeBarrier(slot, offset, count, made_by, name)
        self._by_address[ctypes.addressof(made.words)] = made
        return made

    def _remember(self, batch: WarpBatch, seen: Lanes, barrier: Barrier) -> None:
        flat = barrier.slot * SLOT_BYTES + barrier.offset
        machine = self.machine
        for row in np.flatnonzero(seen.any(axis=1)).tolist():
            machine.calls.core_remember(machine.core, int(batch.warps[row]), flat, batch.at)

    def wait_at(self, address: int, at: int, early: bool, phase: int) -> Wait:
        """Return a wait that passed, as findings name it."""
        return self._wait(at, self.at(address), early, phase)


class LastWaits:
    """By warp: the wait for an mbarrier that it passed last."""

    def __init__(self, machine: NativeMachine) -> None:
        self._machine = machine
        self._known: dict[int, Wait] = {}

    def get(self, warp: int) -> Wait | None:
        machine = self._machine
        return self.numbered(machine.calls.core_last_wait(machine.core, warp))

    def numbered(self, number: int) -> Wait | None:
        """Return the wait that the core knows by `number`, -1 for none."""
        if number < 0:
            return None
        known = self._known.get(number)
        if known is None:
            machine, words = self._machine, (ctypes.c_int64 * 4)()
            machine.calls.core_wait(machine.core, number, words)
            address, at, early, phase = words
            barriers = machine.part(Barriers)
            assert isinstance(barriers, NativeBarriers)
            known = self._known[number] = barriers.wait_at(address, at, bool(early), phase)
        return known

    def clear(self) -> None:
        self._known.clear()


class _NativeHoldings(Holdings):
    """What a CTA owns of tensor memory; `told` is called where it changes."""

    told: Callable[[], None]

    def _mark(self, block: Allocated, taken: bool) -> None:
        super()._mark(block, taken)
        self.told()


class NativeTensorMemory(TensorMemory):
    """Tensor memory whose words, and what may be accessed of them, the core knows."""

    machine: NativeMachine

    def __init__(self, machine: NativeMachine) -> None:
        super().__init__(machine)
        slots = int(machine.slot_of[-1]) + 1
        # Side by side: the rows of D that the CTAs of a pair have are then rows of one matrix.
        self._all = np.zeros((slots, TENSOR_LANES, COLUMNS), np.uint32)

    def words(self, slot: int) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] = self._all[slot]
        return found

    def holdings(self, slot: int) -> Holdings:
        found = self._holdings.get(slot)
        if found is None:
            made = _NativeHoldings()
            made.told = partial(self._tell, slot)
            found = self._holdings[slot] = made
        return found

    def free(self, slot: int, paired: bool, column: int, columns: int) -> bool:
        freed = super().free(slot, paired, column, columns)
        self._tell(slot)
        return freed

    def _tell(self, slot: int) -> None:
        holdings, machine = self.holdings(slot), self.machine
        free = holdings.units.copy()
        for column, columns in holdings.leaving:
            free[column // UNIT_COLUMNS : (column + columns) // UNIT_COLUMNS] = False
        usable = sum(1 << unit for unit in np.flatnonzero(free).tolist())
        address, marks = self.words(slot).ctypes.data, None
        for observer in each_of(machine.hooks):
            if type(observer) is Init:
                marks = observer.marks(slot).ctypes.data
        machine.calls.core_tensor(machine.core, slot, address, marks, usable)


_PARTS: dict[PartKind, PartKind] = {
    **barrier_uses.PARTS,
    Barriers: NativeBarriers,
    InFlight: NativeInFlight,
    TensorMemory: NativeTensorMemory,
}
_OF_PRODUCTS: dict[PartKind, PartKind] = {
    MatrixGroups: NativeMatrixGroups,
    Warpgroups: NativeWarpgroups,
}


def parts_of_core(machine: NativeMachine) -> dict[PartKind, PartKind]:
    """Return what takes the place of parts of a machine, by these."""
    made = dict(_PARTS)
    if machine.synchronises:
        made |= operation_groups.PARTS
        if not machine.python_products:
            made |= _OF_PRODUCTS
    return made


def settle_parts(machine: NativeMachine) -> None:
    """Make the parts that only the core has used: they report what is left, or never comes."""
    if machine.synchronises and machine.calls.core_groups(machine.core, BULK):
        machine.part(BulkGroups)
    for cluster, kind in enumerate(barrier_uses.PARTS):
        if machine.calls.core_uses(machine.core, cluster):
            machine.part(kind)


def acting_wait(machine: NativeMachine) -> Wait | None:
    """Return the wait before the core's operation whose access observers are being told of."""
    return numbered_wait(machine, machine.calls.core_acting_wait(machine.core))


def signal_bytes(machine: NativeMachine, op: Op, slot: int, offset: int, size: int) -> None:
    machine.part(Barriers).op_tx(op, slot, offset, size)


def signal_commit(machine: NativeMachine, op: Op, slot: int, offset: int, count: int) -> None:
    machine.part(Barriers).op_arrive(op, slot, offset, count)


def source_exited(machine: NativeMachine, op: Op, *_: int) -> None:
    report_exited(op)


def tensor_access(
    says: str, machine: NativeMachine, op: Op, slot: int, column: int, columns: int
) -> None:
    wrong = machine.part(TensorMemory).fault(slot, column, columns)
    assert wrong, "the core asks for what may be accessed"
    machine.report_op(op, "tmem", f"{op.name}{says} {wrong}")


FAULTS: tuple[Callable[..., None], ...] = (
    signal_bytes, signal_commit, source_exited,
    *(partial(tensor_access, says) for says in (" of", ": D has", ": A has")),
    accessed, tensor_accessed,
)  # fmt: skip
"""What is done where an operation of the core is at fault, or an observer may say so, by number."""
