"""cp.async: each thread copies 4, 8 or 16 bytes from global to shared memory.

Its accesses are weak ones of the generic proxy; the wait of a thread shows it its own copies. What
the lanes of a warp copy by one instruction is one operation: they read together, and write together
some time later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed, source
from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, partly, read
from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.async_groups import CopyGroups
from kernelrig.emu.machine.copy_arrivals import CopyArrivals
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Row,
    Step,
    Unsupported,
    row,
)
from kernelrig.emu.machine.lane_groups import by_place
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.machine.thread_memory import NO_VALUE
from kernelrig.emu.numerics.arrays import BOOL, U32, Array, Mask, lane_bits
from kernelrig.ptx import Instruction, Integer, Register

_SIZES = (4, 8, 16)
_NOWHERE = -1

_GROUPS = 1
_WHOLE, _GIVEN, _IGNORED = range(3)
_SPACES = {"shared": 1, "generic": 4}
"""Kinds of groups, limits of what is copied, and spaces, by their numbers in the core."""


def _copy(i: Instruction) -> Step:
    """cp.async [dst], [src], size{, src-size | ignore-src}{, cache-policy}."""
    policy = int("L2::cache_hint" in i.flags)
    operands = list(expect(i, 3 + policy, 4 + policy))[: len(i.operands) - policy]
    if not isinstance(operands[2], Integer):
        raise Unsupported(f"{i.mnemonic}: two addresses and a constant size are needed")
    size = operands[2].value
    if size not in _SIZES or ("cg" in i.flags and size != 16):
        raise Unsupported(f"{i.mnemonic}: {size} bytes; .ca copies 4, 8 or 16, .cg 16")
    limit: tuple[Read, ...] = ()
    last = operands[3] if len(operands) == 4 else None
    ignores = isinstance(last, Register) and last.type == "pred"
    if last is not None:
        limit = (read(last, BOOL) if ignores else source(i, last, U32),)

    def run(
        batch: WarpBatch, mask: Mask, to: Array, source: Array, given: Array | None = None
    ) -> None:
        if given is None:
            amount = np.full((1, 1), size, np.int64)
        elif ignores:
            amount = np.where(given, 0, size)
        else:
            amount = given.astype(np.int64)
        _start(batch, mask, to, source, size, amount)

    places = (bracketed(i, operands[0]), bracketed(i, operands[1]))
    limits = _IGNORED if ignores else _GIVEN if limit else _WHOLE
    native = Native("cp.async", (size, limits))
    return Step(run, (*places, *limit), effect=True, stop=True, native=native)


def _start(
    batch: WarpBatch, mask: Mask, to: Array, source: Array, size: int, amount: Array
) -> None:
    """Start a copy for each lane: `amount` bytes from `source`, then zeros up to `size`."""
    for _, target, lanes in locate(batch, mask, to, size, "shared", "cp.async", write=True):
        chosen = batch.mask_of(lanes)
        amounts = np.broadcast_to(amount, chosen.shape)
        over = chosen & (amounts > size)
        if over.any():
            text = f"cp.async of {size} bytes from {int(amounts[over][0])}: src-size is larger"
            batch.report("descriptor", text, over)
            amounts = np.minimum(amounts, size)
        start = np.full(chosen.shape, _NOWHERE)
        for wanted in np.unique(amounts[chosen]):
            some = chosen & (amounts == wanted)
            if wanted == 0:  # the source is not read: any address will do
                start[some] = 0
                continue
            what = "source of cp.async"
            for _, flat, found in locate(
                batch, some, source, int(wanted), "global", what, align=size
            ):
                start[batch.mask_of(found)] = np.broadcast_to(flat, some.shape)[found]
        targets = np.broadcast_to(target, chosen.shape)
        groups = batch.machine.part(CopyGroups)
        found = chosen & (start != _NOWHERE)
        for r in np.flatnonzero(found.any(axis=1)).tolist():
            for wanted in np.unique(amounts[r][found[r]]).tolist():
                alike = np.flatnonzero(found[r] & (amounts[r] == wanted))
                copies = _Copies(start[r][alike], wanted, targets[r][alike], size)
                op = batch.machine.issue(
                    batch, r, -1, "cp.async", copies, proxy="generic", lanes=alike.tolist()
                )
                groups.add(op, int(batch.warps[r]), op.bits)


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """What lanes of a warp copy, each `amount` bytes: flat positions by lane."""

    sources: Array
    amount: int
    targets: Array
    size: int

    def __call__(self, op: Op) -> Iterator[None]:
        machine = op.machine
        data = np.zeros((len(self.targets), self.size), np.uint8)
        if self.amount:
            if machine.hooks:
                machine.hooks.op_accessed(op, "global", self.sources, self.amount, False)
            span = self.sources[:, None] + np.arange(self.amount)
            data[:, : self.amount] = machine.memory.global_.bytes[span]
        op.read = True
        yield
        if machine.hooks:
            machine.hooks.op_accessed(op, "shared", self.targets, self.size, True)
        span = self.targets[:, None] + np.arange(self.size)
        machine.memory.shared.bytes[span] = data
        machine.memory.shared.written[span] = 1
        machine.part(CopyArrivals).ended(op)


def _commit(i: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(CopyGroups).commit(batch, mask)

    return Step(run, effect=True, native=Native("group.commit", (_GROUPS,)))


def _wait(i: Instruction) -> Step:
    """wait_all is a commit and a wait for everything."""
    newest: int | None = None
    if "wait_group" in i.flags:
        count = i.operand(0)
        if not isinstance(count, Integer) or count.value < 0:
            raise Unsupported(f"{i.mnemonic}: a constant number of groups is needed")
        newest = count.value

    def ready(batch: WarpBatch, mask: Mask) -> Blocked | None:
        return batch.machine.part(CopyGroups).must_wait(batch, mask, newest)

    def run(batch: WarpBatch, mask: Mask) -> None:
        groups = batch.machine.part(CopyGroups)
        if newest is None:
            groups.commit(batch, mask)
        groups.waited(batch, mask, newest or 0)

    native = Native("group.wait", (_GROUPS, -1 if newest is None else newest, 0))
    return Step(run, effect=True, ready=ready, native=native)


def _arrive(i: Instruction) -> Step:
    """cp.async.mbarrier.arrive: an arrival of the thread when its copies so far are done.

    It adds 1 to what is pending now; .noinc does not, and the init counts it.
    """
    adds = "noinc" not in i.flags
    space = "shared" if "shared" in i.flags or "shared::cta" in i.flags else "generic"

    def run(batch: WarpBatch, mask: Mask, address: Array) -> None:
        barriers = batch.machine.part(Barriers)
        arrivals = batch.machine.part(CopyArrivals)
        for _, flat, lanes in locate(batch, mask, address, 8, space, "cp.async.mbarrier.arrive"):
            for at, some in by_place(batch, lanes, flat):
                slot, offset = divmod(at, SLOT_BYTES)
                barrier = barriers.find(slot, offset)
                if barrier and adds:
                    barrier.pending += int(some.sum())
                for r in np.flatnonzero(some.any(axis=1)).tolist():
                    arrivals.arrive_later(batch, r, lane_bits(some[r]), slot, offset)

    native = Native("cp.async.mbarrier.arrive", (int(adds), _SPACES[space]))
    return Step(run, (bracketed(i, expect(i, 1)[0]),), effect=True, stop=True, native=native)


_COPY = f"ca cg shared shared::cta {NO_VALUE}"

_TRIED = {
    "cp.async.global": "ca cg shared",
    "cp.async.wait_all": "",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("cp", _copy, needs="async global", takes=_COPY),
        row("cp", _commit, needs="async commit_group"),
        row("cp", _wait, needs="async wait_group"),
        row("cp", _wait, needs="async wait_all"),
        row("cp", _arrive, needs="async mbarrier arrive", takes="noinc b64 shared shared::cta"),
    ),
    MEMORY_ON_H100,
    _TRIED,
)
