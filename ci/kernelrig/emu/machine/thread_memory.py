"""Loads and stores of threads: located, reported to observers, and executed.

Memory instructions of all families share this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    OFFSET_MASK,
    RANK_SHIFT,
    RESERVED_BYTES,
    SHARED_WINDOW,
    SLOT_BYTES,
)
from kernelrig.emu.numerics.arrays import LANES, UNSIGNED, Array, Mask
from kernelrig.ptx import Instruction

SPACES = ("global", "const", "param", "shared", "shared::cta", "shared::cluster", "local")
SCOPES = ("cta", "cluster", "gpu", "sys")
SEMANTICS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
NO_VALUE = (
    "ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last"
    " L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B"
    " L2::128B L2::256B"
)
"""Qualifiers for caches: they change no value that a program can see."""
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_SPACE_NUMBERS = {
    "global": 0, "const": 0, "param": 0, "shared": 1, "shared::cta": 1, "shared::cluster": 2,
    "local": 3, "generic": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemorySemantics:
    """How an instruction goes to memory: where, under which rules of the memory model."""

    space: str
    sem: str = "weak"
    scope: str = ""
    non_coherent: bool = False  # ld.global.nc: the grid never writes there

    @property
    def synchronises(self) -> bool:
        return self.sem != "weak"

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The space, the semantics and the scope, as the native core has them."""
        return (
            _SPACE_NUMBERS[self.space],
            SEMANTICS.index(self.sem),
            ("", *SCOPES).index(self.scope),
        )


def memory_semantics(i: Instruction, sem: str = "weak", scope: str = "") -> MemorySemantics:
    """Return the qualifiers of a load, store or atomic; `sem` and `scope` are defaults."""
    space = next((s for s in SPACES if s in i.flags), "generic")
    sem = next((s for s in SEMANTICS if s in i.flags), sem)
    scope = next((s for s in SCOPES if s in i.flags), scope)
    if sem in ("relaxed", "acquire", "release", "acq_rel") and not scope:
        raise Unsupported(f"{i.mnemonic}: .{sem} needs a scope: .cta, .cluster, .gpu or .sys")
    if sem == "volatile":
        scope = "sys"
    return MemorySemantics(
        "param" if "param::entry" in i.flags else space, sem, scope, "nc" in i.flags
    )


def vector_length(i: Instruction) -> int:
    return next((count for word, count in VECTORS.items() if word in i.flags), 1)


def load(
    batch: WarpBatch,
    mask: Mask,
    address: Array,
    width: int,
    count: int,
    how: MemorySemantics,
    what: str = "load",
) -> tuple[Array, ...]:
    """Return `count` elements of `width` bytes from each lane's address; 0 for lanes at fault."""
    size = width * count
    places = locate(batch, mask, address, size, how.space, what)
    machine = batch.machine
    values: tuple[Array, ...] = (np.zeros((1, 1), UNSIGNED[width]),) * count
    for space, flat, lanes in places:
        if machine.hooks:
            if how.non_coherent:
                machine.hooks.read_non_coherent(batch, lanes, flat, size)
            machine.hooks.accessed(
                batch, lanes, space, flat, size, False, False, how.sem, how.scope
            )
        read = machine.memory.arena(space).gather(flat, width, count, None)
        if lanes is mask:
            return read
        chosen = batch.mask_of(lanes)
        values = tuple(np.where(chosen, r, v) for r, v in zip(read, values, strict=True))
    return values


def store(
    batch: WarpBatch,
    mask: Mask,
    address: Array,
    values: tuple[Array, ...],
    how: MemorySemantics,
    what: str = "store",
) -> None:
    """Write `values`, unsigned and side by side, to each lane's address."""
    size = values[0].dtype.itemsize * len(values)
    for space, flat, lanes in locate(batch, mask, address, size, how.space, what, write=True):
        machine = batch.machine
        if machine.hooks:
            machine.hooks.accessed(batch, lanes, space, flat, size, True, False, how.sem, how.scope)
            if how.sem == "weak" and space != "local":
                machine.hooks.stored(batch, lanes, space, flat, values)
        machine.memory.arena(space).scatter(flat, values, lanes)


def reader(batch: WarpBatch, row: int, lane: int) -> Callable[[int, int], bytes]:
    """Return what reads a thread's memory by generic address, seen by no observer.

    It returns fewer bytes than it is asked for where its allocation ends, none outside of any.
    """
    memory = batch.machine.memory

    def read(address: int, size: int) -> bytes:
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + memory.local_bytes:
            thread = int(batch.warps[row]) * LANES + lane
            start = thread * memory.local_stride
            at, end = start + address - LOCAL_WINDOW, start + memory.local_bytes
            return memory.local.bytes[at : min(at + size, end)].tobytes()
        home = memory.global_.find(address - GLOBAL_BASE)
        if home is not None:
            at, end = address - GLOBAL_BASE, home.start + home.size
            return memory.global_.bytes[at : min(at + size, end)].tobytes()
        offset = address - SHARED_WINDOW & OFFSET_MASK
        if SHARED_WINDOW <= address < SHARED_WINDOW + (1 << RANK_SHIFT + 4):
            start = int(np.broadcast_to(batch.slot, (batch.size, 1))[row, 0]) * SLOT_BYTES
            at, end = start + offset, start + RESERVED_BYTES + memory.shared_bytes
            return memory.shared.bytes[at : min(at + size, end)].tobytes()
        return b""

    return read
