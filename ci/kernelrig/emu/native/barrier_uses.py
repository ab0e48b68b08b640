"""Barriers of a CTA and a cluster whose uses the core keeps: its handlers and Python's steps arrive
at the same ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from kernelrig.emu.machine.cta_barrier import ClusterBarriers, CtaBarriers, Instance
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import LANES, Mask

if TYPE_CHECKING:
    from kernelrig.emu.native.machine_facade import NativeMachine

KINDS = ("", "sync", "red.popc", "red.and", "red.or")
"""What arrives at a barrier, by its number in the core."""
_TOLD = 1 << 40


class _Words(ctypes.Structure):
    """`BarrierUse` of core/sync/cta_barrier.hpp."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "number", "slot", "barrier", "wanted", "kind", "threads", "brought_true", "brought",
            "complete",
        )
    )  # fmt: skip


class UseName(tuple[str, int, int, int]):
    """The name of a use. `told_as` is its number for the core's race detector, whoever says it."""

    __slots__ = ()

    @property
    def told_as(self) -> int:
        return _TOLD | self[3] << 1 | (self[0] != "bar")


def _word(name: str) -> Any:  # noqa: ANN401 - a property
    def read(self: NativeUse) -> int:
        value: int = getattr(self.words, name)
        return value

    def write(self: NativeUse, value: int) -> None:
        setattr(self.words, name, value)

    return property(read, write)


class NativeUse(Instance):
    """A use of a barrier, which lies in the core at `address`."""

    def __init__(self, cluster: bool, address: int) -> None:
        self.cluster = cluster
        self.address = address
        self.words = words = _Words.from_address(address)
        what = "barrier.cluster" if cluster else "bar"
        self.name = UseName((what, words.slot, words.barrier, words.number))

    wanted = _word("wanted")
    threads = _word("threads")
    true = _word("brought_true")
    brought = _word("brought")
    complete = _word("complete")

    @property
    def kind(self) -> str:
        return KINDS[self.words.kind]

    @kind.setter
    def kind(self, value: str) -> None:
        self.words.kind = KINDS.index(value)


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
        number = _Words.from_address(address).number
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


PARTS: dict[Callable[[Any], Any], Callable[[Any], Any]] = {
    CtaBarriers: NativeCtaBarriers,
    ClusterBarriers: NativeClusterBarriers,
}
"""What takes the place of a part of a machine, whoever observes it."""
