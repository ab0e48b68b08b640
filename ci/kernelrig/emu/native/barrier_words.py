"""Barriers whose counts lie in memory that the core reads and writes: mbarriers, and uses of the
barriers of a CTA and a cluster.
"""

from __future__ import annotations

import ctypes
from typing import Any

from kernelrig.emu.machine.cta_barrier import Instance
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.machine.state_spaces import SLOT_BYTES

KINDS = ("", "sync", "red.popc", "red.and", "red.or")
"""What arrives at a barrier of threads, by its number in the core."""
_TOLD = 1 << 40


class BarrierWords(ctypes.Structure):
    """`Barrier` of core/sync/barrier.hpp."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "flat", "slot", "offset", "expected", "pending", "tx", "phase", "announced",
            "made_by_warp", "made_by_lane", "arrived_by", "observed", "number",
        )
    )  # fmt: skip


class UseWords(ctypes.Structure):
    """`BarrierUse` of core/sync/cta_barrier.hpp."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "number", "slot", "barrier", "wanted", "kind", "threads", "brought_true", "brought",
            "complete",
        )
    )  # fmt: skip


def _word(name: str) -> Any:  # noqa: ANN401 - a property
    def read(self: NativeBarrier | NativeUse) -> int:
        value: int = getattr(self.words, name)
        return value

    def write(self: NativeBarrier | NativeUse, value: int) -> None:
        setattr(self.words, name, value)

    return property(read, write)


class NativeBarrier(Barrier):
    """An mbarrier whose counts the core reads and writes."""

    __slots__ = ("words",)

    def __init__(
        self, slot: int, offset: int, expected: int, made_by: tuple[int, int], name: str
    ) -> None:
        self.words = BarrierWords(flat=slot * SLOT_BYTES + offset)
        super().__init__(slot, offset, expected, made_by, name=name)

    slot = _word("slot")
    offset = _word("offset")
    expected = _word("expected")
    pending = _word("pending")
    tx = _word("tx")
    phase = _word("phase")
    announced = _word("announced")
    arrived_by = _word("arrived_by")

    @property
    def observed(self) -> bool:
        return bool(self.words.observed)

    @observed.setter
    def observed(self, value: bool) -> None:
        self.words.observed = value

    @property
    def made_by(self) -> tuple[int, int]:
        return (self.words.made_by_warp, self.words.made_by_lane)

    @made_by.setter
    def made_by(self, value: tuple[int, int]) -> None:
        self.words.made_by_warp, self.words.made_by_lane = value


class UseName(tuple[str, int, int, int]):
    """The name of a use. `told_as` is its number for the core's race detector, whoever says it."""

    __slots__ = ()

    @property
    def told_as(self) -> int:
        return _TOLD | self[3] << 1 | (self[0] != "bar")


class NativeUse(Instance):
    """A use of a barrier, which lies in the core at `address`."""

    def __init__(self, cluster: bool, address: int) -> None:
        self.cluster = cluster
        self.address = address
        self.words = words = UseWords.from_address(address)
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
