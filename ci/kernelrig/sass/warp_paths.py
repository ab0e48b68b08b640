"""Which warps of a CTA can reach each block: the branches on the thread's index, followed."""

from __future__ import annotations

from collections.abc import Iterable

from kernelrig.sass.flow import Edge, Flow
from kernelrig.sass.value import Values

WARP = 32
_LANES = (0, 1)
"""Of a warp: the one that is most often chosen, and one that is not."""


def warps_of_blocks(flow: Flow, warps: int) -> dict[int, frozenset[int]]:
    """Return the warps that may execute each reachable block; `warps` are those of a CTA.

    A branch on anything but the thread's index is followed both ways: a warp may be named too often
    and is never missing. So is one that is unknown for thread 0.
    """
    values = Values(flow)
    depends = {block for block in flow.graph if _splits(flow, block) and _known(values, block)}
    reached: dict[int, set[int]] = {block: set() for block in flow.graph}
    for warp in range(warps):
        for lane in _LANES:
            for block in _reached(flow, values, depends, warp * WARP + lane):
                reached[block].add(warp)
    return {block: frozenset(found) for block, found in reached.items()}


def _reached(flow: Flow, values: Values, depends: set[int], thread: int) -> Iterable[int]:
    found: set[int] = set()
    waiting = [flow.entry]
    while waiting:
        block = waiting.pop()
        if block in found:
            continue
        found.add(block)
        taken = values.takes(block, thread) if block in depends else None
        for _, follower, said in flow.graph.out_edges(block, data=True):
            other_way = Edge.NEXT if taken else Edge.TAKEN
            if taken is None or said["kind"] is not other_way:
                waiting.append(follower)
    # A conditional exit has one edge, to what stands behind it.
    return found


def _splits(flow: Flow, block: int) -> bool:
    last = flow.blocks[block].last
    return last.conditional or len(last.operands) > 1


def _known(values: Values, block: int) -> bool:
    return values.takes(block, 0) is not None
