"""The observer of published mbarriers in the core: it finds what `observe.publication.Publication`
finds, and reports it in the same words.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import cast

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.native.barrier_words import NativeBarrier, UseName
from kernelrig.emu.native.core_calls import core_calls
from kernelrig.emu.native.core_observer import SEMS, CoreObserver, threads_of
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.native.sync import NativeBarriers
from kernelrig.emu.numerics.arrays import Array, Mask
from kernelrig.emu.observe.clocks import LEVELS
from kernelrig.emu.observe.publication import (
    report_arrival,
    report_bytes,
    report_own,
    report_signal,
)

_ARRIVAL, _BYTES, _SIGNAL, _WAIT = range(4)  # what an mbarrier is used for
_FENCE_ALONE = 4  # and only the fence of its init is missing
_OWN = 8  # and it is of the thread's own CTA
_P, _I, _L, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
_REPORT = ctypes.CFUNCTYPE(_I, _I, _L, _I, ctypes.c_uint32, _I, _P)
_THREADS = (_P, _P, _N)
_FUNCTIONS = {
    "started": (_P, _REPORT),
    "published": _THREADS,
    "proxy_fenced": _THREADS,
    "barrier_arrived": (*_THREADS, _L, _I),
    "barrier_passed": (*_THREADS, _L),
    "fenced": (*_THREADS, _I, _I),
    "offers": _THREADS,
    "takes": _THREADS,
    "waited": (*_THREADS, _P, _I, _I, _I),
    "arrived": (*_THREADS, _P, _I, _I, _I),
    "op_arrived": (_P, _L, _I, _P, _I),
}


@cache
def _core() -> ctypes.PyDLL:
    found = core_calls()
    for name, takes in _FUNCTIONS.items():
        function = getattr(found, f"publication_{name}")
        function.argtypes, function.restype = takes, None
    return found


class NativePublication(CoreObserver):
    """The observer `sync`, of a machine of the core."""

    _machine: NativeMachine

    def __init__(self) -> None:
        self._core = _core()
        self._callback = _REPORT(self._guarded(self._report))
        self._instances: dict[object, int] = {}

    def _report(self, use: int, op: int, warp: int, lanes: int, at: int, address: int) -> None:
        machine = self._machine
        barrier = cast(NativeBarriers, machine.part(Barriers)).at(address)
        if use & _OWN:
            report_own(machine, warp, lanes, at, barrier, waits=use & ~_OWN == _WAIT)
            return
        fence_alone = bool(use & _FENCE_ALONE)
        use &= ~_FENCE_ALONE
        if use == _ARRIVAL:
            report_arrival(machine, warp, lanes, at, barrier, fence_alone=fence_alone)
        elif use == _BYTES:
            report_bytes(machine.queue.op(op), barrier)
        else:
            report_signal(machine.queue.op(op), barrier, fence_alone=fence_alone)

    def started(self, machine: Machine) -> None:
        self._machine = cast(NativeMachine, machine)
        self._instances.clear()
        self._core.publication_started(self._machine.core, self._callback)

    def _instance(self, instance: object) -> int:
        if isinstance(instance, UseName):
            return instance.told_as
        return self._instances.setdefault(instance, len(self._instances))

    def _tell(self, event: str, batch: WarpBatch, mask: Mask, *about: int) -> None:
        threads = threads_of(batch, mask)
        tell = getattr(self._core, f"publication_{event}")
        tell(self._machine.core, threads.ctypes.data, len(threads), *about)

    def barriers_published(self, batch: WarpBatch, mask: Mask) -> None:
        self._tell("published", batch, mask)

    def proxy_fenced(self, batch: WarpBatch, mask: Mask, space: str) -> None:
        if space != "global":
            self._tell("proxy_fenced", batch, mask)

    def barrier_arrived(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None:
        if scope == "cluster":
            self._tell("barrier_arrived", batch, mask, self._instance(instance), SEMS[sem])
        else:
            self._tell("offers", batch, mask)

    def barrier_passed(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None:
        if scope == "cluster":
            self._tell("barrier_passed", batch, mask, self._instance(instance))
        else:
            self._tell("takes", batch, mask)

    def fenced(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        self._tell("fenced", batch, mask, SEMS[sem], LEVELS[scope])

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
        if sem not in ("weak", "volatile", "relaxed"):
            self._tell("fenced", batch, mask, SEMS[sem], LEVELS[scope])

    def waited(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        address = _address(barrier)
        self._tell("waited", batch, mask, address, SEMS[sem], LEVELS[scope], batch.at)
        self.check()

    def arrived(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        address = _address(barrier)
        self._tell("arrived", batch, mask, address, SEMS[sem], LEVELS[scope], batch.at)
        self.check()

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        counts_bytes = kind == "tx" and op.proxy == "async"
        self._core.publication_op_arrived(
            self._machine.core, op.number, op.warp, _address(barrier), counts_bytes
        )
        self.check()


def _address(barrier: Barrier) -> int:
    assert isinstance(barrier, NativeBarrier)
    return ctypes.addressof(barrier.words)
