"""Whether an mbarrier's init has been published to its users (synccheck).

To other warps of its CTA: any barrier, or release and acquire, behind it.

To other CTAs of the cluster: fence.mbarrier_init by the thread that made it and a barrier.cluster
behind it, whose arrive may be relaxed; or a release of the cluster's scope, and an acquire by
its user. To copies of the async proxy, which count their bytes there: fence.mbarrier_init,
or fence.proxy.async, as the init is a write of the generic proxy. PTX ISA 9.7.13.4; CUDA C++
Programming Guide, "Asynchronous Data Copies using the Tensor Memory Accelerator".
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Hooks, Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.phase import Barrier
from kernelrig.emu.numerics.arrays import Array, Mask, lane_bits

_WIDE = frozenset({"cluster", "gpu", "sys"})
_RELEASES = frozenset({"release", "acq_rel", "sc"})
_ASYNC = "whose init is not published to the async proxy"
_ACQUIRES = frozenset({"acquire", "acq_rel", "sc"})


class Publication(Hooks):
    """Which warps may use which mbarriers of other CTAs.

    Whether an acquire synchronises with a certain release is not checked: any earlier release of
    the CTA is accepted, so that a doubtful case is not reported.
    """

    def started(self, machine: Machine) -> None:
        self.initialised: set[Barrier] = set()  # by the thread that made it
        self.released: set[Barrier] = set()  # by a thread of its CTA
        self.async_: set[Barrier] = set()  # known to the async proxy
        self.offered: dict[object, set[Barrier]] = {}  # by barrier.cluster
        self.known: dict[int, set[Barrier]] = {}  # by warp
        # The same of those whose thread came to the barrier.cluster with no fence.
        self.unfenced: dict[object, set[Barrier]] = {}
        self.behind: dict[int, set[Barrier]] = {}
        # Of the own CTA: by warp, what others initialised before something that it is ordered
        # behind; by slot, what somebody has passed on.
        self.ordered: dict[int, set[Barrier]] = {}
        self.passed_on: dict[int, set[Barrier]] = {}

    # Publishing.
    def barriers_published(self, batch: WarpBatch, mask: Mask) -> None:
        lanes = batch.mask_of(mask)
        rows = {int(warp): row for row, warp in enumerate(batch.warps)}
        for barrier in batch.machine.part(Barriers).live:
            warp, lane = barrier.made_by
            if warp in rows and lanes[rows[warp], lane]:
                self.initialised.add(barrier)
                self.async_.add(barrier)

    def proxy_fenced(self, batch: WarpBatch, mask: Mask, space: str) -> None:
        if space != "global":
            slots = _slots(batch, mask)
            live = batch.machine.part(Barriers).live
            self.async_.update(b for b in live if b.slot in slots)

    def barrier_arrived(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "release"
    ) -> None:
        self._offer(batch, mask)
        if scope != "cluster":
            return
        offered = self.offered.setdefault(instance, set())
        slots, lanes = _slots(batch, mask), batch.mask_of(mask)
        rows = {int(warp): row for row, warp in enumerate(batch.warps)}
        unfenced = self.unfenced.setdefault(instance, set())
        for barrier in batch.machine.part(Barriers).live:
            warp, lane = barrier.made_by
            if warp in rows and lanes[rows[warp], lane]:
                unfenced.add(barrier)
            if barrier.slot in slots and (sem == "release" or barrier in self.initialised):
                offered.add(barrier)

    def _offer(self, batch: WarpBatch, mask: Mask) -> None:
        live = batch.machine.part(Barriers).live
        for warp, slot in _warps(batch, mask):
            known = self.ordered.setdefault(warp, set())
            known.update(b for b in live if b.made_by[0] == warp)
            self.passed_on.setdefault(slot, set()).update(known)

    def _take(self, batch: WarpBatch, mask: Mask) -> None:
        for warp, slot in _warps(batch, mask):
            self.ordered.setdefault(warp, set()).update(self.passed_on.get(slot, ()))

    def _check_own(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, *, waits: bool = False
    ) -> None:
        """Look at who uses an mbarrier of its own CTA; a warp that does not know of it is told
        once.
        """
        lanes = batch.mask_of(mask)
        for row, warp in enumerate(batch.warps.tolist()):
            bits = lane_bits(lanes[row])
            if not bits or batch.slot[row, 0] != barrier.slot or barrier.made_by[0] == warp:
                continue
            known = self.ordered.setdefault(warp, set())
            if barrier not in known:
                known.add(barrier)
                report_own(batch.machine, warp, bits, batch.at, barrier, waits=waits)

    def _release(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        if sem in _RELEASES:
            self._offer(batch, mask)
        if sem in _RELEASES and scope in _WIDE:
            slots = _slots(batch, mask)
            live = batch.machine.part(Barriers).live
            self.released.update(b for b in live if b.slot in slots)

    # Learning.
    def barrier_passed(
        self, batch: WarpBatch, mask: Mask, instance: object, scope: str, sem: str = "acquire"
    ) -> None:
        self._take(batch, mask)
        if scope == "cluster":
            self._learn(batch, mask, self.offered.get(instance, set()), self.known)
            self._learn(batch, mask, self.unfenced.get(instance, set()), self.behind)

    def _acquire(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        if sem in _ACQUIRES:
            self._take(batch, mask)
        if sem in _ACQUIRES and scope in _WIDE:
            self._learn(batch, mask, self.released, self.known)

    def _learn(
        self,
        batch: WarpBatch,
        mask: Mask,
        barriers: set[Barrier],
        into: dict[int, set[Barrier]],
    ) -> None:
        for warp in batch.warps[batch.mask_of(mask).any(axis=1)].tolist():
            into.setdefault(warp, set()).update(barriers)

    def _fence_alone(self, warp: int, barrier: Barrier) -> bool:
        return barrier in self.behind.get(warp, ())

    def fenced(self, batch: WarpBatch, mask: Mask, sem: str, scope: str) -> None:
        self._release(batch, mask, sem, scope)
        self._acquire(batch, mask, sem, scope)

    def accessed(
        self,
        batch: WarpBatch,
        mask: Mask,
        space: str,
        index: Array,
        size: int,
        write: bool,
        atomic: bool = False,
        sem: str = "weak",
        scope: str = "",
    ) -> None:
        if sem not in ("weak", "volatile", "relaxed"):
            self._release(batch, mask, sem, scope)
            self._acquire(batch, mask, sem, scope)

    def waited(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        self._check_own(batch, mask, barrier, waits=True)
        self._acquire(batch, mask, sem, scope)

    # Using.
    def arrived(
        self, batch: WarpBatch, mask: Mask, barrier: Barrier, phase: int, sem: str, scope: str
    ) -> None:
        self._check_own(batch, mask, barrier)
        lanes = batch.mask_of(mask) & (batch.slot != barrier.slot)
        for row in np.flatnonzero(lanes.any(axis=1)).tolist():
            warp = int(batch.warps[row])
            if barrier not in self.known.get(warp, ()):
                report_arrival(
                    batch.machine, warp, lane_bits(lanes[row]), batch.at, barrier,
                    fence_alone=self._fence_alone(warp, barrier),
                )  # fmt: skip
        self._release(batch, mask, sem, scope)

    def op_arrived(self, op: Op, barrier: Barrier, phase: int, kind: str) -> None:
        machine = op.machine
        if kind == "tx" and op.proxy == "async" and barrier not in self.async_:
            report_bytes(op, barrier)
        if machine.slot_of[op.warp] == barrier.slot or barrier in self.known.get(op.warp, ()):
            return
        report_signal(op, barrier, fence_alone=self._fence_alone(op.warp, barrier))


def _slots(batch: WarpBatch, mask: Mask) -> set[int]:
    rows = batch.mask_of(mask).any(axis=1)
    return set(batch.slot[rows, 0].tolist())


def _warps(batch: WarpBatch, mask: Mask) -> list[tuple[int, int]]:
    """Return the warps of the batch that have lanes in the mask, and the slots of their CTAs."""
    rows = batch.mask_of(mask).any(axis=1)
    return list(zip(batch.warps[rows].tolist(), batch.slot[rows, 0].tolist(), strict=True))


def report_own(
    machine: Machine, warp: int, lanes: int, at: int, barrier: Barrier, *, waits: bool
) -> None:
    """Report lanes (bits) of a warp that use an mbarrier of their CTA before they may."""
    what = "wait for" if waits else "arrival on"
    maker = barrier.made_by[0] % machine.geometry.warps
    text = (
        f"{what} the {barrier}, which warp {maker} initialises: nothing orders the init before it,"
        " and this warp may come first"
    )
    context = Context("init-not-ordered", (barrier.name or str(barrier),))
    machine.report(
        "barrier-misuse", text, warp, lanes, at, count=lanes.bit_count(), same=context.rule,
        context=context,
    )  # fmt: skip


def report_arrival(
    machine: Machine, warp: int, lanes: int, at: int, barrier: Barrier, *, fence_alone: bool
) -> None:
    """Report lanes (bits) of a warp that arrive on an mbarrier they may not know of.

    `fence_alone`: a barrier.cluster stands between, and only the fence of the init is missing.
    """
    text = f"arrival on {_text(machine, barrier, fence_alone)}"
    context = _context(barrier, fence_alone)
    machine.report(
        "barrier-misuse", text, warp, lanes, at, count=lanes.bit_count(), same=context.rule,
        context=context,
    )  # fmt: skip


def report_bytes(op: Op, barrier: Barrier) -> None:
    """Report a copy whose proxy may not know of the mbarrier that counts its bytes."""
    context = Context("init-not-in-async-proxy", (barrier.name or str(barrier),))
    text = f"{op.name} counts its bytes on the {barrier}, {_ASYNC}"
    op.machine.report_op(op, "barrier-misuse", text, same="async proxy", context=context)


def report_signal(op: Op, barrier: Barrier, *, fence_alone: bool) -> None:
    """Report an operation whose thread may not know of the mbarrier that it signals."""
    context = _context(barrier, fence_alone)
    text = f"{op.name} signals {_text(op.machine, barrier, fence_alone)}"
    op.machine.report_op(op, "barrier-misuse", text, same=context.rule, context=context)


def _text(machine: Machine, barrier: Barrier, fence_alone: bool) -> str:
    rank = int(machine.rank_of[barrier.made_by[0]])
    named = f"the {barrier} of CTA rank {rank}"
    if fence_alone:
        return (
            f"{named}, whose init no fence.mbarrier_init follows: by PTX the relaxed"
            " barrier.cluster behind it publishes nothing"
        )
    return (
        f"{named}, whose init is not published to this CTA: that takes a fence.mbarrier_init, and a"
        " barrier.cluster before the first use from another CTA"
    )


def _context(barrier: Barrier, fence_alone: bool) -> Context:
    rule = "init-without-fence" if fence_alone else "init-not-published"
    return Context(rule, (barrier.name or str(barrier),))
