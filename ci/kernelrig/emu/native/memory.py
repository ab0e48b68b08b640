"""Tells the core where a machine's memory is, and what its observers want to know of it.

The arrays stay those of Python: arenas, marks, the tables of observers. A native access and a
Python step leave their traces in the same place, but for the counts, which `settle` adds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.region_names import SharedRegion
from kernelrig.emu.machine.state_spaces import Memory
from kernelrig.emu.native.core_observer import CoreObserver, each_of
from kernelrig.emu.native.observers import (
    listens_to_barriers,
    listens_to_fences,
    listens_to_threads,
)
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.observe.global_accesses import GlobalAccesses
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.memory import MemoryUse

ARENAS = ("global", "shared", "local")
_BANK_CONFLICTS = "bank_conflicts"
COUNTS: tuple[str, ...] = (
    *(f"{space}_bytes_{kind}" for space in ARENAS for kind in ("read", "write", "atomic")),
    _BANK_CONFLICTS,
    *(f"{space}_bytes_async_{kind}" for space in ARENAS for kind in ("read", "write")),
)
"""What `machine.counts` is called, by the number of it in the core."""
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
        ("arrays", ctypes.c_void_p),
        ("races", ctypes.c_void_p),
        ("publication", ctypes.c_void_p),
        ("accesses", ctypes.c_void_p),
        ("reductions", ctypes.c_void_p),
        ("python_listens", ctypes.c_int64),
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
        hooks = self.machine.hooks
        self.table.python_listens = listens_to_threads(hooks)
        self.table.python_listens_to_fences = listens_to_fences(hooks)
        self.table.python_listens_to_barriers = listens_to_barriers(hooks)
        for observer in each_of(hooks):
            if type(observer) is MemoryUse:
                self._point("counts", self.counts)
                if observer.arrays:
                    self._point("arrays", _places(self.machine, observer.arrays))
                if observer.non_coherent is not None:
                    self._point("non_coherent", observer.non_coherent)
            elif type(observer) is Init:
                self.table.init = True
            elif type(observer) is NativeRaces:
                self.table.races = observer.address
            elif type(observer) is GlobalAccesses:
                self._point("accesses", observer.of_machine(self.machine))
                self._point("reductions", observer.reductions(self.machine))
            elif type(observer) is LastWriter:
                self._point("last_writer", observer.of_machine(self.machine))
                self._point("copied", observer.copied_by(self.machine))

    def settle(self) -> None:
        """Add what the core counted to the machine's counts."""
        counts, found = self.machine.counts, dict(zip(COUNTS, self.counts.tolist(), strict=True))
        shared = any(found[f"shared_bytes_{kind}"] for kind in ("read", "write", "atomic"))
        for name, amount in found.items():
            if amount or (shared and name == _BANK_CONFLICTS):
                counts[name] = counts.get(name, 0) + amount
        self.counts[:] = 0
        for observer in each_of(self.machine.hooks):
            if isinstance(observer, CoreObserver):
                observer.check()

    def _point(self, name: str, array: NDArray[np.generic]) -> None:
        assert array.flags.c_contiguous
        self._kept[name] = array
        setattr(self.table, name, array.ctypes.data)


def _places(machine: Machine, arrays: Mapping[int, SharedRegion]) -> NDArray[np.int32]:
    """Return where the array of each instruction begins and ends; 0 to 0 for none."""
    found = np.zeros((len(machine.program.function.instructions), 2), np.int32)
    for at, array in arrays.items():
        found[at] = array.start, array.end
    return found
