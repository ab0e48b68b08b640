"""Which branches decide what a rule gets to see: the others need not be told apart.

A block is controlled by a branch if one of its ways leads there for certain, and another may not:
control dependence, by post-dominators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kernelrig.ptx import Flow

_OUT = -1


class Relevance:
    """The control dependences of a function."""

    def __init__(self, flow: Flow) -> None:
        import networkx as nx

        self._controls: dict[int, set[int]] = defaultdict(set)
        graph: nx.DiGraph[int] = nx.DiGraph(flow.graph)
        graph.add_node(_OUT)
        graph.add_edges_from((block, _OUT) for block in flow.graph if not flow.graph.succ[block])
        # A loop that nobody leaves would have no way out: its own blocks stand for one.
        for part in list(nx.strongly_connected_components(flow.graph)):
            if not any(s not in part for b in part for s in graph.succ[b]):
                graph.add_edges_from((block, _OUT) for block in part)
        above = nx.immediate_dominators(graph.reverse(copy=False), _OUT)
        for block, following in flow.graph.edges:
            # Up from where the edge leads, until what lies behind the branch on every way.
            at = following
            while at not in (above.get(block, _OUT), _OUT):
                self._controls[at].add(block)
                at = above.get(at, _OUT)

    def deciding(self, seen: Iterable[int]) -> frozenset[int]:
        """Return the blocks whose branches decide, directly or not, which of `seen` are reached."""
        found: set[int] = set()
        waiting = list(seen)
        while waiting:
            new = self._controls[waiting.pop()] - found
            found |= new
            waiting += new
        return frozenset(found)
