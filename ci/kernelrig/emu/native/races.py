"""The race detector of the core as an observer: it finds what `observe.races.Races` finds, record
by record, and reports it in the same words.

The engine that runs the machine may be either: here the events of the NumPy engine are handed to
the core. Threads go as pairs (warp on the machine, lanes), operations and uses of barriers as
numbers.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from typing import cast

import numpy as np

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.native.barrier_words import NativeBarrier, UseName
from kernelrig.emu.native.core_observer import SEMS, CoreObserver, threads_of
from kernelrig.emu.native.library import library
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.native.races_records import SPACES, Found, NativeReports
from kernelrig.emu.native.sync import acting_wait
from kernelrig.emu.numerics.arrays import LANES, Array, Mask
from kernelrig.emu.observe.clocks import LEVELS
from kernelrig.emu.observe.lane_stores import report_unlike_stores

SPACE_OF = {space: number for number, space in enumerate(SPACES)}
PROXIED = {"": 0, "global": 2}
"""Space of a proxy fence -> its number; 1 is shared memory of any kind."""
_P, _I, _L, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
_U = ctypes.c_uint32
_THREADS = (_P, _P, _N)
_REPORT = ctypes.CFUNCTYPE(_I, _P, ctypes.POINTER(Found))

FUNCTIONS = {
    "new": ((_REPORT, _P), _P),
    "free": ((_P,), None),
    "started": ((_P, _P), None),
    "name": ((ctypes.c_char_p,), _P),
    "accessed": ((*_THREADS, _I, _I, _P, _I, _I, _I, _I, _P, _N), None),
    "op_issued": ((_P, _P, _N, _I, _U, _I, _P, _I), _L),
    "op_accessed": ((_P, _L, _I, _P, _N, _I, _I, _I), None),
    "op_tensor": ((_P, _L, _P, _I), None),
    "op_done": ((_P, _L), None),
    "op_arrived": ((_P, _L, _L, _L, _L, _I), None),
    "arrived": ((*_THREADS, _L, _L, _L, _I, _I), None),
    "waited": ((*_THREADS, _L, _L, _L, _I, _I), None),
    "barrier_arrived": ((*_THREADS, _L, _I, _I), None),
    "barrier_passed": ((*_THREADS, _L, _I, _I), None),
    "warp_synced": (_THREADS, None),
    "fenced": ((*_THREADS, _I, _I), None),
    "proxy_fenced": ((*_THREADS, _I), None),
    "tensor_fenced": ((*_THREADS, _I), None),
    "tensor_waited": ((*_THREADS, _P, _N), None),
    "group_waited": ((_P, _I, _U, _P, _N, _I), None),
    "copies_arrived": ((_P, _P, _N, _U, _L, _L, _L), None),
    "records": ((_P, _P), _P),
    "actor": ((_P, _P), None),
    "known": ((_P, ctypes.c_int32, _P, _I), _I),
}


class _Started(ctypes.Structure):
    """`Started` of core/observe/races.hpp."""

    _fields_ = (
        *((name, _P) for name in ("slot_of", "rank_of", "cta_of")),
        ("warps", _L),
        ("cluster_ctas", _I),
        ("warps_a_cta", _I),
        ("shared_bytes", _L),
        ("allocations", _P),
        ("allocated", _L),
    )


ALLOCATION = np.dtype([("start", np.int64), ("size", np.int64), ("read_only", np.int64)])


@cache
def core() -> ctypes.CDLL:
    """Return the core, its functions for races declared."""
    found = library()
    for name, (takes, gives) in FUNCTIONS.items():
        function = getattr(found, f"races_{name}")
        function.argtypes, function.restype = takes, gives
    return found


class NativeRaces(CoreObserver):
    """The observer `races`, in the core."""

    def __init__(self) -> None:
        self._core = core()
        self._callback = _REPORT(self._guarded(self._report))
        self._races = self._core.races_new(self._callback, None)
        weakref.finalize(self, self._core.races_free, self._races)
        self._reports = NativeReports(self._core, self._races, self._wait_of)
        self._barriers: dict[tuple[int, int], tuple[Barrier, int]] = {}
        self._instances: dict[object, int] = {}
        self._numbers = 0
        self._acting: Op | None = None
        self._non_coherent = False
        self._turns: Array | None = None
        self._observed = True

    @property
    def address(self) -> int:
        """Where the core has it: accesses by handlers of the core are told to it there."""
        return int(self._races)

    def _report(self, _: object, found: ctypes._Pointer[Found]) -> None:
        self._reports.report(found.contents)

    def _wait_of(self, _: int) -> Wait | None:
        if self._acting is not None:
            return self._acting.wait
        return acting_wait(cast(NativeMachine, self._machine))  # the core told it of the access

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def started(self, machine: Machine) -> None:
        self._machine = machine
        self._reports.started(machine)
        self._barriers.clear()
        self._instances.clear()
        allocations = np.array(
            [(a.start, a.size, a.read_only) for a in machine.memory.global_.allocations], ALLOCATION
        )
        places = [
            np.ascontiguousarray(array, np.int64)
            for array in (machine.slot_of, machine.rank_of, machine.cta_of)
        ]
        wave = _Started(
            *(array.ctypes.data for array in places), len(places[0]),
            machine.geometry.cluster_ctas, machine.geometry.warps, machine.memory.shared_bytes,
            allocations.ctypes.data, len(allocations),
        )  # fmt: skip
        self._core.races_started(self._races, ctypes.byref(wave))

    # Threads.
    def read_non_coherent(self, batch: WarpBatch, mask: Mask, index: Array, size: int) -> None:
        self._non_coherent = True

    def in_turn(
        self, batch: WarpBatch, mask: Mask, turns: list[int] | None, observed: bool
    ) -> None:
        # Those that observe nothing take nothing: what they leave is the same in any order.
        self._turns = np.array(turns, np.int32) if turns is not None and observed else None
        self._observed = observed

    def accessed(
        self,
        batch: WarpBatch,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        non_coherent, self._non_coherent = self._non_coherent, False
        turns, self._turns = self._turns, None
        observed, self._observed = self._observed, True
        threads = threads_of(batch, mask)
        if index.shape != (batch.size, LANES):
            index = np.broadcast_to(index, (batch.size, LANES))
        flat = np.ascontiguousarray(index, np.int64)
        flags = bool(write) | bool(atomic) << 1 | non_coherent << 2 | observed << 3
        self._core.races_accessed(
            self._races, threads.ctypes.data, len(threads), batch.at, SPACE_OF[space],
            flat.ctypes.data, size, flags, SEMS[sem], LEVELS[scope],
            None if turns is None else turns.ctypes.data, 0 if turns is None else len(turns),
        )  # fmt: skip
        self.check()

    def _at(self, barrier: Barrier) -> tuple[int, int]:
        """Return the place of an mbarrier, and the number of that object at it."""
        if isinstance(barrier, NativeBarrier):
            return barrier.words.flat, barrier.words.number
        key = (barrier.slot, barrier.offset)
        known = self._barriers.get(key)
        if known is None or known[0] is not barrier:
            known = self._barriers[key] = (barrier, self._number())
        return barrier.slot * SLOT_BYTES + barrier.offset, known[1]

    def arrived(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        threads = threads_of(batch, mask)
        self._core.races_arrived(
            self._races, threads.ctypes.data, len(threads), *self._at(barrier), phase, SEMS[sem],
            LEVELS[scope],
        )  # fmt: skip

    def waited(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        threads = threads_of(batch, mask)
        self._core.races_waited(
            self._races, threads.ctypes.data, len(threads), *self._at(barrier), phase, SEMS[sem],
            LEVELS[scope],
        )  # fmt: skip

    def _instance(self, instance: object) -> int:
        if isinstance(instance, UseName):
            return instance.told_as
        known = self._instances.get(instance)
        if known is None:
            known = self._instances[instance] = self._number()
        return known

    def barrier_arrived(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None:
        threads = threads_of(batch, mask)
        self._core.races_barrier_arrived(
            self._races, threads.ctypes.data, len(threads), self._instance(instance), SEMS[sem],
            LEVELS[scope],
        )  # fmt: skip

    def barrier_passed(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None:
        threads = threads_of(batch, mask)
        self._core.races_barrier_passed(
            self._races, threads.ctypes.data, len(threads), self._instance(instance), SEMS[sem],
            LEVELS[scope],
        )  # fmt: skip

    def warp_synced(self, batch: WarpBatch, mask: Mask) -> None:
        threads = threads_of(batch, mask)
        self._core.races_warp_synced(self._races, threads.ctypes.data, len(threads))

    def stored(
        self, batch: WarpBatch, mask: Mask, space: str, index: Array, values: tuple[Array, ...]
    ) -> None:
        report_unlike_stores(batch, mask, space, index, values)

    # Fences.
    def fenced(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        threads = threads_of(batch, mask)
        self._core.races_fenced(
            self._races, threads.ctypes.data, len(threads), SEMS[sem], LEVELS[scope]
        )

    def proxy_fenced(self, batch: WarpBatch, mask: Mask, space: str) -> None:
        threads = threads_of(batch, mask)
        number = PROXIED.get(space, 1)
        self._core.races_proxy_fenced(self._races, threads.ctypes.data, len(threads), number)

    def tensor_fenced(self, batch: WarpBatch, mask: Mask, before: bool) -> None:
        threads = threads_of(batch, mask)
        self._core.races_tensor_fenced(self._races, threads.ctypes.data, len(threads), before)

    # Asynchronous operations.
    def op_issued(self, op: Op) -> None:
        warps = np.array([op.rows[row] for row in (op.row, *op.also)], np.int32)
        name = self._core.races_name(op.name.encode())
        op.clock = self._core.races_op_issued(
            self._races, warps.ctypes.data, len(warps), op.lane, op.bits if op.lanes else 0, op.at,
            name, op.proxy == "generic",
        )  # fmt: skip

    def op_accessed(self, op: Op, space: str, starts: Array, size: int, write: bool) -> None:
        flat = np.ascontiguousarray(np.asarray(starts).reshape(-1), np.int64)
        self._acting = op
        self._core.races_op_accessed(
            self._races, op.clock, SPACE_OF[space], flat.ctypes.data, len(flat), size, write,
            op.detail.swizzle if op.detail else 0,
        )  # fmt: skip
        self._acting = None
        self.check()

    def op_tensor(self, op: Op, cta: int, lanes: slice, columns: slice, write: bool) -> None:
        piece = (ctypes.c_int32 * 5)(cta, lanes.start, lanes.stop, columns.start, columns.stop)
        self._acting = op
        self._core.races_op_tensor(self._races, op.clock, ctypes.addressof(piece), write)
        self._acting = None
        self.check()

    def op_done(self, op: Op) -> None:
        self._core.races_op_done(self._races, op.clock)

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        self._core.races_op_arrived(self._races, op.clock, *self._at(barrier), phase, kind == "tx")

    def copies_arrived(self, ops: list[Op], lanes: int, barrier: Barrier, phase: int) -> None:
        if ops:
            numbers = _numbers(ops)
            self._core.races_copies_arrived(
                self._races, numbers.ctypes.data, len(numbers), lanes, *self._at(barrier), phase
            )

    def tensor_waited(self, batch: WarpBatch, mask: Mask, ops: list[Op]) -> None:
        threads, numbers = threads_of(batch, mask), _numbers(ops)
        self._core.races_tensor_waited(
            self._races, threads.ctypes.data, len(threads), numbers.ctypes.data, len(numbers)
        )

    def group_waited(
        self, batch: WarpBatch, row: int, lanes: int, ops: list[Op], read: bool
    ) -> None:
        numbers = _numbers(ops)
        self._core.races_group_waited(
            self._races, int(batch.warps[row]), lanes, numbers.ctypes.data, len(numbers), read
        )


def _numbers(ops: list[Op]) -> Array:
    return np.array([op.clock for op in ops], np.int64)
