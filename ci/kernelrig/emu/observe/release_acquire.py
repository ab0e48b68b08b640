"""Release and acquire: how ordering passes from thread to thread, within their scopes.

A `Sync` is what was published at one place: in a phase of an mbarrier, in one use of a CTA or
cluster barrier, in a variable that is written by a release. PTX ISA 8.7 to 8.9.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.clocks import (
    DIRECT,
    GLOBAL,
    LEVELS,
    ORDERED,
    SAME,
    SHARED,
    TENSOR,
    UNACQUIRED,
    AsyncOperation,
    Cluster,
    Known,
    View,
    Warp,
    join,
    later,
    same,
)

StrongAccess = tuple[Warp, tuple[str, int], int]
"""Lanes (bits) of a warp that access a variable: its space and flat byte."""


class StrongForm(NamedTuple):
    """How an instruction accesses variables. `observed`: its threads get to know what it read."""

    write: bool
    atomic: bool
    observed: bool
    sem: str
    level: int
    at: int


MOST_APART = 8


def in_turns(turns: list[int], index: Array) -> list[tuple[int, int, int]]:
    """Return who uses which place after whom: row, flat byte, lanes (bits).

    Where more than a few share a place, the lanes of a warp go together, when its last one does,
    and twice, so that each knows all of them: who is last would be one, and a warp whose lanes all
    know something else is slow to follow.
    """
    places = index.reshape(-1)[turns].tolist()
    users = Counter(places)
    left = Counter((turn // LANES, place) for turn, place in zip(turns, places, strict=True))
    together: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int, int]] = []
    for turn, place in zip(turns, places, strict=True):
        row, lane = divmod(turn, LANES)
        left[row, place] -= 1
        if users[place] > MOST_APART:
            together[row, place] = together.get((row, place), 0) | 1 << lane
            if not left[row, place]:
                found += [(row, place, together[row, place])] * 2
        else:
            found.append((row, place, 1 << lane))
    return found


class Sync:
    """What arriving threads have published, by the scope in which it is visible.

    Scopes must include each other (PTX 8.7): `near` is for the CTA of the releasing thread, `wide`
    for its cluster if both scopes include it, `far` for all. `ended` are completions of
    operations: they reach any scope (complete_tx is release.cluster). `order` is that of tcgen05
    operations, which relaxed arrivals carry too. `performed`, of a variable alone, is what a
    relaxed read of it comes after on hardware: it acquires nothing by the text; `sequential` is
    what a fence.sc behind any read of it takes; `followed` is what its writes came after.
    """

    __slots__ = ("ended", "far", "followed", "near", "order", "performed", "sequential", "wide")

    def __init__(self) -> None:
        self.near: dict[int, Known] = {}
        self.wide: dict[int, Known] = {}
        self.far: Known = {}
        self.ended: Known = {}
        self.order: dict[int, Array] = {}
        self.performed: Known = {}
        self.sequential: Known = {}
        self.followed: Known = {}

    def publish(self, warp: Warp, known: Known, level: int) -> None:
        self.near[warp.cta] = join(self.near.get(warp.cta), known)
        if level < LEVELS["cluster"]:
            return
        number = warp.cluster.number
        # DIRECT is of the CTA that waited itself: PTX ISA 8.9.5 orders the async proxy within a
        # CTA.
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
        # A completion is seen by every thread that waits for it, with any scope: that is what
        # mbarriers are for.
        if asynchronous:  # completion implies the fence to the generic proxy, PTX 8.9.1.1
            clock[SHARED, columns] = clock[GLOBAL, columns] = values
        self.ended = join(self.ended, {cluster.number: clock})

    def pass_completions(self, cluster: Cluster, clock: Array) -> None:
        """Pass on what was complete, and what was done, before a commit that arrives was issued."""
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
    """Publish what lanes have done; with relaxed semantics, what an earlier fence published."""
    for lanes, view in warp.parts(bits):
        # tcgen05 order passes with relaxed arrivals too: the fences around it do the ordering.
        sync.pass_order(warp.cluster, warp.ordered(lanes, view))
        if sem != "relaxed":
            sync.publish(warp, warp.published(lanes, view), level)
        # fence; st.relaxed is a release pattern (PTX ISA 8.8): what the fence closed is published
        # with the narrower of both scopes.
        for fenced in view.fenced:
            known = warp.published(lanes, fenced.view, fenced.time)
            sync.publish(warp, known, min(level, fenced.level))


def perform(warp: Warp, bits: int, sync: Sync, *, releases: bool) -> None:
    """Note with a strong write of gpu scope what its thread, or others before it, have fenced."""
    for lanes, view in warp.parts(bits):
        seen, fenced = warp.performed(lanes, view, releases=releases)
        sync.performed = join(sync.performed, seen)
        sync.sequential = join(sync.sequential, fenced)


def follow(warp: Warp, bits: int, sync: Sync) -> None:
    """Note with a strong write of gpu scope what came before it, fenced or not."""
    for lanes, view in warp.parts(bits):
        sync.followed = join(sync.followed, warp.followed(lanes, view))


def acquire(warp: Warp, bits: int, sync: Sync, sem: str, level: int, cap: bool = False) -> None:
    """Let lanes acquire what was published; with relaxed semantics, a later acquire fence does.

    `cap`: the scope of such a fence is limited to that of this read; not so for mbarriers.
    """
    order = sync.order.get(warp.cluster.number)
    wide = cap and level >= LEVELS["gpu"]
    performed = sync.performed if wide and sem == "relaxed" else {}
    sequential = sync.sequential if wide else {}
    followed = sync.followed if wide else {}
    # A relaxed read takes nothing yet, but an acquire fence behind it does (PTX ISA 8.8): remember
    # what it would take, for each scope that the fence may have.
    known = sync.reach(warp, level) if sem != "relaxed" else {}
    seen: tuple[tuple[int, Known], ...] = ()
    if sem == "relaxed" and (sync.near or sync.wide or sync.far or sync.ended):
        seen = tuple(
            (fence, sync.reach(warp, min(fence, level) if cap else fence)) for fence in (1, 2, 3)
        )
    waited = _unacquired(sync.reach(warp, level)) if sem == "relaxed" and not cap else {}
    # Lanes that shared a view still do afterwards.
    made: dict[int, View] = {}

    def new(lanes: int, view: View) -> View:
        if id(view) not in made:
            result = replace(view, known=join(view.known, known)) if known else view
            if order is not None and (order > warp.mine(result)[ORDERED][: len(order)]).any():
                clock = warp.mine(result).copy()
                clock[ORDERED, : len(order)] = np.maximum(clock[ORDERED, : len(order)], order)
                result = replace(result, known={**result.known, warp.cluster.number: clock})
            for each in (performed, sequential, followed, waited):
                if each:
                    result = replace(result, known=join(result.known, each))
            if seen:
                old = dict(view.seen)
                result = replace(
                    result, seen=tuple((fence, join(old.get(fence), k)) for fence, k in seen)
                )
            made[id(view)] = result
        return made[id(view)]

    warp.change(bits, new)


def _unacquired(known: Known) -> Known:
    """Return what a relaxed wait saw as what orders nothing yet."""
    found = {}
    for cluster, clock in known.items():
        found[cluster] = np.zeros_like(clock)
        found[cluster][UNACQUIRED] = clock[SAME]
    return found


def _same_seen(a: View, b: View) -> bool:
    """Say whether relaxed reads saw the same in both."""
    return len(a.seen) == len(b.seen) and all(
        level == other and same(x, y) for (level, x), (other, y) in zip(a.seen, b.seen, strict=True)
    )


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
            if (
                done.fenced == view.fenced
                and _same_seen(done, view)
                and (done.known[number][TENSOR] == tensor).all()
            ):
                return done
        clock = known[number].copy()
        clock[TENSOR] = tensor
        made.append(View({**known, number: clock}, fenced=view.fenced, seen=view.seen))
        return made[-1]

    warp.change(bits, new)
    warp.tick()
