"""What operations read and write, told to the observers in the core or left to Python's."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES, SLOT_BYTES
from kernelrig.emu.native.library import library
from kernelrig.emu.native.memory import ARENAS, NativeMemory

from tests.emu.native.lane_functions import Array, as_masks
from tests.emu.native.memory_states import SHARED_BYTES, State, new_state

TRIALS = 60
AT = 0


@dataclass
class Access:
    """What an operation reads or writes: so many bytes from each start."""

    space: str
    starts: Array
    size: int
    write: bool

    @staticmethod
    def drawn(state: State, rng: np.random.Generator) -> Access:
        space = str(rng.choice(["global", "shared"]))
        size = int(rng.choice([1, 2, 4, 12, 16, 24, 32, 100, 128, 256]))
        start, limit = SLOT_BYTES + RESERVED_BYTES, SHARED_BYTES
        if space == "global":
            one = state.machine.memory.global_.allocations[int(rng.integers(0, 2))]
            start, limit = one.start, one.size
        unit = int(rng.choice([1, 16]))
        starts = rng.integers(0, (limit - size) // unit, int(rng.integers(0, 9))) * unit + start
        return Access(space, starts.astype(np.int64), size, bool(rng.random() < 0.5))


def marked(state: State, seed: int) -> State:
    made = state.fresh(seed, True)
    assert made.use.non_coherent is not None
    rng = np.random.default_rng(seed)
    one = made.machine.memory.global_.allocations[0]
    made.use.non_coherent[one.start + rng.integers(0, one.size, 40)] = 1 + seed % 2
    return made


def told(state: State, access: Access) -> None:
    """Tell the observers of Python."""
    hooks: Any = state.machine.hooks
    op = Op("cp.async.bulk", state.machine, np.arange(8), 0, 0, AT, "async")
    hooks.op_accessed(op, access.space, access.starts, access.size, access.write)


def reports(state: State) -> int:
    return sum(f.count for f in state.machine.findings.all)


@pytest.fixture(scope="module")
def state() -> State:
    return new_state()


def test_operations_leave_the_traces_that_pythons_observers_leave(state: State) -> None:
    plain = 0
    for seed in range(TRIALS):
        rng = np.random.default_rng(seed)
        left, right = marked(state, seed), marked(state, seed)
        memory = NativeMemory(right.machine)
        memory.start(as_masks(right.machine.alive))
        for access in (Access.drawn(left, rng) for _ in range(3)):
            before, found = left.traces(), reports(left)
            told(left, access)
            is_plain = library().core_observe_operation(
                ctypes.byref(memory.table), AT, ARENAS.index(access.space),
                ctypes.c_void_p(access.starts.ctypes.data), ctypes.c_int64(len(access.starts)),
                access.size, access.write,
            )  # fmt: skip
            plain += is_plain
            if not is_plain:
                assert reports(left) > found or not len(access.starts), f"{seed}: {access}"
                for name, held in right.traces().items():
                    assert np.array_equal(held, before[name]), f"{seed}: {name}"
                told(right, access)
            for name, held in left.traces().items():
                assert np.array_equal(held, right.traces()[name]), f"{seed}: {name}"
        memory.settle()
        assert left.machine.counts == right.machine.counts
        assert left.machine.findings.all == right.machine.findings.all
        assert np.array_equal(
            left.last.copied_by(left.machine), right.last.copied_by(right.machine)
        )
    assert TRIALS < plain < 3 * TRIALS
