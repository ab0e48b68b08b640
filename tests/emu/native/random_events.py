"""Random events of a machine that does nothing: any order of them, more often wrong than right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from numpy.typing import NDArray

from tests.emu.scripted_machine import NUMBERS, Barrier, Play, WarpBatch

SCOPES = ("cta", "cluster", "gpu", "sys")
LANES = np.arange(32)
OPERATIONS = (
    "cp.async.bulk.tensor", "cp.async.bulk", "cp.async", "cp.reduce.async.bulk", "red.async.x",
    "wgmma.mma_async", "tcgen05.mma.x", "tcgen05.cp", "tcgen05.shift", "tcgen05.ld.x",
    "tcgen05.st.x", "tcgen05.commit.x",
)  # fmt: skip
OF_WARPS = ("wgmma", "tcgen05.ld", "tcgen05.st")
INSTRUCTIONS = 30  # few, so that they repeat


class RandomEvents:
    """A `Play` of some shape, and what may happen on it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ctas = self.random.choice((1, 1, 2, 2, 4))
        self.cluster = self.random.choice((1, 2)) if self.ctas > 1 else 1
        self.warps = self.random.choice((1, 2, 3))
        self.play = Play(self.ctas, self.warps, self.cluster)
        self.barriers = [Barrier(s, 0x400 + 8 * i) for s in range(self.ctas) for i in range(2)]
        self.phases = [0] * len(self.barriers)
        self.sizes = (self.random.choice((4, 4, 16, 8)), self.random.choice((1, 2, 4, 8, 16)))
        self.flying: list[Op] = []
        self.over: list[Op] = []

    def happen(self, count: int) -> None:
        events = {
            self.access: 38, self.synchronise_warps: 7, self.fence: 7, self.fence_proxies: 4,
            self.fence_tensor: 4, self.meet: 6, self.arrive: 6, self.wait: 7, self.issue: 9,
            self.operate: 9, self.wait_for_operations: 3, self.next_wave: 0.4,
        }  # fmt: skip
        for event in self.random.choices(list(events), list(events.values()), k=count):
            event()

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def _threads(self) -> tuple[Any, Any]:
        everyone = range(self.ctas * self.warps)
        if self.chance(0.3) and len(everyone) > 1:
            warps = sorted(self.random.sample(everyone, self.random.randint(1, 3) % len(everyone)))
            if warps:
                mask = np.ones((len(warps), 32), np.bool_)
                if self.chance(0.5):
                    mask = np.array([[self.chance(0.7) for _ in LANES] for _ in warps])
                return WarpBatch(self.play.machine, np.array(warps), self._at()), mask
        warp = self.random.choice(everyone)
        lanes: Sequence[int] = range(32)
        if self.chance(0.5):
            lanes = sorted(self.random.sample(range(32), self.random.choice((1, 1, 16, 31))))
        batch, mask = self.play.batch((warp, lanes))
        batch.at = self._at()
        return batch, mask

    def _at(self) -> int:
        return next(NUMBERS) if self.chance(0.3) else self.random.randrange(INSTRUCTIONS)

    # Accesses.
    def access(self) -> None:
        batch, mask = self._threads()
        size, space = self.random.choice(self.sizes), self.random.choice(("shared", "global"))
        if self.chance(0.03):
            space = "local"
        base: Any = self.play.buffer.start
        if space == "shared":
            base = self._slots(batch) + 0x400
        index = base + self._places(batch.size, size)
        write, atomic, sem, scope = self.chance(0.4), False, "weak", ""
        if self.chance(0.35):
            sem = self.random.choice(("relaxed", "acquire", "release", "acq_rel", "volatile"))
            scope = self.random.choice(SCOPES)
            atomic = write and self.chance(0.5)
            if atomic and self.chance(0.7):
                self._take_turns(batch, mask)
        elif space == "global" and not write and self.chance(0.1):
            self.play.races.read_non_coherent(batch, mask, index, size)
        self.play.races.accessed(batch, mask, space, index, size, write, atomic, sem, scope)

    def _take_turns(self, batch: WarpBatch, mask: NDArray[np.bool_]) -> None:
        turns = np.flatnonzero(batch.mask_of(mask)).tolist()
        self.random.shuffle(turns)
        self.play.races.in_turn(batch, mask, turns, self.chance(0.7))

    def _places(self, rows: int, size: int) -> NDArray[np.int64]:
        """Return where lanes access: one place, in a row, backwards, some together, anywhere."""
        any_place = [[self.random.randrange(40) for _ in LANES] for _ in range(rows)]
        patterns = (
            LANES, LANES, LANES[::-1], LANES // 8, LANES * 2, LANES * 0 + self.random.randrange(8),
            np.array(any_place),
        )  # fmt: skip
        start = self.random.choice((0, 0, 64, 256)) // size
        return np.broadcast_to((self.random.choice(patterns) + start) * size, (rows, 32))

    def _slots(self, batch: WarpBatch) -> NDArray[np.int64]:
        slots = np.broadcast_to(np.asarray(batch.warps)[:, None] // self.warps, (batch.size, 32))
        if self.cluster > 1 and self.chance(0.3):  # of other CTAs of the cluster
            other = [
                [self.random.randrange(self.cluster) for _ in LANES] for _ in range(batch.size)
            ]
            slots = slots // self.cluster * self.cluster + np.array(other)
        return slots * SLOT_BYTES

    # Synchronisation.
    def synchronise_warps(self) -> None:
        self.play.races.warp_synced(*self._threads())

    def fence(self) -> None:
        sem = self.random.choice(("acq_rel", "sc", "acquire", "release"))
        self.play.races.fenced(*self._threads(), sem, self.random.choice(SCOPES))

    def fence_proxies(self) -> None:
        spaces = ("", "shared::cta", "shared::cluster", "global")
        self.play.races.proxy_fenced(*self._threads(), self.random.choice(spaces))

    def fence_tensor(self) -> None:
        self.play.races.tensor_fenced(*self._threads(), self.chance(0.5))

    def meet(self) -> None:
        use, scope = next(NUMBERS), self.random.choice(("cta", "cluster"))
        some = [w for w in range(self.ctas * self.warps) if self.chance(0.8)]
        threads = [self.play.batch(w if self.chance(0.8) else (w, range(16))) for w in some]
        for each in threads:
            sem = self.random.choice(("release", "release", "relaxed"))
            self.play.races.barrier_arrived(*each, use, scope, sem)
        for each in threads:
            self.play.races.barrier_passed(*each, use, scope, "acquire")

    def arrive(self) -> None:
        i = self.random.randrange(len(self.barriers))
        sem = self.random.choice(("release", "release", "relaxed"))
        scope = self.random.choice(SCOPES[:2])
        self.play.races.arrived(*self._threads(), self.barriers[i], self.phases[i], sem, scope)
        self.phases[i] += self.chance(0.3)
        if self.chance(0.03):  # it is initialised anew
            self.barriers[i] = Barrier(self.barriers[i].slot, self.barriers[i].offset)
            self.phases[i] = 0

    def wait(self) -> None:
        i = self.random.randrange(len(self.barriers))
        phase = max(self.phases[i] - self.random.randrange(2), 0)
        sem = self.random.choice(("acquire", "acquire", "relaxed"))
        scope = self.random.choice(SCOPES[:2])
        self.play.races.waited(*self._threads(), self.barriers[i], phase, sem, scope)

    # Operations.
    def issue(self) -> None:
        name = self.random.choice(OPERATIONS)
        warp = self.random.randrange(self.ctas * self.warps)
        rows, also = np.array([warp]), ()  # type: NDArray[np.int64], tuple[int, ...]
        lanes: tuple[int, ...] = ()
        whole = name.startswith(OF_WARPS)
        if name == "cp.async":
            lanes = tuple(range(32))
            if self.chance(0.4):
                lanes = tuple(sorted(self.random.sample(range(32), self.random.randint(1, 31))))
        if name.startswith("wgmma"):
            first = warp // self.warps * self.warps
            rows, also = np.arange(first, first + self.warps), tuple(range(1, self.warps))
        lane = -1 if whole or lanes else self.random.randrange(32)
        proxy = "generic" if name == "cp.async" else "async"
        op = Op(name, self.play.machine, rows, 0, lane, self._at(), proxy, also=also, lanes=lanes)
        self.play.races.op_issued(op)
        self.flying.append(op)

    def operate(self) -> None:
        if not self.flying:
            return
        op = self.random.choice(self.flying)
        does = self.random.random()
        if op.name.startswith("tcgen05") and "commit" not in op.name and does < 0.5:
            lanes = self.random.choice(((0, 128), (0, 64), (32, 64), (8, 24)))
            columns = self.random.choice(((0, 64), (32, 96), (0, 32)))
            cta, write = self.random.randrange(self.ctas), self.chance(0.5)
            self.play.races.op_tensor(op, cta, slice(*lanes), slice(*columns), write)
        elif op.lanes and does < 0.65:
            self._copy_by_lanes(op)
        elif does < 0.55:
            self._copy(op)
        elif does < 0.75:
            i = self.random.randrange(len(self.barriers))
            if op.lanes:
                some = op.bits & self.random.getrandbits(32)
                self.play.races.copies_arrived([op], some, self.barriers[i], self.phases[i])
            else:
                kind = "commit" if "commit" in op.name else "tx"
                self.play.races.op_arrived(op, self.barriers[i], self.phases[i], kind)
            self.phases[i] += self.chance(0.3)
        else:
            self.flying.remove(op)
            self.over.append(op)
            self.play.races.op_done(op)

    def _copy(self, op: Op) -> None:
        count, size = self.random.randint(1, 6), self.random.choice((4, 16, 32, 64, 6))
        starts = self.random.choice(
            (
                list(range(count)),
                self.random.sample(range(20), count),
                [self.random.randrange(20) for _ in range(count)],
            )
        )
        space, base = "global", self.play.buffer.start
        if self.chance(0.5):
            slot = self.play.slot(op.warp)
            if self.cluster > 1 and self.chance(0.3):
                slot ^= 1
            space, base = "shared", slot * SLOT_BYTES + 0x400
        at = base + np.array(starts) * size
        self.play.races.op_accessed(op, space, at, size, self.chance(0.5))

    def _copy_by_lanes(self, op: Op) -> None:
        space, base = "global", self.play.buffer.start
        if self.chance(0.6):
            space, base = "shared", self.play.slot(op.warp) * SLOT_BYTES + 0x400
        size = self.random.choice((4, 8, 16))
        at = self._places(1, size)[0][list(op.lanes)]
        self.play.races.op_accessed(op, space, base + at, size, self.chance(0.5))

    def wait_for_operations(self) -> None:
        if not self.over:
            return
        op = self.random.choice(self.over)
        of_warp = [each for each in self.over if each.warp == op.warp]
        if op.name.startswith(("tcgen05.ld", "tcgen05.st")):
            lanes = range(32) if self.chance(0.7) else range(16)
            batch, mask = self.play.batch((op.warp, lanes))
            alike = [each for each in of_warp if each.name == op.name]
            self.play.races.tensor_waited(batch, mask, alike)
        else:
            batch, _ = self.play.batch(op.warp)
            groups = [each for each in of_warp if not each.name.startswith("tcgen05")]
            self.play.races.group_waited(batch, 0, op.bits, groups, self.chance(0.3))

    def next_wave(self) -> None:
        self.flying.clear()
        self.over.clear()
        self.play.races.started(self.play.machine)
