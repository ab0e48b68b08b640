"""The heap of malloc in kernels: blocks, what is freed, and what cannot be."""

from __future__ import annotations

from kernelrig.emu.machine.device_heap import DEVICE_HEAP, DeviceHeap, device_heap
from kernelrig.emu.machine.state_spaces import GLOBAL_BASE, GlobalMemory


def heap(size: int = 256) -> tuple[DeviceHeap, GlobalMemory]:
    memory = GlobalMemory()
    memory.allocate("a", 64)
    memory.allocate(DEVICE_HEAP, size)
    memory.settle()
    made = device_heap(memory)
    assert made is not None
    return made, memory


def test_blocks_are_aligned_and_apart_and_unwritten() -> None:
    made, memory = heap()
    first, second = made.allocate(20), made.allocate(1)
    assert first % 16 == second % 16 == 0
    assert second >= first + 32
    assert not memory.written[first - GLOBAL_BASE : first - GLOBAL_BASE + 32].any()


def test_a_full_heap_gives_nothing_until_a_block_is_freed() -> None:
    made, memory = heap(400)
    first = made.allocate(100)
    memory.written[first - GLOBAL_BASE : first - GLOBAL_BASE + 100] = 1
    assert made.allocate(200) != 0
    assert made.allocate(100) == 0
    assert made.free(first) == ""
    assert not memory.written[first - GLOBAL_BASE : first - GLOBAL_BASE + 100].any()
    assert made.allocate(64) == first


def test_what_cannot_be_freed_is_said() -> None:
    made, _ = heap()
    first = made.allocate(40)
    assert made.free(first) == ""
    assert made.free(first) == "it was freed before"
    assert made.free(first + 16) == "no block of the heap begins there"
    assert "no address that malloc returned" in made.free(GLOBAL_BASE + 8)


def test_memory_may_have_no_heap() -> None:
    memory = GlobalMemory()
    memory.settle()
    assert device_heap(memory) is None
