"""Barriers of a CTA and a cluster whose uses the core keeps: its handlers and Python's steps arrive
at the same ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from kernelrig.emu.machine.cta_barrier import ClusterBarriers, CtaBarriers
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.native.barrier_words import NativeUse, UseWords
from kernelrig.emu.native.machine_facade import NativeMachine, PartKind
from kernelrig.emu.numerics.arrays import LANES, Mask


class _InCore:
    """What takes the place of `cta_barrier._Barriers`."""

    machine: NativeMachine
    cluster: ClassVar[bool]

    def __init__(self, machine: NativeMachine) -> None:
        super().__init__(machine)  # type: ignore[call-arg]
        self._known: WeakValueDictionary[int, NativeUse] = WeakValueDictionary()
        self._call(machine.calls.core_uses_touch)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        return function(self.machine.core, self.cluster, *arguments)

    def _use(self, address: int) -> NativeUse:
        number = UseWords.from_address(address).number
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = NativeUse(self.cluster, address)
        return known

    def numbered(self, number: int) -> NativeUse:
        """Return a use that is not complete."""
        return self._use(self._call(self.machine.calls.core_use_of, number))

    def _instance(self, what: str, slot: int, number: int) -> NativeUse:
        return self._use(self._call(self.machine.calls.core_use, slot, number))

    def _owed(self, warp: int, lanes: int) -> int:
        return int(self._call(self.machine.calls.core_use_owed, warp, lanes))

    def _owe(self, warp: int, lanes: int, instance: NativeUse) -> None:
        self._call(self.machine.calls.core_use_owe, warp, lanes, instance.address)

    def _waits_for(self, warp: int, lanes: int) -> list[NativeUse]:
        found = (ctypes.c_int64 * LANES)()
        count = self._call(self.machine.calls.core_use_waits, warp, lanes, found)
        return [self._use(address) for address in found[:count]]

    def _pass(self, warp: int, lanes: int) -> list[tuple[int, NativeUse]]:
        found, passed = (ctypes.c_int64 * LANES)(), (ctypes.c_uint32 * LANES)()
        count = self._call(self.machine.calls.core_use_pass, warp, lanes, found, passed)
        pairs = zip(passed[:count], found[:count], strict=True)
        return [(some, self._use(address)) for some, address in pairs]

    def _come(self, warp: int, lanes: int, instance: NativeUse) -> None:
        self._call(self.machine.calls.core_use_arrive, warp, lanes, instance.address)

    def _arrived(self, warp: int, instance: NativeUse) -> int:
        return int(self._call(self.machine.calls.core_use_arrived, warp, instance.address))

    def _settle(self, instance: NativeUse) -> None:
        self._call(self.machine.calls.core_use_settle, instance.address)

    def exited(self, batch: WarpBatch, mask: Mask) -> None:
        raise NotImplementedError("the core knows who exits")


class NativeCtaBarriers(_InCore, CtaBarriers):  # type: ignore[misc]
    cluster = False


class NativeClusterBarriers(_InCore, ClusterBarriers):  # type: ignore[misc]
    cluster = True

    def has_met(self, first: int) -> bool:
        return bool(self.machine.calls.core_has_met(self.machine.core, first))


PARTS: dict[PartKind, PartKind] = {
    CtaBarriers: NativeCtaBarriers,
    ClusterBarriers: NativeClusterBarriers,
}
"""What takes the place of a part of a machine, whoever observes it."""
