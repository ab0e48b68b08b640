"""Barriers of a warp, a CTA, a cluster. PTX ISA 9.7.13.1 to 9.7.13.3."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import MEMORY_ON_H100, chosen, expect, partly, read, write
from kernelrig.emu.machine.cta_barrier import ClusterBarriers, CtaBarriers
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Row,
    Step,
    Unsupported,
    row,
)
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import BOOL, LANES, U32, Array, Mask
from kernelrig.ptx import Instruction, Integer


def _collective(i: Instruction) -> str:
    """Say whether all lanes of a warp must come together: `bar` is `barrier.cta.aligned`."""
    return "warp" if i.opcode == "bar" or i.has("aligned") else ""


_PLAIN = 1
_REDUCTIONS = {"popc": 2, "and": 3, "or": 4}
"""What arrives at a barrier, as the core numbers it."""
_SEMANTICS = {"relaxed": 1, "release": 3}


def _native(name: str, i: Instruction, kind: int, counted: bool = False) -> Native:
    return Native(name, (kind, int(bool(_collective(i))), int(counted)))


def _checked(i: Instruction, number: object, count: object) -> None:
    """Refuse what ptxas rejects."""
    if isinstance(number, Integer) and not 0 <= number.value < CtaBarriers.COUNT:
        raise Unsupported(f"{i.mnemonic}: barrier {number}, and a CTA has 0 to 15")
    if isinstance(count, Integer) and (count.value <= 0 or count.value % LANES):
        raise Unsupported(f"{i.mnemonic}: a count of {count} is no multiple of {LANES}")


def _whole(batch: WarpBatch, mask: Mask, i: Instruction) -> None:
    """Report an aligned barrier that the guard keeps some lanes of a warp from."""
    if mask is None or not _collective(i):
        return
    lanes = batch.mask_of(mask)
    missing = batch.machine.alive[batch.warps] & ~lanes
    diverged: NDArray[np.bool_] = np.asarray(missing.any(axis=1) & lanes.any(axis=1))
    if diverged.any():
        count = int(lanes[diverged][0].sum())
        text = (
            f"{i.mnemonic} by {count} lanes of a warp, and not by the others: all lanes of a warp"
            " must execute an aligned barrier, so none may be guarded off (PTX 9.7.13.1)"
        )
        batch.report("barrier-misuse", text, lanes & diverged[:, None], same="aligned")


def _sync(i: Instruction) -> Step:
    operands = expect(i, 1, 2)
    _checked(i, operands[0], i.operand(1))

    def ready(
        batch: WarpBatch, mask: Mask, number: Array, count: Array | None = None
    ) -> Blocked | None:
        _whole(batch, mask, i)
        barriers = batch.machine.part(CtaBarriers)
        barriers.arrive(batch, mask, number, count, "sync")
        return barriers.must_wait(batch, mask)

    def run(batch: WarpBatch, mask: Mask, *_: Array) -> None:
        batch.machine.part(CtaBarriers).passed(batch, mask)

    reads = tuple(read(o, U32) for o in operands)
    native = _native("bar.sync", i, _PLAIN, len(operands) > 1)
    return Step(
        run, reads, effect=True, stop=True, ready=ready, collective=_collective(i), native=native
    )


def _arrive(i: Instruction) -> Step:
    number, count = expect(i, 2)
    _checked(i, number, count)

    def run(batch: WarpBatch, mask: Mask, number: Array, count: Array) -> None:
        _whole(batch, mask, i)
        batch.machine.part(CtaBarriers).arrive(batch, mask, number, count, "sync", waits=False)

    reads = (read(number, U32), read(count, U32))
    native = _native("bar.arrive", i, _PLAIN, True)
    return Step(run, reads, effect=True, stop=True, collective=_collective(i), native=native)


def _red(i: Instruction) -> Step:
    result, number, *more = expect(i, 3, 4)
    count = more[0] if len(more) == 2 else None
    _checked(i, number, count)
    kind = chosen(i, "popc and or")
    operands: list[Read] = [read(number, U32), read(more[-1], BOOL)]
    if count is not None:
        operands.append(read(count, U32))

    def ready(
        batch: WarpBatch, mask: Mask, number: Array, predicate: Array, count: Array | None = None
    ) -> Blocked | None:
        _whole(batch, mask, i)
        barriers = batch.machine.part(CtaBarriers)
        barriers.arrive(batch, mask, number, count, f"red.{kind}", predicate)
        return barriers.must_wait(batch, mask)

    def run(batch: WarpBatch, mask: Mask, *_: Array) -> Array:
        votes = batch.machine.part(CtaBarriers).passed(batch, mask)
        true, brought = votes[:, :1], votes[:, 1:]
        if kind == "popc":
            return true.astype(np.uint32)
        return np.asarray(true == brought if kind == "and" else true > 0)

    writes = (write(result, U32 if kind == "popc" else BOOL),)
    native = _native(f"bar.red.{kind}", i, _REDUCTIONS[kind], count is not None)
    return Step(
        run, tuple(operands), writes, effect=True, stop=True, ready=ready,
        collective=_collective(i), native=native,
    )  # fmt: skip


def _warp_sync(i: Instruction) -> Step:
    (members,) = expect(i, 1)

    def run(batch: WarpBatch, mask: Mask, named: Array) -> None:
        lanes = batch.mask_of(mask)
        spread = np.broadcast_to(named, lanes.shape)
        outside = lanes & ~(spread >> _LANE & 1).astype(np.bool_)
        if outside.any():
            text = f"bar.warp.sync {int(spread[outside][0]):#x} by a lane that is not in this mask"
            batch.report("barrier-misuse", f"{text}: name all that come", outside, same="mask")
        if not batch.machine.hooks:
            return
        if named.size == 1 and int(named[0, 0]) == 0xFFFFFFFF:
            batch.machine.hooks.warp_synced(batch, mask)
            return
        for value in np.unique(spread[lanes]):
            batch.machine.hooks.warp_synced(batch, lanes & (spread == value))

    return Step(
        run, (read(members, U32),), effect=True, stop=True, collective="mask", members=members,
        native=Native("bar.warp.sync"),
    )  # fmt: skip


_LANE = np.arange(LANES, dtype=np.uint32)


def _cluster_arrive(i: Instruction) -> Step:
    expect(i, 0)
    sem = chosen(i, "release relaxed", "release")

    def run(batch: WarpBatch, mask: Mask) -> None:
        _whole(batch, mask, i)
        batch.machine.part(ClusterBarriers).arrive(batch, mask, sem)

    native = _native("barrier.cluster.arrive", i, _SEMANTICS[sem])
    return Step(run, effect=True, stop=True, collective=_collective(i), native=native)


def _cluster_wait(i: Instruction) -> Step:
    expect(i, 0)

    def ready(batch: WarpBatch, mask: Mask) -> Blocked | None:
        _whole(batch, mask, i)
        return batch.machine.part(ClusterBarriers).must_wait(batch, mask)

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(ClusterBarriers).passed(batch, mask)

    native = _native("barrier.cluster.wait", i, _PLAIN)
    return Step(run, effect=True, stop=True, ready=ready, collective=_collective(i), native=native)


_TRIED = {
    "bar.sync": "",
    "barrier.arrive.cluster": "aligned",
    "barrier.cluster.wait": "aligned",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("bar", _sync, needs="sync", takes="cta"),
        row("bar", _arrive, needs="arrive", takes="cta"),
        row("bar", _red, needs="red", takes="cta popc and or u32 pred"),
        row("bar", _warp_sync, needs="warp sync"),
        row("barrier", _sync, needs="sync", takes="cta aligned"),
        row("barrier", _arrive, needs="arrive", takes="cta aligned"),
        row("barrier", _red, needs="red", takes="cta aligned popc and or u32 pred"),
        row("barrier", _cluster_arrive, needs="cluster arrive", takes="aligned release relaxed"),
        row("barrier", _cluster_wait, needs="cluster wait", takes="aligned acquire"),
    ),
    MEMORY_ON_H100,
    _TRIED,
)
