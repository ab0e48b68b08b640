"""Device memory that a program and the emulator share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from kernelrig.emu.cudart.device_memory import PAGE, Change, DeviceMemory, Kind

SPAN = 1 << 24


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    made = DeviceMemory(SPAN, SPAN // 2)
    yield made
    made.close()


def allocate(memory: DeviceMemory, size: int, name: str = "a", kind: Kind = Kind.DEVICE) -> int:
    made = memory.allocate(size, kind, name)
    assert made is not None
    return made.start


def test_a_private_view_keeps_what_it_writes_to_itself(memory: DeviceMemory) -> None:
    start = allocate(memory, 3 * PAGE)
    view = memory.arena.copy()
    view.bytes[start + PAGE] = 7
    view.written[start + 2 * PAGE] = 1
    assert memory.arena.bytes[start + PAGE] == 0
    (change,) = view.changes()
    assert (change.start, len(change.bytes)) == ((start + PAGE) // PAGE * PAGE, 2 * PAGE)
    memory.apply([change])
    assert (memory.arena.bytes[start + PAGE], memory.arena.written[start + 2 * PAGE]) == (7, 1)


def test_a_change_is_inside_its_allocation_and_none_of_what_is_read_only(
    memory: DeviceMemory,
) -> None:
    start = allocate(memory, 100)
    constant = allocate(memory, 100, "c", Kind.CONSTANT)
    view = memory.arena.copy()
    view.bytes[start : start + 100] = 1
    view.bytes[constant] = 1
    (change,) = view.changes()
    assert (change.start, change.bytes.tolist()) == (start, [1] * 100)


def test_a_view_begins_with_what_the_file_holds(memory: DeviceMemory) -> None:
    start = allocate(memory, 64)
    memory.apply([Change(start, np.full(64, 5, np.uint8), np.ones(64, np.uint8))])
    view = memory.arena.copy()
    assert view.bytes[start : start + 64].tolist() == [5] * 64
    assert view.changes() == []


def test_freed_memory_is_named_and_not_used_again(memory: DeviceMemory) -> None:
    first = memory.allocate(4096, Kind.DEVICE, "old")
    assert first is not None
    memory.arena.written[first.start : first.start + 4096] = 1
    assert memory.free(first.address)
    assert not memory.free(first.address)
    assert allocate(memory, 4096, "new") > first.start + 4096
    assert memory.arena.near(first.start + 8, 4) == (
        "old was there (4096 bytes), and has been freed",
        "old",
    )
    assert not memory.arena.written[first.start : first.start + 4096].any()


def test_there_is_no_more_than_the_capacity(memory: DeviceMemory) -> None:
    assert memory.allocate(SPAN // 2 + 1, Kind.DEVICE, "a") is None
    allocate(memory, SPAN // 2)
    assert memory.allocate(1, Kind.DEVICE, "b") is None


def test_room_between_allocations_is_used_when_the_end_is_reached(memory: DeviceMemory) -> None:
    starts = [allocate(memory, 1 << 20, str(n)) for n in range(4)]
    found = memory.find((0x7F << 40) + starts[1])
    assert found is not None
    memory.free(found.address)
    for _ in range(40):
        again = memory.allocate(1 << 20, Kind.DEVICE, "again")
        if again is None or again.start == starts[1]:
            break
        memory.free(again.address)
    assert again is not None
    assert again.start == starts[1]


def test_what_is_mapped_side_by_side_is_one_allocation(memory: DeviceMemory) -> None:
    address = memory.reserve(4 * PAGE, PAGE)
    assert address is not None
    assert memory.find(address) is None
    behind = allocate(memory, 10)
    for number in (0, 2, 1):
        assert memory.map(address + number * PAGE, PAGE, f"part {number}")
    whole = memory.find(address + 2 * PAGE)
    assert whole is not None
    assert (whole.address, whole.size, whole.name) == (address, 3 * PAGE, "part 2")
    assert behind >= whole.start + 4 * PAGE
    assert memory.map(address + PAGE, PAGE, "again") is None
    memory.arena.bytes[whole.start : whole.start + 3 * PAGE] = 9
    assert memory.unmap(address + PAGE, PAGE)
    assert not memory.unmap(address + PAGE, PAGE)
    assert memory.find(address + PAGE) is None
    assert memory.used == 2 * PAGE + 10
    ends = [memory.find(address + n * PAGE) for n in (0, 2)]
    assert [(one.address - address, one.size) for one in ends if one] == [
        (0, PAGE),
        (2 * PAGE, PAGE),
    ]
    assert memory.map(address + PAGE, PAGE, "new")
    assert memory.arena.bytes[whole.start :: PAGE][:3].tolist() == [9, 0, 9]


def test_no_more_is_reserved_than_can_be_allocated(memory: DeviceMemory) -> None:
    assert memory.reserve(memory.capacity, PAGE) is not None
    assert memory.reserve(PAGE, PAGE) is None
