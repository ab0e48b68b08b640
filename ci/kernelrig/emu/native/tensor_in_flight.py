"""Loads and stores of tensor memory where the core has some of a warp and Python others: those that
are at fault. A wait for them is then Python's, and what the core has settled for it belongs to it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from kernelrig.emu.machine.loads_in_flight import InFlight
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.native.machine_facade import NativeMachine


class _Waited(dict[int, list[Op]]):
    """Operations of Python by warp; a wait asks for, and takes out, those of the core too."""

    def __init__(self, machine: NativeMachine, loads: bool) -> None:
        super().__init__()
        self._machine = machine
        self._loads = loads

    def get(self, warp: int, default: Any = ()) -> Any:  # noqa: ANN401 - dict.get
        """Return them in the order of their issue."""
        machine = self._machine
        asked = machine.core, warp, self._loads
        count = machine.calls.core_tensor_unfinished(*asked, None, 0)
        found = (ctypes.c_int64 * count)()
        machine.calls.core_tensor_unfinished(*asked, found, count)
        own = super().get(warp, default)
        return sorted([*map(machine.queue.op, found), *own], key=lambda op: op.number)

    def pop(self, warp: int, default: Any = ()) -> Any:  # noqa: ANN401 - dict.pop
        return [*self._settled(warp), *super().pop(warp, default)]

    def _settled(self, warp: int) -> list[Op]:
        """Return what the core has just settled, as observers see it: by its clock."""
        machine = self._machine
        count = machine.calls.core_tensor_settled(machine.core, warp, None, 0)
        clocks = (ctypes.c_int64 * count)()
        machine.calls.core_tensor_settled(machine.core, warp, clocks, count)
        name, rows = "tcgen05.ld" if self._loads else "tcgen05.st", np.array([warp])
        return [
            Op(name, machine, rows, 0, -1, -1, "tensor", done=True, read=True, clock=clock)
            for clock in clocks
        ]


class NativeInFlight(InFlight):
    """Loads and stores that no wait has seen complete."""

    def __init__(self, machine: NativeMachine) -> None:
        self.loads = _Waited(machine, True)
        self.stores = _Waited(machine, False)
