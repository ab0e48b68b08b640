"""Which batch or asynchronous operation goes next: one policy a schedule.

PTX promises little about order, and faults hide where hardware usually keeps one. A schedule is an
adversary: it chooses among all that can go on, within what PTX allows. Schedule 0 alone is
friendly, as hardware mostly is: operations complete at once, and warps take turns; what a program
reads behind a launch is what this schedule left. Schedule 1 completes operations as late as
possible: a missing wait shows there, a buffer that is freed too early in the first. The others are
random, half of them unfair: some warps and operations are a hundred times slower, so that others
get rounds ahead.

Every thread that started goes on in the end, as CUDA promises it, and an adversary keeps to that:
what runs out of its turn may be waiting in a loop for a thread that was not chosen. Such batches
get shorter turns, and later ones, than those that have run out less often.

All choices come from one seeded generator: a schedule's number and seed repeat it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op

FRIENDLY, LATE, RANDOM, UNFAIR = "friendly", "late", "random", "unfair"
TURN = 4096
"""Segments a batch may run before others are scheduled: code may wait for them in a plain loop."""
SHORTEN = 6
"""A turn is halved for each one that a batch has used up more than others, so often at most."""
MOST_LATER = 10
"""Of an unfair schedule: a batch's weight is halved likewise, so often at most."""
PATIENCE = 4 * TURN
"""Segments in a row, for each batch that is ready: then something else has to happen."""


@dataclass
class Policy:
    """A way to schedule. `friendly` and `late` complete operations at once, or only when nothing
    else can go on. With `friendly`, batches take turns at what synchronises or starts something;
    with `late`, a CTA goes as far as it can before the next. `random` picks anybody, `unfair` lets
    some warps and operations wait much longer.
    """

    kind: str
    rng: random.Random
    slow: dict[int, float] = field(default_factory=dict)
    used_up: Counter[int] = field(default_factory=Counter)  # turns, by warp
    yielded: Counter[int] = field(default_factory=Counter)  # those that let others go first
    in_a_row: int = 0  # segments that ready batches ran and are ready again

    @classmethod
    def of(cls, schedule: int, rng: random.Random) -> Policy:
        """Return the policy of schedule number 0, 1, ...: the two plain ones, then in turns."""
        # Plain ones first: their findings are the easiest to follow, and most faults show there.
        kinds = (FRIENDLY, LATE, RANDOM, UNFAIR)
        return cls(kinds[schedule] if schedule < 4 else kinds[2 + schedule % 2], rng)

    @property
    def spurious(self) -> float:
        """How often a try_wait that has to wait returns false, once in a phase, as at its limit.

        `late` has all of them do so: code that does not ask again is seen for sure.
        """
        return {FRIENDLY: 0.0, LATE: 1.0}.get(self.kind, 0.2)

    @property
    def elected(self) -> str:
        """The lane that elect.sync takes, unless the command names one: PTX specifies none."""
        return {FRIENDLY: "first", LATE: "last"}.get(self.kind, "hash")

    @property
    def patient(self) -> bool:
        """Whether tcgen05.dealloc waits for the other CTA of a pair, as it may."""
        return self.kind == RANDOM

    @property
    def in_turn(self) -> bool:
        """Whether the CTAs of a cluster leave its barrier one after the other."""
        return self.kind == LATE

    def yields(self) -> bool:
        """Whether a batch that could go on lets others run first."""
        if self.kind in (FRIENDLY, LATE):
            return self.kind == FRIENDLY
        return self.rng.random() < 0.3

    def splits(self) -> bool:
        """Whether warps at the same instruction are scheduled separately."""
        return self.kind not in (FRIENDLY, LATE) and self.rng.random() < 0.2

    def start(self) -> None:
        """Forget the warps of the wave before."""
        self.used_up.clear()
        self.yielded.clear()
        self.in_a_row = 0

    def turn(self, batch: WarpBatch, others: list[WarpBatch]) -> int:
        """Return how many segments a batch may run."""
        return TURN >> min(SHORTEN, self._ahead(batch, self._least([batch, *others])))

    def ran_out(self, batch: WarpBatch) -> None:
        """Note that a batch has used up its turn."""
        for warp in batch.warps.tolist():
            self.used_up[warp] += 1

    def yielded_by(self, batch: WarpBatch) -> None:
        """Note that a batch could go on, and has let others run first."""
        self.yielded.update(batch.warps.tolist())

    def segments_run(self, warp: int) -> int:
        """Return how many segments a warp has run, as far as its turns show: at least so many."""
        return self.used_up[warp] * (TURN >> SHORTEN) + self.yielded[warp]

    def must_change(self, batches: list[WarpBatch]) -> bool:
        """Whether all that is ready may be waiting for what is not, and starts to count anew."""
        if self.in_a_row <= PATIENCE * len(batches):
            return False
        self.in_a_row = 0
        return True

    def _least(self, batches: list[WarpBatch]) -> int:
        return min((self.used_up[int(c.warps[0])] for c in batches), default=0)

    def _ahead(self, batch: WarpBatch, least: int) -> int:
        return self.used_up[int(batch.warps[0])] - least

    def next(self, batches: list[WarpBatch], heads: list[Op]) -> WarpBatch | Op:
        """Return one of them; at least one list is not empty."""
        if self.kind == FRIENDLY:
            return heads[0] if heads else batches[0]
        # Late: a CTA runs as far as it can, and operations complete only when nothing else can go
        # on: a wait that is missing reads old bytes.
        if self.kind == LATE:
            return min(batches, key=self._turn_of) if batches else latest(heads)
        count = len(batches) + len(heads)
        if self.kind == RANDOM or self.rng.random() < 0.1:
            return self._at(self.rng.randrange(count), batches, heads)
        # Unfair: the same warps and instructions are slow throughout, so rings run full and empty.
        least = self._least(batches)
        weights = [
            self._weight(int(c.warps[0])) / (1 << min(MOST_LATER, self._ahead(c, least)))
            for c in batches
        ]
        weights += [self._weight(-1 - op.at) for op in heads]
        return self._at(self.rng.choices(range(count), weights)[0], batches, heads)

    def _turn_of(self, batch: WarpBatch) -> tuple[int, int]:
        return self.used_up[int(batch.warps[0])], int(batch.slot[0, 0])

    def _at(self, number: int, batches: list[WarpBatch], heads: list[Op]) -> WarpBatch | Op:
        return batches[number] if number < len(batches) else heads[number - len(batches)]

    def _weight(self, key: int) -> float:
        return self.slow.setdefault(key, self.rng.choice((1.0, 1.0, 0.1, 0.01)))


def latest(heads: list[Op]) -> Op:
    """Return the first; arrivals that nothing orders come behind all others, the last one first."""
    return next((op for op in heads if op.stream is not None or not op.leaves_stream), heads[-1])
