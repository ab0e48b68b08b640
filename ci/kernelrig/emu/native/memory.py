"""Tells the core where a machine's memory is, and what its observers want to know of it.

The arrays stay those of Python: arenas, marks, the tables of observers. A native access and a
Python step leave their traces in the same place, but for the counts, which `settle` adds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.hooks import Hooks
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.mbarrier import Barrier, Barriers
from kernelrig.emu.machine.state_spaces import Memory
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.observe.composite import CompositeObserver
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.memory import MemoryUse
from kernelrig.emu.observe.publication import Publication

ARENAS = ("global", "shared", "local")
_BANK_CONFLICTS = "bank_conflicts"
COUNTS: tuple[str, ...] = (
    *(f"{space}_bytes_{kind}" for space in ARENAS for kind in ("read", "write", "atomic")),
    _BANK_CONFLICTS,
    *(f"{space}_bytes_async_{kind}" for space in ARENAS for kind in ("read", "write")),
)
"""What `machine.counts` is called, by the number of it in the core."""
_KNOWN = (MemoryUse, Init, LastWriter, NativeRaces)
_OF_THREADS, _OF_OPERATIONS = ("accessed", "read_non_coherent"), ("op_accessed",)
_OF_FENCES = ("fenced", "proxy_fenced", "warp_synced")
_OF_BARRIERS = ("barrier_arrived", "barrier_passed")
_RECENT = 64
Pointers = ctypes.c_void_p * len(ARENAS)


class MemoryTable(ctypes.Structure):
    """`Memory` of core/memory.hpp."""

    _fields_ = (
        ("bytes", Pointers),
        ("written", Pointers),
        ("starts", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("read_only", ctypes.c_void_p),
        ("allocations", ctypes.c_int64),
        ("shared_bytes", ctypes.c_int64),
        ("local_bytes", ctypes.c_int64),
        ("local_stride", ctypes.c_int64),
        ("slot_of", ctypes.c_void_p),
        ("rank_of", ctypes.c_void_p),
        ("alive", ctypes.c_void_p),
        ("warps", ctypes.c_int64),
        ("cluster_ctas", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("non_coherent", ctypes.c_void_p),
        ("barriers", ctypes.c_void_p),
        ("barrier_count", ctypes.c_int64),
        ("init", ctypes.c_int64),
        ("last_writer", ctypes.c_void_p),
        ("copied", ctypes.c_void_p),
        ("races", ctypes.c_void_p),
        ("python_listens", ctypes.c_int64),
        ("python_listens_to_order", ctypes.c_int64),
        ("python_listens_to_operations", ctypes.c_int64),
        ("python_listens_to_fences", ctypes.c_int64),
        ("python_listens_to_barriers", ctypes.c_int64),
        ("draw", ctypes.c_void_p),
        ("recent", ctypes.c_int32 * _RECENT),
    )


class NativeMemory:
    """The memory of `machine`, as the core sees it. `table` is a `Memory` of the core."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.table = MemoryTable()
        self.counts = np.zeros(len(COUNTS), np.int64)
        self._kept: dict[str, NDArray[np.generic]] = {}  # the arrays that the core points into
        memory: Memory = machine.memory
        for number, space in enumerate(ARENAS):
            arena = memory.arena(space)
            self.table.bytes[number] = arena.bytes.ctypes.data
            self.table.written[number] = arena.written.ctypes.data
            self._kept[f"bytes of {space}"] = arena.bytes
            self._kept[f"marks of {space}"] = arena.written
        places = memory.global_.allocations
        self._point("starts", np.array([a.start for a in places], np.int64))
        self._point("ends", np.array([a.start + a.size for a in places], np.int64))
        self._point("read_only", np.array([a.read_only for a in places], np.uint8))
        self.table.allocations = len(places)
        self.table.shared_bytes = memory.shared_bytes
        self.table.local_bytes = memory.local_bytes
        self.table.local_stride = memory.local_stride
        self.table.warps = machine.geometry.warps
        self.table.cluster_ctas = machine.geometry.cluster_ctas

    def start(self, alive: NDArray[np.uint32]) -> None:
        """Look at a new wave of CTAs, which observers have been told of; `alive` is by warp."""
        self._point("slot_of", np.ascontiguousarray(self.machine.slot_of, np.int64))
        self._point("rank_of", np.ascontiguousarray(self.machine.rank_of, np.int64))
        self._point("alive", alive)
        self.barriers(())
        observers = _observers(self.machine.hooks)
        others = [type(o) for o in observers if type(o) not in _KNOWN]
        self.table.python_listens_to_order = Publication in others
        others = [o for o in others if o is not Publication]  # it hears of nothing else
        self.table.python_listens = _overridden(others, _OF_THREADS)
        self.table.python_listens_to_fences = _overridden(others, _OF_FENCES)
        self.table.python_listens_to_barriers = _overridden(others, _OF_BARRIERS)
        self.table.python_listens_to_operations = _overridden(others, _OF_OPERATIONS)
        for observer in observers:
            if type(observer) is MemoryUse:
                self._point("counts", self.counts)
                if observer.non_coherent is not None:
                    self._point("non_coherent", observer.non_coherent)
                self._watch(self.machine.part(Barriers))
            elif type(observer) is Init:
                self.table.init = True
            elif type(observer) is NativeRaces:
                self.table.races = observer.address
                self.table.python_listens_to_operations = True
            elif type(observer) is LastWriter:
                self._point("last_writer", observer.of_machine(self.machine))
                self._point("copied", observer.copied_by(self.machine))

    def _watch(self, barriers: Barriers) -> None:
        live = _Live(barriers._live)
        live.changed = self.barriers
        barriers._live = live
        self.barriers(live)

    def barriers(self, places: Iterable[int]) -> None:
        """Say where live mbarriers are: flat bytes of shared memory."""
        listed = np.array(tuple(places), np.int64)
        self._point("barriers", listed)
        self.table.barrier_count = len(listed)

    def settle(self) -> None:
        """Add what the core counted to the machine's counts."""
        counts, found = self.machine.counts, dict(zip(COUNTS, self.counts.tolist(), strict=True))
        shared = any(found[f"shared_bytes_{kind}"] for kind in ("read", "write", "atomic"))
        for name, amount in found.items():
            if amount or (shared and name == _BANK_CONFLICTS):
                counts[name] = counts.get(name, 0) + amount
        self.counts[:] = 0
        for observer in _observers(self.machine.hooks):
            if type(observer) is NativeRaces:
                observer.check()

    def _point(self, name: str, array: NDArray[np.generic]) -> None:
        assert array.flags.c_contiguous
        self._kept[name] = array
        setattr(self.table, name, array.ctypes.data)


def _observers(hooks: Hooks | None) -> Sequence[Hooks]:
    if hooks is None:
        return ()
    return hooks.observers if isinstance(hooks, CompositeObserver) else (hooks,)


def _overridden(observers: Iterable[type[Hooks]], events: Sequence[str]) -> bool:
    """Say whether one of `observers` hears of one of those events."""
    return any(getattr(o, name) is not getattr(Hooks, name) for o in observers for name in events)


class _Live(dict[int, Barrier]):
    """The live mbarriers by flat byte, which the core must know of: threads may not touch them."""

    changed: Callable[[Iterable[int]], None]

    def __setitem__(self, flat: int, barrier: Barrier) -> None:
        super().__setitem__(flat, barrier)
        self.changed(self)

    def pop(self, flat: int, *default: Any) -> Any:  # noqa: ANN401 - as of a dict
        found = super().pop(flat, *default)
        self.changed(self)
        return found
