"""Dominators and natural loops of a function."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.sass.flow import Flow
from kernelrig.sass.synchronisation import BarrierKind, barriers


@dataclass(frozen=True, slots=True)
class Loop:
    """The blocks from which control returns to `header` without leaving the loop.

    `inside` is the header of the loop around it. A cycle that can be entered at several blocks is a
    loop too, with the first of them as header, and `entries` says how many they are.
    """

    header: int
    blocks: frozenset[int]
    inside: int | None = None
    entries: int = 1
    depth: int = 1


def dominators(flow: Flow) -> dict[int, int]:
    """Return the immediate dominator of each block but the entry."""
    import networkx as nx

    found = nx.immediate_dominators(flow.graph, flow.entry)
    return {block: above for block, above in found.items() if block != flow.entry}


def dominates(above: int, block: int, idom: dict[int, int]) -> bool:
    """Return whether every path from the entry to `block` passes `above`."""
    while block != above:
        if block not in idom:
            return False
        block = idom[block]
    return True


def natural_loops(flow: Flow) -> tuple[Loop, ...]:
    """Return every loop, outer ones before those they hold; none is missed.

    Back edges to one header form one loop. A cycle that remains without back edges has several
    entries (a `goto` into a loop): no header dominates it, and the whole cycle is returned.
    """
    import networkx as nx

    idom = dominators(flow)
    back = [(tail, head) for tail, head in flow.graph.edges if dominates(head, tail, idom)]
    bodies: dict[int, frozenset[int]] = {}
    for tail, head in back:
        bodies[head] = bodies.get(head, frozenset()) | _body(flow, tail, head)
    entries = dict.fromkeys(bodies, 1)
    rest = nx.DiGraph(flow.graph)
    rest.remove_edges_from(back)
    for cycle in nx.strongly_connected_components(rest):
        if len(cycle) > 1:
            entered = {b for a, b in rest.edges if b in cycle and a not in cycle}
            bodies[min(entered)] = frozenset(cycle)
            entries[min(entered)] = len(entered)
    return _nested(bodies, entries)


def only_waits(flow: Flow, loop: Loop) -> bool:
    """Return whether the loop does nothing but try whether a barrier's phase is over."""
    return len(loop.blocks) <= 2 and any(
        b.kind is BarrierKind.WAIT for b in barriers(flow.within(loop.blocks))
    )


def _body(flow: Flow, tail: int, head: int) -> frozenset[int]:
    """Return what reaches `tail` without passing `head`, and `head`."""
    found, waiting = {head}, [tail]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += flow.graph.predecessors(block)
    return frozenset(found)


def _nested(bodies: dict[int, frozenset[int]], entries: dict[int, int]) -> tuple[Loop, ...]:
    loops: dict[int, Loop] = {}
    for header in sorted(bodies, key=lambda h: (-len(bodies[h]), h)):
        enclosing = [loop for loop in loops.values() if bodies[header] < loop.blocks]
        nearest = min(enclosing, key=lambda loop: len(loop.blocks), default=None)
        loops[header] = Loop(
            header,
            bodies[header],
            nearest.header if nearest else None,
            entries[header],
            nearest.depth + 1 if nearest else 1,
        )
    return tuple(sorted(loops.values(), key=lambda loop: (loop.depth, loop.header)))
