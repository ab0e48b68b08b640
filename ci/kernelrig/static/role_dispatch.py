"""Which threads take which role: the branches of the dispatch, followed thread by thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelrig.sass import Edge, Values, dominates, dominators
from kernelrig.static.role_graph import RoleGraph

WARP = 32
NO_ROLE = ""
"""The role of threads that take none."""


def roles_of_threads(graph: RoleGraph, threads: int) -> list[str] | str:
    """Return the role of each thread of a CTA, or why it is unknown."""
    idom = dominators(graph.flow)
    first = [b for b in graph.dispatch if all(dominates(b, d, idom) for d in graph.dispatch)]
    if not first:
        return "no branch precedes all others that dispatch the roles"
    names = {b: name for name, held in graph.roles.items() for b in held.blocks}
    values = Values(graph.flow)
    found = []
    for thread in range(threads):
        block = first[0]
        for _ in graph.flow.graph:  # a longer path would be a loop
            if block not in graph.dispatch | graph.prologue:
                break
            if (follower := _follower(graph, values, block, thread)) is None:
                last = graph.flow.blocks[block].last
                return f"'{last.text}' at {last.address:#x} depends on more than the thread's index"
            block = follower
        found.append(names.get(block, NO_ROLE))
    return found


def _follower(graph: RoleGraph, values: Values, block: int, thread: int) -> int | None:
    """Return the block that `thread` executes after `block`, None if unknown."""
    edges = graph.flow.graph.out_edges(block, data=True)
    ways = {data["kind"]: follower for _, follower, data in edges}
    if len(edges) == 1:
        return next(iter(ways.values()))
    if len(edges) != 2 or set(ways) != {Edge.TAKEN, Edge.NEXT}:
        return None
    taken = values.takes(block, thread)
    return None if taken is None else ways[Edge.TAKEN if taken else Edge.NEXT]


def diverged_warps(roles: Sequence[str]) -> Mapping[int, tuple[str, ...]]:
    """Return the warps whose lanes take several roles, with the roles in the order of the lanes."""
    warps = range(0, len(roles), WARP)
    held = {w // WARP: tuple(dict.fromkeys(roles[w : w + WARP])) for w in warps}
    return {warp: names for warp, names in held.items() if len(names) > 1}


def warps_text(roles: Sequence[str], name: str) -> str:
    """Return which warps have a role: `warp 0`, `warps 2 to 5`."""
    warps = sorted({n // WARP for n, held in enumerate(roles) if held == name})
    if not warps:
        return "no warp"
    if len(warps) == 1:
        return f"warp {warps[0]}"
    if warps[-1] - warps[0] == len(warps) - 1:
        return f"warps {warps[0]} to {warps[-1]}"
    return f"warps {', '.join(map(str, warps))}"
