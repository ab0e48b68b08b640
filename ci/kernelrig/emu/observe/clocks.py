"""Vector clocks: what each thread knows of what the others and asynchronous operations have done.

Threads are lanes. A time of a lane is its warp's counter, which moves on after whatever publishes
what was done before. Everything that is known of a cluster is an array: a row a kind of order, a
column a lane or an asynchronous operation. Arrays are never written once somebody else may hold
them: lanes of a warp that know the same share one `View`.

The rows (the table in PTX 8.7 to 8.9 and 9.7.16.6):

    SAME      accesses of the same proxy, or of any for a lane's own memory order
    SHARED    accesses of the other proxy, shared memory: what a proxy fence or the completion of an
    GLOBAL    operation of the async proxy lays open; the same of global memory
    TENSOR    tcgen05 operations that are complete or issued, for one that follows
    ORDERED   the same as published by fence::before or commit, not yet taken by fence::after
    DIRECT    operations whose completion a thread of this CTA has waited for itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.numerics.arrays import LANES, Array

SAME, SHARED, GLOBAL, TENSOR, ORDERED, DIRECT = range(6)
ROWS = 6
FIRST_OPERATIONS = 256
MOST_OPERATIONS = 8192
ALL = (1 << LANES) - 1

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

    def fit(self, clock: Array) -> Array:
        """Return `clock` with all columns there are by now."""
        missing = self.columns - clock.shape[-1]
        if not missing:
            return clock
        return np.pad(clock, [(0, 0)] * (clock.ndim - 1) + [(0, missing)])

    def grow(self) -> None:
        more = self.columns - self.lanes
        self.free.extend(range(self.columns + more - 1, self.columns - 1, -1))
        self.columns += more
        self.times = np.concatenate((self.times, np.ones(more, np.int32)))
        self.nothing = np.zeros((ROWS, self.columns), np.int32)

    def release(self, columns: Iterator[int]) -> None:
        """Let others have these columns. Times go on: who knows the old ones knows no new."""
        for column in columns:
            operation = self.taken.pop(column)
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
    fenced its own accesses last: what it knows of itself, and not of the lanes that share the view.

    `fenced` is what release fences closed, `seen` what relaxed reads saw, by level of scope: an
    acquire fence takes it.
    """

    known: Known
    shared: int = 0
    global_: int = 0
    ordered: int = 0
    fenced: tuple[Fenced, ...] = ()
    seen: tuple[tuple[int, Known], ...] = ()
    least: dict[tuple[int, int], int] = field(init=False, default_factory=dict)
    """Row and first column of a warp -> the earliest of its lanes' times, where somebody asked."""


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
        self.time += 1
        self.records.clear()

    def mine(self, view: View) -> Array:
        """Return what `view` knows of this cluster."""
        clock = view.known[self.cluster.number]
        if clock.shape[-1] == self.cluster.columns:
            return clock
        return self.cluster.fit(clock)

    def published(self, lanes: int, view: View, time: int | None = None) -> Known:
        """Return what whoever synchronises with `lanes` learns: what they know and have done."""
        clock = self.mine(view).copy()
        clock[TENSOR] = 0
        where: Any = self._where(lanes)
        clock[SAME, where] = self.time if time is None else time
        if view.shared:
            clock[SHARED, where] = np.maximum(clock[SHARED, where], view.shared)
        if view.global_:
            clock[GLOBAL, where] = np.maximum(clock[GLOBAL, where], view.global_)
        if view.ordered:
            clock[ORDERED, where] = np.maximum(clock[ORDERED, where], view.ordered)
        return {**view.known, self.cluster.number: clock}

    def ordered(self, lanes: int, view: View) -> Array:
        """Return the tcgen05 order that `lanes` pass on, also where they release nothing."""
        row: Array = self.mine(view)[ORDERED]
        if view.ordered:
            row = row.copy()
            where: Any = self._where(lanes)
            row[where] = np.maximum(row[where], view.ordered)
        return row

    def _where(self, lanes: int) -> slice | list[int]:
        if lanes == ALL:
            return slice(self.column, self.column + LANES)
        return [self.column + lane for lane in lanes_of(lanes)]


@dataclass(eq=False)
class AsyncOperation:
    """An asynchronous operation. Its reads happen at `time`, its writes one later, and whatever
    comes behind an arrival of its own two later. `clock` is what was ordered before its issue.
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
    waits: Array | None = None  # of a tcgen05.ld or st: when each lane waited for it
    pieces: set[Any] = field(default_factory=set)  # of tensor memory that it writes
    records: dict[tuple[Any, ...], int] = field(default_factory=dict)
    done: bool = False
    wait: Wait | None = None  # the mbarrier that its thread had waited for last, for messages

    def end(self) -> None:
        """It accesses nothing more."""
        self.done = True
        self.clock = self.cluster.nothing
        self.known = {}


class Sync:
    """What those who arrived at something publish, by how far their scopes reach.

    Scopes must include each other (PTX 8.7): `near` is for the CTA of who released, `wide` for its
    cluster if both scopes reach it, `far` for all. `ended` are completions of operations: they
    reach any scope (complete_tx is release.cluster). `order` is that of tcgen05 operations, which
    relaxed arrivals carry too.
    """

    __slots__ = ("ended", "far", "near", "order", "wide")

    def __init__(self) -> None:
        self.near: dict[int, Known] = {}
        self.wide: dict[int, Known] = {}
        self.far: Known = {}
        self.ended: Known = {}
        self.order: dict[int, Array] = {}

    def publish(self, warp: Warp, known: Known, level: int) -> None:
        self.near[warp.cta] = join(self.near.get(warp.cta), known)
        if level < LEVELS["cluster"]:
            return
        number = warp.cluster.number
        clock = known[number].copy()
        clock[DIRECT] = 0
        known = {**known, number: clock}
        self.wide[number] = join(self.wide.get(number), known)
        if level >= LEVELS["gpu"]:
            self.far = join(self.far, known)

    def pass_order(self, cluster: Cluster, row: Array) -> None:
        known = self.order.get(cluster.number)
        self.order[cluster.number] = row if known is None else later(known, row)

    def end(self, operation: AsyncOperation, times: dict[int, int], asynchronous: bool) -> None:
        """Operations are complete: columns and times."""
        cluster = operation.cluster
        clock = cluster.nothing.copy()
        columns, values = list(times), list(times.values())
        clock[SAME, columns] = clock[DIRECT, columns] = values
        if asynchronous:  # completion implies the fence to the generic proxy, PTX 8.9.1.1
            clock[SHARED, columns] = clock[GLOBAL, columns] = values
        self.ended = join(self.ended, {cluster.number: clock})

    def reach(self, warp: Warp, level: int) -> Known:
        """Return what a thread of `warp` acquires with a scope of `level`."""
        known = join(self.near.get(warp.cta), self.ended)
        if level >= LEVELS["cluster"]:
            known = join(known, self.wide.get(warp.cluster.number, {}))
        if level >= LEVELS["gpu"]:
            known = join(known, self.far)
        return known


def release(warp: Warp, bits: int, sync: Sync, sem: str, level: int) -> None:
    """Lanes publish what they have done; where they are relaxed, what a fence before closed."""
    for lanes, view in warp.parts(bits):
        sync.pass_order(warp.cluster, warp.ordered(lanes, view))
        if sem != "relaxed":
            sync.publish(warp, warp.published(lanes, view), level)
        for fenced in view.fenced:
            known = warp.published(lanes, fenced.view, fenced.time)
            sync.publish(warp, known, min(level, fenced.level))


def acquire(warp: Warp, bits: int, sync: Sync, sem: str, level: int, cap: bool = False) -> None:
    """Lanes learn what was published; where they are relaxed, an acquire fence behind does.

    `cap`: such a fence reaches no further than this read does, which of mbarriers is not asked.
    """
    order = sync.order.get(warp.cluster.number)
    known = sync.reach(warp, level) if sem != "relaxed" else {}
    seen: tuple[tuple[int, Known], ...] = ()
    if sem == "relaxed" and (sync.near or sync.wide or sync.far or sync.ended):
        seen = tuple(
            (fence, sync.reach(warp, min(fence, level) if cap else fence)) for fence in (1, 2, 3)
        )
    made: dict[int, View] = {}

    def new(lanes: int, view: View) -> View:
        if id(view) not in made:
            result = replace(view, known=join(view.known, known)) if known else view
            if order is not None and (order > warp.mine(result)[ORDERED][: len(order)]).any():
                clock = warp.mine(result).copy()
                clock[ORDERED, : len(order)] = np.maximum(clock[ORDERED, : len(order)], order)
                result = replace(result, known={**result.known, warp.cluster.number: clock})
            if seen:
                old = dict(view.seen)
                result = replace(
                    result, seen=tuple((fence, join(old.get(fence), k)) for fence, k in seen)
                )
            made[id(view)] = result
        return made[id(view)]

    warp.change(bits, new)


def sync_warp(warp: Warp, bits: int) -> None:
    """bar.warp.sync: the lanes know all that any of them knows and has done (PTX 9.7.13.2)."""
    known: Known = {}
    for lanes, view in warp.parts(bits):
        known = join(known, warp.published(lanes, view))
    number = warp.cluster.number
    made: list[View] = []

    def new(_: int, view: View) -> View:
        tensor = warp.mine(view)[TENSOR]  # the only row that a thread has for itself
        for done in made:
            if (done.fenced, done.seen) == (view.fenced, view.seen) and (
                done.known[number][TENSOR] == tensor
            ).all():
                return done
        clock = known[number].copy()
        clock[TENSOR] = tensor
        made.append(View({**known, number: clock}, fenced=view.fenced, seen=view.seen))
        return made[-1]

    warp.change(bits, new)
    warp.tick()
