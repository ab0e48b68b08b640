"""Bulk copies: what those of plain bytes and those of tensor boxes have in common.

PTX ISA 9.7.9.25.4 and 9.7.9.27. A load reads global memory, writes shared memory, and then
completes its bytes on an mbarrier (complete_tx); a store reads shared memory, then writes, and is
in a bulk group. Each of these is an event of its own, so that a schedule can put others between
them: that is what finds a wait that is missing. A copy at fault still completes its bytes, so that
one fault is not reported as a deadlock too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import is_running, locate
from kernelrig.emu.machine.async_groups import BulkGroups
from kernelrig.emu.machine.findings import NO_CONTEXT, Context
from kernelrig.emu.machine.lane_groups import value_at
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import (
    GLOBAL_BASE,
    OFFSET_MASK,
    RANK_SHIFT,
    RESERVED_BYTES,
    SLOT_BYTES,
)
from kernelrig.emu.numerics.arrays import LANES, Array

CHUNK = 16  # bytes: of addresses and sizes
Bytes = NDArray[np.uint8]


class Issuer(NamedTuple):
    """The thread that starts a copy by the instruction `what`."""

    batch: WarpBatch
    row: int
    lane: int
    what: str

    @property
    def mask(self) -> NDArray[np.bool_]:
        mask = np.zeros((self.batch.size, LANES), np.bool_)
        mask[self.row, self.lane] = True
        return mask

    @property
    def machine(self) -> Machine:
        return self.batch.machine

    @property
    def cluster_slot(self) -> int:
        """The slot of the first CTA of the thread's cluster."""
        warp = self.batch.warps[self.row]
        return int(self.machine.slot_of[warp] - self.machine.rank_of[warp])

    def value(self, array: Array) -> int:
        """Return what the thread holds in a register."""
        return value_at(array, self.row, self.lane)

    def find(
        self, address: Array, size: int, space: str, part: str, *, write: bool = False,
        align: int = CHUNK,
    ) -> int | None:  # fmt: skip
        """Return the flat position of `size` bytes; None where they were reported at fault."""
        at = self.value(address)
        flat = self._quick(at, size, space, align, write=write)
        if flat is not None:
            return flat
        one = np.full((1, 1), at, np.int64)
        what = f"{part} of {self.what}"
        places = locate(
            self.batch, self.mask, one, max(size, 1), space, what, write=write, align=align
        )
        for place in places:
            spread = np.broadcast_to(place.flat, (self.batch.size, LANES))
            return int(spread[self.row, self.lane])
        return None

    def _quick(self, at: int, size: int, space: str, align: int, *, write: bool) -> int | None:
        """Return the flat position of a valid address without an array; `locate` reports others."""
        machine = self.machine
        if at % align:
            return None
        if space in ("global", "generic"):
            flat = at - GLOBAL_BASE
            home = machine.memory.global_.find(flat)
            fits = home and flat + size <= home.start + home.size
            return flat if fits and home and not (write and home.read_only) else None
        rank, offset = at >> RANK_SHIFT, at & OFFSET_MASK
        inside = offset - RESERVED_BYTES
        if inside < 0 or inside + size > machine.memory.shared_bytes:
            return None
        warp = self.batch.warps[self.row]
        slot, own = int(machine.slot_of[warp]), int(machine.rank_of[warp])
        if rank == own:
            return slot * SLOT_BYTES + offset
        slot += rank - own
        reached = space == "shared::cluster" and 0 <= rank < machine.geometry.cluster_ctas
        return slot * SLOT_BYTES + offset if reached and is_running(machine, slot) else None

    def report(self, kind: str, text: str, same: object = None, rule: str = "") -> None:
        context = Context(rule) if rule else NO_CONTEXT
        self.batch.report(kind, f"{self.what}: {text}", self.mask, same=same, context=context)

    def issue(self, steps: Callable[[Op], Iterator[None]]) -> Op:
        return self.machine.issue(self.batch, self.row, self.lane, self.what, steps)


def issuers(batch: WarpBatch, mask: NDArray[np.bool_] | None, what: str) -> Iterator[Issuer]:
    """Yield each thread in the mask: each starts a copy of its own."""
    for row, lane in batch.threads(mask):
        yield Issuer(batch, row, lane, what)


def storers(
    batch: WarpBatch, mask: NDArray[np.bool_] | None, what: str, *operands: Array
) -> Iterator[Issuer]:
    """Yield each thread that starts a store: lanes of a warp that issue the same one are one.

    Libraries let a whole warp issue a store. By PTX each lane writes the same bytes again, which
    changes nothing; as races of equal writes they would hide what matters.
    """
    seen: dict[tuple[int, ...], Issuer] = {}
    again: dict[tuple[int, ...], int] = {}
    for issuer in issuers(batch, mask, what):
        store = (issuer.row, *map(issuer.value, operands))
        if store in seen:
            again[store] = again.get(store, 1) + 1
        else:
            seen[store] = issuer
            yield issuer
    for store, lanes in again.items():
        text = f"{lanes} lanes of a warp issue the same store; it is emulated once"
        seen[store].report("race", text, "again", rule="store-issued-again")


class Landing(NamedTuple):
    """Where a load's bytes go (-1 for nowhere), and the mbarrier that counts them."""

    flat: int
    slot: int
    offset: int


def landings(
    issuer: Issuer, target: int | None, barrier: int | None, ctas: int | None, pair: bool
) -> tuple[Landing, ...]:
    """Return where a load to `target` lands: `ctas` are the ranks of a multicast, as bits.

    With `pair` (.cta_group::2) the mbarrier may be in the destination's CTA or in its peer.
    """
    if barrier is None:
        return ()
    slot, offset = divmod(barrier, SLOT_BYTES)
    first = issuer.cluster_slot
    size = issuer.machine.geometry.cluster_ctas
    if ctas is None:
        if target is not None:
            _check_barrier(issuer, target // SLOT_BYTES - first, slot - first, pair)
        return (Landing(-1 if target is None else target, slot, offset),)
    if ctas >> size or not ctas:
        text = f"multicast to the CTAs {ctas:#x} of a cluster of {size}: a bit is a rank in it"
        issuer.report("barrier-misuse", text, "multicast")
    found = []
    for rank in range(size):
        if ctas >> rank & 1:
            signalled = rank & ~1 | (slot - first) & 1 if pair else rank
            place = -1 if target is None else (first + rank) * SLOT_BYTES + target % SLOT_BYTES
            found.append(Landing(place, first + signalled, offset))
    return tuple(found)


def _check_barrier(issuer: Issuer, target: int, barrier: int, pair: bool) -> None:
    """Report an mbarrier in a CTA where it must not be; both are ranks."""
    if barrier in ((target, target ^ 1) if pair else (target,)):
        return
    allowed = "that CTA or its peer" if pair else "that CTA, unless .cta_group::2 allows its peer"
    issuer.report(
        "barrier-misuse",
        f"it writes to CTA rank {target} and signals an mbarrier in rank {barrier}: the mbarrier"
        f" must be in {allowed}",
        "mbarrier",
    )


def start_load(
    issuer: Issuer,
    read: Callable[[Op], Bytes],
    write: Callable[[Op, int, Bytes], None],
    where: tuple[Landing, ...],
    size: int,
) -> None:
    """Start a copy of `size` bytes to shared memory."""

    def steps(op: Op) -> Iterator[None]:
        machine = issuer.machine
        data = read(op)
        op.read = True
        order = list(where)
        if len(order) > 1:
            machine.rng.shuffle(order)
        for landing in order:
            yield
            if landing.flat >= 0 and is_running(machine, landing.flat // SLOT_BYTES):
                write(op, landing.flat, data)
            yield
            machine.part(Barriers).op_tx(op, landing.slot, landing.offset, size)

    issuer.issue(steps)


def start_store(
    issuer: Issuer, read: Callable[[Op], Bytes], write: Callable[[Op, Bytes], None]
) -> None:
    """Start a copy from shared memory, in the thread's next bulk group."""

    def steps(op: Op) -> Iterator[None]:
        machine = issuer.machine
        if not is_running(machine, int(machine.slot_of[op.warp])):
            report_exited(op)
        data = read(op)
        op.read = True
        machine.wake(op)
        yield
        write(op, data)

    op = issuer.issue(steps)
    issuer.machine.part(BulkGroups).add(op, op.warp, 1 << issuer.lane)


def report_exited(op: Op) -> None:
    """Report that a store reads shared memory of a CTA that is no more."""
    text = f"{op.name} reads shared memory of a CTA that has exited"
    op.machine.report_op(op, "leak", text, context=Context("source-of-an-exited-cta"))


def read_bytes(op: Op, space: str, flat: int, size: int) -> Bytes:
    """Return a copy of bytes of an arena, and notify observers."""
    machine = op.machine
    if machine.hooks:
        machine.hooks.op_accessed(op, space, np.array([flat]), size, False)
    data: Bytes = machine.memory.arena(space).bytes[flat : flat + size].copy()
    return data


def write_bytes(op: Op, space: str, flat: int, data: Bytes) -> None:
    machine = op.machine
    if machine.hooks:
        machine.hooks.op_accessed(op, space, np.array([flat]), len(data), True)
    arena = machine.memory.arena(space)
    arena.bytes[flat : flat + len(data)] = data
    arena.written[flat : flat + len(data)] = 1
