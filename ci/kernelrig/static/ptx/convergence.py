"""P008: which lanes of a warp come to an instruction, and those that all must come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernelrig.ptx import Instruction, rules
from kernelrig.static.ptx.condition import Facts, Root, allowed
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.paths import Paths
from kernelrig.static.ptx.samples import LANES

ELECTED = "elect.sync"
NUMBERED = "the lane's number"
_ONLY_TRUE = 0b10


class Lanes:
    """Who comes to the instructions that are asked for."""

    def __init__(self, paths: Paths, asks: Callable[[Instruction], bool]) -> None:
        self._elected = paths.values.elected
        self._numbered = paths.values.numbered
        keep = frozenset(r.number for r in (*self._elected, *self._numbered))
        self._seen = paths.reached(asks, keep)

    def chosen(self, index: int) -> str:
        """Return how one lane of a warp was chosen for that instruction; empty where none was."""
        facts = self._seen.get(index, ())
        if any(allowed(facts, root) == _ONLY_TRUE for root in self._elected):
            return ELECTED
        return NUMBERED if any(_one_a_warp(facts, root) for root in self._numbered) else ""


def _one_a_warp(facts: Facts, root: Root) -> bool:
    mask = allowed(facts, root)
    if mask == root.full:
        return False
    warp = (1 << LANES) - 1
    return all(
        (mask >> first & warp).bit_count() <= 1 for first in range(0, len(root.domain), LANES)
    )


def wants_whole_warp(i: Instruction) -> bool:
    """Say whether it is `.aligned`: all lanes of the warp must execute the same one."""
    plain_barrier = i.opcode == "bar" and not i.has("warp")
    return plain_barrier or i.has("aligned")


def _lone(code: Code) -> Iterator[Breach]:
    import networkx as nx

    starts = {b.start for b in code.paths.flow.blocks}
    lanes = Lanes(code.paths, lambda i: wants_whole_warp(i) or i.index in starts)
    graph, blocks = code.paths.flow.graph, code.paths.flow.blocks
    for i in code.all(wants_whole_warp):
        if how := lanes.chosen(i.index):
            # Where the others left the kernel before, nobody is missing.
            later = nx.descendants(graph, code.paths.flow.block_of[i.index])
            work = [blocks[b] for b in later if blocks[b].end - blocks[b].start > 1]
            if any(not lanes.chosen(b.start) for b in work):
                yield Breach(i, f"only a lane chosen by {how} comes to {i.mnemonic}")


ALIGNED_BY_ONE_LANE = PtxRule(
    rules.ALIGNED_BY_ONE_LANE,
    Kind("instructions of whole warps", wants_whole_warp),
    _lone,
)
