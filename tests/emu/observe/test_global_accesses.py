"""Which bytes of global memory a launch reads and writes, and how strongly."""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernelrig.emu.observe.global_accesses import (
    OF_SYSTEM,
    READ,
    STRONG_READ,
    STRONG_WRITE,
    WRITE,
    GlobalAccesses,
    Ranges,
    joined,
)

from tests.emu.harness import run_ptx

PLACE = """
    ld.param.u64 %rd1, [c]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2; mov.u32 %r2, 1; setp.lt.u32 %p1, %r1, 3;
"""
SYSTEM_WRITE = STRONG_WRITE | OF_SYSTEM
BODIES = {
    "ld.global.u32 %r3, [%rd3];": [(0, 128, READ)],
    "ld.global.nc.u32 %r3, [%rd3+4];": [(4, 132, READ)],
    "st.global.u32 [%rd3], %r2;": [(0, 128, WRITE)],
    "ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd3+64], %r2;": [
        (0, 64, READ),
        (64, 128, READ | WRITE),
        (128, 192, WRITE),
    ],
    "@%p1 st.global.u8 [%rd3], %r2;": [(0, 1, WRITE), (4, 5, WRITE), (8, 9, WRITE)],
    "atom.global.add.u32 %r3, [%rd1], %r2;": [(0, 4, STRONG_WRITE)],
    "red.global.add.u32 [%rd1+8], %r2;": [(8, 12, STRONG_WRITE)],
    "atom.global.cta.add.u32 %r3, [%rd1], %r2;": [(0, 4, WRITE)],
    "ld.relaxed.gpu.global.u32 %r3, [%rd1];": [(0, 4, STRONG_READ)],
    "ld.relaxed.cta.global.u32 %r3, [%rd1];": [(0, 4, READ)],
    "st.volatile.global.u32 [%rd1], %r2;": [(0, 4, SYSTEM_WRITE)],
    "st.release.sys.global.u32 [%rd1], %r2;": [(0, 4, SYSTEM_WRITE)],
}


@pytest.mark.parametrize("body", BODIES)
def test_accesses_of_threads(body: str) -> None:
    seen = GlobalAccesses()
    c = np.zeros(64, np.uint32)
    machine = run_ptx(PLACE + body, {"c": c}, block=(32, 1, 1), observers=[seen]).ran.machine
    (start,) = (a.start for a in machine.memory.global_.allocations if a.name == "c")
    ranges, whole = seen.ranges(machine, 100)
    found = [(low - start, high - start, bits) for low, high, bits in ranges.tolist()]
    assert ([row for row in found if 0 <= row[0] < c.nbytes], whole) == (BODIES[body], True)


def test_no_more_ranges_than_are_asked_for() -> None:
    seen = GlobalAccesses()
    body = f"{PLACE} @%p1 st.global.u8 [%rd3], %r2;"
    c = np.zeros(64, np.uint32)
    machine = run_ptx(body, {"c": c}, block=(32, 1, 1), observers=[seen]).ran.machine
    every, _ = seen.ranges(machine, 100)
    some, whole = seen.ranges(machine, len(every) - 1)
    assert (some.tolist(), whole) == (every.tolist()[:-1], False)


def test_ranges_of_schedules_are_joined() -> None:
    draw = random.Random(1)
    for _ in range(200):
        marks = [[draw.choice((0, 0, 1, 2, 3, 12)) for _ in range(24)] for _ in range(3)]
        wanted = [one | two | three for one, two, three in zip(*marks, strict=True)]
        assert _marked(joined([_ranges(each) for each in marks])) == wanted
    assert joined([]).tolist() == []


def _ranges(marks: list[int]) -> Ranges:
    rows = [(at, at + 1, bits) for at, bits in enumerate(marks) if bits]
    return np.array(rows, np.int64).reshape(-1, 3)


def _marked(ranges: Ranges) -> list[int]:
    marks = [0] * 24
    for low, high, bits in ranges.tolist():
        assert marks[low:high] == [0] * (high - low)
        marks[low:high] = [bits] * (high - low)
    return marks
