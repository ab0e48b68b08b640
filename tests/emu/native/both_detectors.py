"""The race detector in both of its forms, told the same events: they must say the same."""
# ruff: noqa: ANN401 - arguments of any event

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.observe.races import Races
from numpy.typing import NDArray

FIELDS = ("cluster", "column", "time", "need", "asynchronous", "at", "cta", "level", "write")
RECORD = np.dtype(
    [(name, np.int32) for name in (*FIELDS, "size")]
    + [("mask", np.uint32), ("asks", np.uint32), ("actor", np.uint64)]
)


class BothDetectors:
    """Hands each event to both; what the one reports and records must be what the other does."""

    def __init__(self) -> None:
        self.python = Races()
        self.native = NativeRaces()
        self.machine: Any = None
        self._mirror: Any = None  # the machine that the Python one reports to
        self._compared = 0  # findings
        self._ops: dict[Op, Op] = {}

    def started(self, machine: Any) -> None:
        self.machine, self._mirror = machine, copy.copy(machine)
        self._mirror.findings = list(machine.findings)
        self.python.started(self._mirror)
        self.native.started(machine)

    def __getattr__(self, event: str) -> Callable[..., None]:
        def tell(*arguments: Any, **named: Any) -> None:
            getattr(self.python, event)(*arguments, **named)
            getattr(self.native, event)(*map(self._own, arguments), **named)
            theirs, ours = self.machine.findings, self._mirror.findings
            assert len(theirs) == len(ours)
            assert theirs[self._compared :] == ours[self._compared :]
            self._compared = len(ours)
            assert self.python.records.count == self._records()[1]

        return tell

    def _own(self, argument: Any) -> Any:
        """Return what stands for an operation in the native one: each keeps its own notes on it."""
        if isinstance(argument, list):
            return [self._own(each) for each in argument]
        if isinstance(argument, Op):
            return self._ops.setdefault(argument, copy.copy(argument))
        return argument

    @property
    def records(self) -> NDArray[Any]:
        """The records of the native detector; number 0 stands for what was before."""
        first, count = self._records()
        raw = (ctypes.c_char * (RECORD.itemsize * count)).from_address(first)
        return np.frombuffer(memoryview(raw), RECORD)

    def _records(self) -> tuple[int, int]:
        """Return where they are, and how many."""
        count = ctypes.c_int64()
        first = self.native._core.races_records(self.native._races, ctypes.byref(count))
        return first, count.value

    def same_records(self) -> bool:
        theirs, ours = self.records[1:], self.python.records
        rows = slice(1, ours.count)
        return (theirs["mask"] == ours.mask[rows]).all() and all(
            (theirs[name] == getattr(ours, name)[rows]).all() for name in FIELDS
        )
