"""Machines whose memory holds something, and addresses into it, good ones and bad ones."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from kernelrig.emu.isa.families import instruction_table
from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.machine.state_spaces import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    RANK_SHIFT,
    RESERVED_BYTES,
    SHARED_WINDOW,
    SLOT_BYTES,
    Arena,
)
from kernelrig.emu.observe.composite import CompositeObserver
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.memory import MemoryUse
from kernelrig.ptx import parse_ptx
from numpy.typing import NDArray

from tests.emu.harness import kernel_text, run_text

Array = NDArray[Any]
SHARED_BYTES, LOCAL_BYTES = 2048, 96
GONE = 3  # the slot of a CTA that has exited
BARRIER = RESERVED_BYTES + 64  # of slot 1
MODULE = ".const .align 16 .b8 table[512]; .shared .align 128 .b8 tile[2048];"


@dataclass
class State:
    """A machine of 2 clusters of 2 CTAs of 2 warps, with the observers that the core knows."""

    machine: Machine
    use: MemoryUse = field(default_factory=MemoryUse)
    last: LastWriter = field(default_factory=LastWriter)

    def fresh(self, seed: int, observed: bool) -> State:
        """Return another machine of its own whose memory holds what `seed` says."""
        rng = np.random.default_rng(seed)
        machine = copy.copy(self.machine)
        machine.memory = copy.copy(machine.memory)
        machine.memory.global_ = machine.memory.global_.copy()
        machine.memory.shared = Arena(len(machine.memory.shared))
        machine.memory.local = Arena(len(machine.memory.local))
        for arena in (machine.memory.global_, machine.memory.shared, machine.memory.local):
            for start, size in self._used(arena):
                arena.bytes[start : start + size] = rng.integers(0, 256, size, np.uint8)
                arena.written[start : start + size] = 1
                arena.written[start + rng.integers(0, size, 2)] = 0
        machine.findings, machine.counts = Findings(), {}
        machine.rng = random.Random(seed)
        made = State(machine)
        machine._parts = {}
        barrier = Barrier(1, BARRIER, 1, (0, 0))
        machine.part(Barriers)._live[SLOT_BYTES + BARRIER] = barrier
        machine.hooks = None
        if observed:
            made.use.non_coherent = np.zeros(len(machine.memory.global_), np.uint8)
            machine.hooks = CompositeObserver((made.use, Init(), made.last))
        return made

    def _used(self, arena: Arena) -> list[tuple[int, int]]:
        """Return where the bytes of an arena are that can be accessed."""
        memory = self.machine.memory
        if len(arena) == len(memory.global_):
            return [(one.start, one.size) for one in memory.global_.allocations]
        if len(arena) == len(memory.local):
            return [(0, len(arena))]
        return [(slot * SLOT_BYTES + RESERVED_BYTES, SHARED_BYTES) for slot in range(4)]

    def traces(self) -> dict[str, Array]:
        """Return all that an access may change but for registers."""
        memory = self.machine.memory
        found: dict[str, Array] = {}
        for space in ("global", "shared", "local"):
            found[f"{space} bytes"] = memory.arena(space).bytes.copy()
            found[f"{space} marks"] = memory.arena(space).written.copy()
        found["last writer"] = self.last.of_machine(self.machine).copy()
        if self.use.non_coherent is not None:
            found["marks of ld.global.nc"] = self.use.non_coherent.copy()
        return found


def new_state() -> State:
    buffers = {"a": np.zeros(4096, np.uint8), "b": np.zeros(1000, np.uint8)}
    text = kernel_text(
        f".local .align 32 .b8 frame[{LOCAL_BYTES}]; mov.u32 %r1, tile;"
        + " add.u32 %r1, %r1, 1;" * 4,  # what a trial takes the place of is there
        list(buffers), "sm_100a", "", MODULE,
    )  # fmt: skip
    ran = run_text(text, buffers, grid=(4, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1)).ran
    machine = ran.machine
    assert machine.memory.shared_bytes == SHARED_BYTES
    assert machine.memory.local_bytes == LOCAL_BYTES
    machine.alive = np.ones((8, 32), np.bool_)
    machine.alive[2 * GONE : 2 * GONE + 2] = False
    return State(machine)


def step_of(text: str) -> Step:
    """Return the step of one instruction."""
    entry = parse_ptx(kernel_text(text, [], "sm_100a"), "one.ptx").function("k")
    assert entry is not None
    return instruction_table().find(entry.instructions[0]).build(entry.instructions[0])


class Addresses:
    """Random addresses of `size` bytes for the 8 warps of a state: (8, 32) of I64."""

    def __init__(self, state: State, space: str, size: int, seed: int) -> None:
        self.machine = state.machine
        self.space, self.size = space, size
        self.rng = np.random.default_rng(seed)

    def good(self) -> Array:
        """Return places that are right for all lanes."""
        kind = self.rng.integers(0, 4)
        space = self.space
        if space == "generic":
            space = str(self.rng.choice(["global", "cluster", "local"]))
            window = {"global": 0, "cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}[space]
            return self._inside(space, int(kind)) + window
        return self._inside(space, int(kind))

    def _inside(self, space: str, kind: int) -> Array:
        """0: one behind the other, 1: with a stride, 2: anywhere, 3: one place, of each warp."""
        limit, base = LOCAL_BYTES, np.zeros((8, 1), np.int64)
        if space == "global":
            one = self.machine.memory.global_.allocations[int(self.rng.integers(0, 2))]
            limit, base = one.size, base + GLOBAL_BASE + one.start
        elif space != "local":
            limit = SHARED_BYTES
            base = (self.machine.rank_of[:, None] << RANK_SHIFT) + RESERVED_BYTES
            if space == "cluster" and self.rng.random() < 0.4:
                base = base + ((self.rng.integers(0, 2, (8, 32))) << RANK_SHIFT) * np.where(
                    self.machine.rank_of[:, None] == 0, 1, -1
                )
        units = limit // self.size
        lane = np.arange(32)[None, :]
        if kind == 0:
            place = lane + self.rng.integers(0, max(units - 31, 1))
        elif kind == 1:
            place = lane * self.rng.integers(1, 9)
        elif kind == 2:
            place = self.rng.integers(0, units, (8, 32))
        else:
            place = np.full((8, 32), self.rng.integers(0, units))
        return np.asarray(base + np.broadcast_to(place % units * self.size, (8, 32)))

    def spoiled(self) -> Array:
        """Return places of which some lanes' are wrong, or unusual."""
        made = self.good().copy()
        row, lane = (int(n) for n in self.rng.integers(0, [8, 32]))
        match int(self.rng.integers(0, 9)):
            case 0:
                made[row, lane] += 1
            case 1:
                made[row, lane] += 1 << 14
            case 2:
                made[row, lane] = int(self.rng.integers(0, 9))
            case 3:
                made[row, lane] = int(self.rng.integers(-(1 << 63), 1 << 63))
            case 4:
                made[row] = GLOBAL_BASE + self.machine.memory.global_.allocations[2].start
            case 5:
                made[row] = SHARED_WINDOW + (int(self.rng.integers(0, 3)) << RANK_SHIFT) + 0x400
            case 6:
                made[row, lane:] ^= 1 << RANK_SHIFT
            case 7:
                made[row, lane] = -self.size
            case _:
                made[row, lane] = made[row, 0] + SHARED_BYTES
        return made
