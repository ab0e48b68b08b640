"""The heap of malloc and free in kernels: an allocation with blocks in it, each behind a header.

Its state lies in its own bytes, so that it lasts from launch to launch, and each schedule has its
own. Blocks that were freed are used again only where the rest is full: a use after a free reads
what nothing wrote.
"""

from __future__ import annotations

import struct

from kernelrig.emu.machine.state_spaces import GLOBAL_BASE, Allocation, GlobalMemory

DEVICE_HEAP = "the device heap"
DEFAULT_BYTES = 8 << 20
"""Of cudaLimitMallocHeapSize."""
_HEAD, _GRAIN = 16, 16
_BLOCK = struct.Struct("<QQ")  # size, state
_LIVE, _FREED = 0x6576696C, 0x65657266


class DeviceHeap:
    """The heap that lies in `home`."""

    def __init__(self, memory: GlobalMemory, home: Allocation) -> None:
        self._memory, self._home = memory, home

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes that nothing has written, 0 where there is no room."""
        size = -(-max(size, 1) // _GRAIN) * _GRAIN
        end = max(self._word(0), _HEAD)
        if end + _HEAD + size > self._home.size:
            return self._again(size, end)
        self._put(0, end + _HEAD + size, 0)
        return self._made(end, size)

    def free(self, address: int) -> str:
        """Free a block; return what is wrong with it, "" if nothing."""
        at = address - GLOBAL_BASE - self._home.start - _HEAD
        if not _HEAD <= at < self._word(0) or at % _GRAIN:
            return "it is no address that malloc returned in a kernel"
        size, state = self._block(at)
        if state == _FREED:
            return "it was freed before"
        if state != _LIVE:
            return "no block of the heap begins there"
        self._put(at, size, _FREED)
        self._mark(at + _HEAD, size)
        return ""

    def _again(self, size: int, end: int) -> int:
        """Use a freed block again, the first that is large enough."""
        at = _HEAD
        while at < end:
            held, state = self._block(at)
            if state == _FREED and held >= size:
                return self._made(at, held)
            at += _HEAD + held
        return 0

    def _made(self, at: int, size: int) -> int:
        self._put(at, size, _LIVE)
        self._mark(at + _HEAD, size)
        return self._home.address + at + _HEAD

    def _block(self, at: int) -> tuple[int, int]:
        start = self._home.start + at
        size, state = _BLOCK.unpack(self._memory.bytes[start : start + _HEAD].tobytes())
        return size, state

    def _word(self, at: int) -> int:
        return self._block(at)[0]

    def _put(self, at: int, size: int, state: int) -> None:
        self._memory.fill(self._home, _BLOCK.pack(size, state), at)

    def _mark(self, at: int, size: int) -> None:
        """Make a block as if nothing had written it."""
        start = self._home.start + at
        self._memory.written[start : start + size] = 0


def device_heap(memory: GlobalMemory) -> DeviceHeap | None:
    """Return the heap of this memory; None where it has none."""
    home = next((a for a in memory.allocations if a.name == DEVICE_HEAP), None)
    return DeviceHeap(memory, home) if home else None
