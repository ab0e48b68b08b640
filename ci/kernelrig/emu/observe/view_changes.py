"""What fences, waits and the issue of operations change in what threads know: views to views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import LANES, Array
from kernelrig.emu.observe.access_records import NEVER
from kernelrig.emu.observe.clocks import (
    COMMITTED,
    DIRECT,
    FENCED,
    GLOBAL,
    LEVELS,
    ORDERED,
    PERFORMED,
    SAME,
    SEQUENTIAL,
    SHARED,
    TENSOR,
    AsyncOperation,
    Cluster,
    Fenced,
    Known,
    View,
    Warp,
    join,
    lanes_of,
)

Change = Callable[[int, View], View]


def _once(change: Callable[[View], View]) -> Change:
    """Change each view once, so that lanes that shared one still do."""
    made: dict[int, tuple[View, View]] = {}

    def new(_: int, view: View) -> View:
        if id(view) not in made:
            made[id(view)] = (view, change(view))
        return made[id(view)][1]

    return new


def _with(warp: Warp, view: View, clock: Array) -> Known:
    return {**view.known, warp.cluster.number: clock}


def acquire_fence(level: int) -> Change:
    """Take what relaxed reads saw, as far as the fence's scope reaches (PTX 8.8)."""

    def change(view: View) -> View:
        # What a fence of this scope takes, one before it may have taken.
        found = [known for fence, known in view.seen if fence == level]
        if not found:
            return view
        left = tuple((fence, known) for fence, known in view.seen if fence > level)
        return replace(view, known=join(view.known, found[0]), seen=left)

    return _once(change)


def sequential_fence() -> Change:
    """fence.sc of gpu scope: take what was before those that come before it in any execution in
    which strong accesses between them saw what they saw (PTX ISA 8.9.3).
    """

    def change(view: View) -> View:
        if not any(
            (clock[[SEQUENTIAL, FENCED]] > clock[[SAME, GLOBAL]]).any()
            for clock in view.known.values()
        ):
            return view
        known = {cluster: clock.copy() for cluster, clock in view.known.items()}
        for clock in known.values():
            np.maximum(clock[SAME], clock[SEQUENTIAL], out=clock[SAME])
            np.maximum(clock[GLOBAL], clock[FENCED], out=clock[GLOBAL])
        return replace(view, known=known)

    return _once(change)


def release_fence(warp: Warp, level: int, *, sequential: bool) -> Change:
    def change(view: View) -> View:
        wider = tuple(f for f in view.fenced if f.level > level)
        # A wider fence before it still counts for wider scopes; a narrower one is replaced.
        closed = replace(view, fenced=(), seen=())
        view = replace(view, fenced=(*wider, Fenced(level, closed, warp.time)))
        if level < LEVELS["gpu"]:
            return view
        known = {cluster: clock.copy() for cluster, clock in view.known.items()}
        for clock in known.values():
            np.maximum(clock[PERFORMED], clock[SAME], out=clock[PERFORMED])
            if sequential:
                np.maximum(clock[SEQUENTIAL], clock[SAME], out=clock[SEQUENTIAL])
                np.maximum(clock[FENCED], clock[GLOBAL], out=clock[FENCED])
        view = replace(view, known=known, performed=warp.time)
        if sequential:
            view = replace(view, sequential=warp.time, fenced_global=view.global_)
        return view

    return _once(change)


def proxy_fence(warp: Warp, space: str) -> Change:
    """fence.proxy.async: what this thread knows in one proxy it knows in the other (PTX 9.7.13.4).

    It works both ways, has no scope, and must lie on the way from one access to the other.
    """
    rows = {"": (SHARED, GLOBAL), "global": (GLOBAL,)}.get(space, (SHARED,))

    def change(view: View) -> View:
        # What is known in SAME becomes known across proxies, of all clusters. Own accesses before
        # the fence are noted by time (`shared`, `global_`), as lanes share the view.
        known = dict(view.known)
        for cluster, clock in known.items():
            known[cluster] = clock.copy()
            for row in rows:
                np.maximum(clock[row], clock[SAME], out=known[cluster][row])
        return replace(
            view,
            known=known,
            shared=warp.time if SHARED in rows else view.shared,
            global_=warp.time if GLOBAL in rows else view.global_,
            copied_shared=view.copied if SHARED in rows else view.copied_shared,
            copied_global=view.copied if GLOBAL in rows else view.copied_global,
        )

    return _once(change)


def before_thread_sync(warp: Warp) -> Change:
    """tcgen05.fence::before_thread_sync: publish what is complete, and what was issued."""

    def change(view: View) -> View:
        clock = warp.mine(view)
        if (clock[TENSOR] > clock[ORDERED]).any():
            clock = clock.copy()
            np.maximum(clock[ORDERED], clock[TENSOR], out=clock[ORDERED])
            view = replace(view, known=_with(warp, view, clock))
        return replace(view, ordered=warp.time)

    return _once(change)


def after_thread_sync(warp: Warp) -> Change:
    """tcgen05.fence::after_thread_sync: take what others published."""

    def change(view: View) -> View:
        clock = warp.mine(view)
        if not (clock[ORDERED] > clock[TENSOR]).any():
            return view
        clock = clock.copy()
        np.maximum(clock[ORDERED], clock[TENSOR], out=clock[TENSOR])
        return replace(view, known=_with(warp, view, clock))

    return _once(change)


def _learn(warp: Warp, rows: tuple[int, ...], times: dict[int, int]) -> Change:
    columns, values = list(times), np.array(list(times.values()), np.int32)

    def change(view: View) -> View:
        old = warp.mine(view)
        if not times or (old[rows[0], columns] >= values).all():
            return view
        clock = old.copy()
        for row in rows:
            clock[row, columns] = np.maximum(clock[row, columns], values)
        return replace(view, known=_with(warp, view, clock))

    return _once(change)


def complete(warp: Warp, operations: list[AsyncOperation], read: bool) -> Change:
    """A wait_group returned: all of the operations, or their reads (PTX 9.7.9.27.2).

    Completion in the async proxy shows in the generic one too; cp.async is generic itself, and
    what follows in the async proxy needs a fence.
    """
    times = {True: {}, False: {}}  # type: dict[bool, dict[int, int]]
    copied = 0
    for operation in operations:
        if operation.by_lanes:
            copied = max(copied, operation.time + 1)
        else:
            times[operation.asynchronous][operation.column] = operation.time + (not read)
    both = _learn(warp, (SAME, SHARED, GLOBAL, DIRECT), times[True])
    same = _learn(warp, (SAME, DIRECT), times[False])

    def change(lanes: int, view: View) -> View:
        view = same(lanes, both(lanes, view))
        return replace(view, copied=copied) if copied > view.copied else view

    return change


def issue_by_lanes(op: Op, warp: Warp) -> AsyncOperation:
    """Return the actor of what lanes issued each for itself."""
    cluster = warp.cluster
    cluster.add_copies()
    operation = AsyncOperation(
        op.name, cluster, cluster.copies + warp.column, warp.copies, cluster.nothing, {}, warp.cta,
        op.at, warp.place, op.bits, False, 0, (warp.column, warp.time), warp.number,
        by_lanes=True, parts=warp.parts(op.bits), wait=op.wait,
    )  # fmt: skip
    warp.copies += 2
    warp.tick()
    return operation


def issue(op: Op, warps: list[Warp], column: int) -> AsyncOperation:
    """Return the actor of an operation that was issued; who issued it goes on from there.

    What a warp issues as one knows what all of its lanes know.
    """
    warp = warps[0]
    cluster = warp.cluster
    generic = op.proxy == "generic"
    bits = op.bits
    issued = warp.time
    parts = [(w, lanes, view) for w in warps for lanes, view in w.parts(bits)]
    # What an operation is ordered behind: for one thread's, all that the thread knows and did. What
    # a whole warp issues as one (wgmma, tcgen05.ld) needs what each lane knows: the earliest.
    if op.lane >= 0 or generic:
        known: Known = {}
        for each, lanes, view in parts:
            known = join(known, each.published(lanes, view))
            tensor = each.mine(view)[TENSOR]
        clock = known[cluster.number]
        clock[TENSOR] = tensor
        # tcgen05 operations of one thread are ordered by their issue: it knows its own.
        clock[TENSOR, [warp.column + lane for lane in lanes_of(bits)]] = issued
    else:
        known = parts[0][2].known
        clock = warp.mine(parts[0][2])
        for each, _, view in parts[1:]:
            clock = np.minimum(clock, each.mine(view))
    # Reductions in memory are relaxed at gpu scope: they do not race with one another.
    strong = "reduce" in op.name or op.name.startswith("red.async")
    operation = AsyncOperation(
        op.name, cluster, column, int(cluster.times[column]), clock, known, warp.cta, op.at,
        warp.place, bits, not generic, LEVELS["gpu"] if strong else 0,
        (warp.column + max(op.lane, 0), issued), warp.number,
    )  # fmt: skip
    operation.wait = op.wait
    _track(op, warp, operation)
    for each in warps:
        each.tick()
    return operation


def _track(op: Op, warp: Warp, operation: AsyncOperation) -> None:
    """A commit is of all products that the thread issued before."""
    mine = warp.products.setdefault(op.lane, {})
    if kind_of(op.name) in ("ld", "st"):
        operation.waits = np.full(LANES, NEVER)
    elif is_product(op.name):
        mine[operation.column] = operation.time + 1
    elif kind_of(op.name) == "commit":  # it implies fence::before_thread_sync, PTX 9.7.16.12
        operation.tracked = dict(mine)
        operation.taken = np.maximum(operation.clock[ORDERED], operation.clock[TENSOR])
        columns = list(mine)
        operation.taken[columns] = np.maximum(operation.taken[columns], list(mine.values()))
        # What its thread had waited for is complete when it arrives: a copy into the part of a
        # stage that no product read is behind the one before. It releases nothing of threads.
        lanes = warp.cluster.lanes
        operation.waited = np.zeros_like(operation.clock)
        operation.waited[SAME, lanes:] = operation.clock[SAME, lanes:]
        before = np.maximum(operation.clock[SAME], operation.clock[COMMITTED])
        operation.waited[COMMITTED, :lanes] = before[:lanes]
        operation.waited[COMMITTED, operation.issuer[0]] = 0


def kind_of(name: str) -> str:
    """Return mma, cp, shift, ld, st or commit of a tcgen05 instruction's name."""
    words = name.split(".")
    return words[1].split("::")[0] if words[0] == "tcgen05" and len(words) > 1 else ""


def is_product(name: str) -> bool:
    """Say whether a tcgen05.commit tracks that operation."""
    return kind_of(name) in ("mma", "cp", "shift")


PIPELINED = {("mma", "mma"), ("cp", "mma"), ("shift", "mma"), ("mma", "shift"), ("shift", "cp")}


def waited_for(before: AsyncOperation, now: AsyncOperation) -> bool:
    """Say whether a tcgen05.ld or st of a warp is over for `now`: a lane waits for its own part,
    and the fence::before_thread_sync behind it publishes it to other threads (PTX 9.7.16.6.4).
    """
    waits = before.waits
    assert waits is not None
    over = waits < NEVER
    first = before.issuer[0]
    if now.number == before.number and now.waits is not None:
        return bool(over.all())
    known = now.clock[TENSOR, first : first + LANES] > waits
    if now.number == before.number:
        known[now.issuer[0] - first] = over[now.issuer[0] - first]
    return bool(known.all())


def pipelined(before: AsyncOperation, now: AsyncOperation, piece: object) -> bool:
    """Say whether tcgen05 operations run in the order of their issue (PTX 9.7.16.6.2): of two mma
    those onto the same accumulator in the same shape.
    """
    column, time = before.issuer
    kinds = (kind_of(before.name), kind_of(now.name))
    if kinds not in PIPELINED or now.clock[TENSOR, column] < time:
        return False
    return kinds != ("mma", "mma") or piece in before.pieces


def free_columns(cluster: Cluster, in_use: Array) -> None:
    """Let go of columns of operations that are done and that no shadow names any more."""
    cluster.release(iter([c for c, a in cluster.taken.items() if a.done and not in_use[c]]))
