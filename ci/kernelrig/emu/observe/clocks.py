"""Vector clocks: what each thread knows of what other threads and operations have done.

How it works. A race is two accesses to the same bytes, one of them a write, of which neither
happens before the other (PTX ISA 8.10). Vector clocks decide "happens before" without looking at
the order in which this run happened to execute them, so one run finds races of all runs that make
the same choices.

Each lane has a time: its warp's counter, which moves on (`tick`) after each event that publishes
what was done before. Each lane also knows a time of every other lane: all that this one did up to
then happens before what the first does next. Such knowledge travels only by synchronisation:

    release   an arrival, a store.release, a fence: what the lane knows and did is published in a
              `Sync`, that of the barrier's phase or of the variable
    acquire   a wait, a load.acquire: the lane takes over what the Sync holds, the later of both
              times in each column (`join`)

An access by lane L at time t is ordered before a new one by M if M knows a time of L that is at
least t. If not, nothing orders them: that is the race, even where it did no harm in this run.

Asynchronous operations have columns too, beside the lanes: a copy or a product is ordered before
what follows only if its completion was waited for. Its reads happen at its `time`, its writes one
later: a wait for reads alone (wait_group.read) grants no more than it says.

Copies of cp.async have columns like the lanes that issue them: `Cluster.copies` and on, one for
each lane of the cluster. A lane waits for its copies in the order of their issue, so one time says
of all of them which are complete. What it knows of its own is a number in its view (`copied`): the
lanes of a warp wait alike, and each knows only its own.

Two things make it more than the textbook's clock, and they are why a clock has several rows. The
first is proxies: an access through the async proxy does not see what the generic proxy did, though
ordered, unless a proxy fence lies between (PTX ISA 8.9, 9.7.13.4). The second is tcgen05: its
instructions are ordered by their own fences (9.7.16.6). Each row is one kind of order:

    SAME      accesses of the same proxy, or of any for a lane's own memory order
    SHARED    accesses of the other proxy, shared memory: what a proxy fence or the completion of an
    GLOBAL    operation of the async proxy makes visible; the same of global memory
    TENSOR    tcgen05 operations that are complete or issued, for one that follows
    ORDERED   the same as published by fence::before or commit, not yet taken by fence::after
    DIRECT    operations whose completion a thread of this CTA has waited for itself
    PERFORMED what a fence of gpu scope, or a release, made others see, and a relaxed access of this
              thread, or of one that it is ordered behind, came after: no order by PTX's text
    SEQUENTIAL what was before a fence.sc of gpu scope that this thread, or one whose strong access
              it observed, came after: the next fence.sc takes it into SAME
    FENCED    the same of GLOBAL: what a proxy fence before that fence.sc made visible
    FOLLOWED  what came before a strong write that this thread, or one that it is ordered behind,
              has read, with or without a fence: no order, but who reads on expects it
    COMMITTED what came before a tcgen05.commit, of other threads, that was waited for: no order
    UNACQUIRED what a relaxed wait for an mbarrier saw, of this thread or of one that it is ordered
              behind: no order by PTX's text

What is known of a cluster is an array (ROWS, columns). Arrays are never written once another view
may hold them: lanes of a warp that know the same share one `View`, which is nearly always one for
the whole warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.numerics.arrays import LANES, Array

SAME, SHARED, GLOBAL, TENSOR, ORDERED, DIRECT, PERFORMED, SEQUENTIAL, FENCED = range(9)
FOLLOWED, COMMITTED, UNACQUIRED = 9, 10, 11
ROWS = 12
FIRST_OPERATIONS = 256
MOST_OPERATIONS = 8192
"""Columns of operations in a cluster, unless more are in flight at once."""
ALL = (1 << LANES) - 1
NO_COLUMN = 1 << 30

Known = dict[int, Array]
"""Cluster -> (ROWS, columns). Of a cluster that is not in it nothing is known."""

LEVELS = {"": 1, "cta": 1, "cluster": 2, "gpu": 3, "sys": 3}
"""How far a scope reaches; one GPU is all there is."""


def lanes_of(bits: int) -> list[int]:
    return [lane for lane in range(LANES) if bits >> lane & 1]


def later(a: Array, b: Array) -> Array:
    """Return the later of two clocks of one cluster, whose columns may have grown in between."""
    if a is b:
        return a
    if a.shape[-1] < b.shape[-1]:
        a, b = b, a
    if a.shape == b.shape:
        return np.maximum(a, b)
    # The narrower one is older than the columns it lacks: it knows time 0 of them.
    out = a.copy()
    np.maximum(a[..., : b.shape[-1]], b, out=out[..., : b.shape[-1]])
    return out


def join(a: Known | None, b: Known) -> Known:
    if a is b or not b:
        return a or {}
    if not a:
        return b
    out = dict(a)
    for cluster, clock in b.items():
        mine = out.get(cluster)
        out[cluster] = clock if mine is None else later(mine, clock)
    return out


def same(a: Known, b: Known) -> bool:
    """Say whether both know the same; columns that one lacks are of time 0."""
    return a is b or (a.keys() == b.keys() and all(_alike(a[c], b[c]) for c in a))


def _alike(a: Array, b: Array) -> bool:
    both = min(a.shape[-1], b.shape[-1])
    return bool(
        (a[..., :both] == b[..., :both]).all()
        and not a[..., both:].any()
        and not b[..., both:].any()
    )


class Cluster:
    """The columns of one cluster: its lanes, then its asynchronous operations in flight."""

    def __init__(self, number: int, lanes: int) -> None:
        self.number = number
        self.lanes = lanes
        self.columns = lanes + FIRST_OPERATIONS
        self.times = np.ones(self.columns, np.int32)  # of the next operation in a column
        self.free = list(range(self.columns - 1, lanes - 1, -1))
        self.taken: dict[int, AsyncOperation] = {}
        self.nothing: Array = np.zeros((ROWS, self.columns), np.int32)
        self.copies = NO_COLUMN  # the first column of copies by lanes

    def add_copies(self) -> None:
        """Make columns for what lanes copy, if there are none."""
        if self.copies == NO_COLUMN:
            self.copies = self.columns
            self._widen(self.lanes)

    def counts_operations(self, column: int) -> bool:
        """Say whether a column is of one operation after the other, and not of a lane."""
        return column >= self.lanes and not self.copies <= column < self.copies + self.lanes

    def fit(self, clock: Array) -> Array:
        """Return `clock` with all columns there are by now."""
        missing = self.columns - clock.shape[-1]
        if not missing:
            return clock
        return np.pad(clock, [(0, 0)] * (clock.ndim - 1) + [(0, missing)])

    def grow(self) -> None:
        more = self.columns - self.lanes
        self.free.extend(range(self.columns + more - 1, self.columns - 1, -1))
        self._widen(more)

    def _widen(self, more: int) -> None:
        self.columns += more
        self.times = np.concatenate((self.times, np.ones(more, np.int32)))
        self.nothing = np.zeros((ROWS, self.columns), np.int32)

    def release(self, columns: Iterator[int]) -> None:
        """Let others have these columns. Times go on: who knows the old ones knows no new."""
        for column in columns:
            operation = self.taken.pop(column)
            # One further than its writes: to know those is not to know the next operation.
            self.times[column] = operation.time + 2
            self.free.append(column)


@dataclass(frozen=True, slots=True, eq=False)
class Fenced:
    """What a release fence closed: a strong write behind it publishes this."""

    level: int
    view: View
    time: int


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What some lanes know. `shared`, `global_` and `ordered` are the times at which each of them
    fenced its own accesses last: what it knows of itself, and not of the lanes that share the view;
    `performed` is the same of its last release fence of gpu scope, `sequential` of its last
    fence.sc of that scope, before which `global_` was `fenced_global`.
    `copied` is up to when it has waited for its own copies; `copied_shared` and `copied_global` are
    the same at its last proxy fence.

    `fenced` is what release fences closed, `seen` what relaxed reads saw, by level of scope: an
    acquire fence takes it.
    """

    known: Known
    shared: int = 0
    global_: int = 0
    ordered: int = 0
    performed: int = 0
    sequential: int = 0
    fenced_global: int = 0
    copied: int = 0
    copied_shared: int = 0
    copied_global: int = 0
    fenced: tuple[Fenced, ...] = ()
    seen: tuple[tuple[int, Known], ...] = ()
    least: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    """Row and first column of a warp -> the earliest of its lanes' times, cached."""


@dataclass(eq=False)
class Warp:
    """The lanes of a warp, those that know the same together. `cta` is unique in the run."""

    cluster: Cluster
    column: int  # of its lane 0
    cta: int
    number: int  # on the machine
    place: tuple[int, int]  # CTA in the grid, warp in the CTA
    time: int = 1
    groups: list[tuple[int, View]] = field(default_factory=list)
    records: dict[tuple[Any, ...], int] = field(default_factory=dict)
    copies: int = 1  # the time of its next copies by lanes
    products: dict[int, dict[int, int]] = field(default_factory=dict)
    """Lane -> columns and times of the operations that its next commit tracks."""

    def __post_init__(self) -> None:
        self.groups = [(ALL, View({self.cluster.number: self.cluster.nothing}))]

    def parts(self, bits: int) -> list[tuple[int, View]]:
        """Return the lanes of `bits`, those with one view together."""
        return [(g & bits, view) for g, view in self.groups if g & bits]

    def change(self, bits: int, new: Callable[[int, View], View]) -> None:
        """Give the lanes of `bits` new views: `new(lanes, view)`."""
        groups: list[tuple[int, View]] = []
        for lanes, view in self.groups:
            if lanes & ~bits:
                groups.append((lanes & ~bits, view))
            if lanes & bits:
                groups.append((lanes & bits, new(lanes & bits, view)))
        # Lanes that got one view again share a group: most events are of whole warps, and a warp of
        # one group costs a thirty-second of one that has split.
        merged: list[tuple[int, View]] = []
        for lanes, view in groups:
            for i, (others, same) in enumerate(merged):
                if same is view:
                    merged[i] = (others | lanes, same)
                    break
            else:
                merged.append((lanes, view))
        self.groups = merged

    def tick(self) -> None:
        """Part what comes from what was published."""
        # Later accesses must not look as if they had been published too. Records carry the time, so
        # those of the time before are of no more use.
        self.time += 1
        self.records.clear()

    def mine(self, view: View) -> Array:
        """Return what `view` knows of this cluster."""
        clock = view.known[self.cluster.number]
        if clock.shape[-1] != self.cluster.columns:
            # Kept, or each operation in flight would hold a copy of its own.
            clock = view.known[self.cluster.number] = self.cluster.fit(clock)
        return clock

    def published(self, lanes: int, view: View, time: int | None = None) -> Known:
        """Return what `lanes` publish: what they know and what they have done."""
        clock = self.mine(view).copy()
        # tcgen05 order does not pass with an ordinary release: it takes fence::before_thread_sync,
        # which has moved it to ORDERED (PTX ISA 9.7.16.6.4).
        clock[TENSOR] = 0
        where: Any = self._where(lanes)
        # Own accesses count as known from here on. Across proxies only those before the last proxy
        # fence do, and as ORDERED only those before fence::before.
        clock[SAME, where] = self.time if time is None else time
        if view.shared:
            clock[SHARED, where] = np.maximum(clock[SHARED, where], view.shared)
        if view.global_:
            clock[GLOBAL, where] = np.maximum(clock[GLOBAL, where], view.global_)
        if view.ordered:
            clock[ORDERED, where] = np.maximum(clock[ORDERED, where], view.ordered)
        if view.performed:
            clock[PERFORMED, where] = np.maximum(clock[PERFORMED, where], view.performed)
        if view.sequential:
            clock[SEQUENTIAL, where] = np.maximum(clock[SEQUENTIAL, where], view.sequential)
        if view.fenced_global:
            clock[FENCED, where] = np.maximum(clock[FENCED, where], view.fenced_global)
        if view.copied:
            own: Any = self._where(lanes, self.cluster.copies)
            for row, until in (
                (SAME, view.copied), (SHARED, view.copied_shared), (GLOBAL, view.copied_global)
            ):  # fmt: skip
                clock[row, own] = np.maximum(clock[row, own], until)
        return {**view.known, self.cluster.number: clock}

    def ordered(self, lanes: int, view: View) -> Array:
        """Return the tcgen05 order that `lanes` pass on, also where they release nothing."""
        row: Array = self.mine(view)[ORDERED]
        if view.ordered:
            row = row.copy()
            where: Any = self._where(lanes)
            row[where] = np.maximum(row[where], view.ordered)
        return row

    def performed(self, lanes: int, view: View, *, releases: bool) -> tuple[Known, Known]:
        """Return what others may see once they see a strong write of `lanes`, in PERFORMED; and
        what a fence.sc of theirs orders then, in SEQUENTIAL and FENCED.
        """
        seen: Known = {}
        fenced: Known = {}
        for cluster, clock in self.published(lanes, view).items():
            row = np.maximum(clock[PERFORMED], clock[SAME]) if releases else clock[PERFORMED]
            if row.any():
                seen[cluster] = np.zeros_like(clock)
                seen[cluster][PERFORMED] = row
            if clock[SEQUENTIAL].any():  # FENCED knows no more
                fenced[cluster] = np.zeros_like(clock)
                fenced[cluster][[SEQUENTIAL, FENCED]] = clock[[SEQUENTIAL, FENCED]]
        return seen, fenced

    def followed(self, lanes: int, view: View) -> Known:
        """Return what came before the strong write that `lanes` are at, in FOLLOWED."""
        found: Known = {}
        for cluster, clock in self.published(lanes, view, self.time - 1).items():
            found[cluster] = np.zeros_like(clock)
            np.maximum(clock[FOLLOWED], clock[SAME], out=found[cluster][FOLLOWED])
        return found

    def has_fenced(self, bits: int) -> bool:
        """Say whether some of these lanes, or threads before them, have fenced for all."""
        return any(
            view.fenced or any(clock[PERFORMED].any() for clock in view.known.values())
            for _, view in self.parts(bits)
        )

    def _where(self, lanes: int, base: int = 0) -> slice | list[int]:
        first = base + self.column
        if lanes == ALL:
            return slice(first, first + LANES)
        return [first + lane for lane in lanes_of(lanes)]


@dataclass(eq=False)
class AsyncOperation:
    """An asynchronous operation. Its reads happen at `time`, its writes one later, and whatever
    comes behind an arrival of its own two later. `clock` is what was ordered before its issue.

    One that lanes issue each for itself has a column for each, the first is `column`, and `parts`:
    what the lanes knew, those with one view together.
    """

    name: str
    cluster: Cluster
    column: int
    time: int
    clock: Array
    known: Known
    cta: int
    at: int
    place: tuple[int, int]
    bits: int
    asynchronous: bool
    level: int  # of its writes, if they are strong; else 0
    issuer: tuple[int, int]  # column of the thread, its time
    number: int = -1  # of its warp on the machine
    tracked: dict[int, int] = field(default_factory=dict)  # by a commit
    taken: Array | None = None  # of a commit: tcgen05 order of the thread
    waited: Array | None = None  # of a commit: operations that its thread had waited for, and what
    # others did before it, in COMMITTED
    waits: Array | None = None  # of a tcgen05.ld or st: when each lane waited for it
    pieces: set[Any] = field(default_factory=set)  # of tensor memory that it writes
    records: dict[tuple[Any, ...], int] = field(default_factory=dict)
    by_lanes: bool = False
    swizzle: int = 0  # of what it wrote to shared memory
    parts: list[tuple[int, View]] = field(default_factory=list)
    done: bool = False
    wait: Wait | None = None  # the mbarrier that its thread had waited for last, for messages

    def end(self) -> None:
        """It accesses nothing more."""
        self.done = True
        self.clock = self.cluster.nothing
        self.known = {}
        self.parts = []
