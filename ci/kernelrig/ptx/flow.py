"""The control-flow graph of a PTX function: basic blocks, and the edges between them.

An edge carries the guard under which it is taken. A trap, and a call that never returns, end their
block without an edge: no thread continues after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kernelrig.model.symbol import NEVER_RETURN
from kernelrig.ptx.nodes import Function, Guard, Instruction
from kernelrig.ptx.operands import Label, Symbol, Targets

if TYPE_CHECKING:
    import networkx as nx

_LEAVES = frozenset({"ret", "exit", "trap"})


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge to block `target`, taken where the guard holds, if it has one."""

    target: int
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `start` to `end` - 1 of the function, which run without a branch.

    The block of a label after the last instruction is empty: a thread that gets there returns.
    """

    index: int
    start: int
    end: int
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class Flow:
    """A function as blocks; the entry is block 0. `block_of` maps instructions to their blocks."""

    function: Function
    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """The blocks that can be reached from the entry."""
        import networkx as nx

        whole: nx.DiGraph[int] = nx.DiGraph()
        whole.add_nodes_from(b.index for b in self.blocks)
        whole.add_edges_from((b.index, e.target) for b in self.blocks for e in b.edges)
        reached: nx.DiGraph[int] = nx.DiGraph(
            whole.subgraph(nx.descendants(whole, 0) | {0}) if self.blocks else whole
        )
        return reached

    @cached_property
    def _loops(self) -> tuple[frozenset[int], ...]:
        import networkx as nx

        return tuple(
            frozenset(part)
            for part in nx.strongly_connected_components(self.graph)
            if len(part) > 1 or any(self.graph.has_edge(b, b) for b in part)
        )

    @cached_property
    def looped(self) -> frozenset[int]:
        """The blocks that may run again after they have run."""
        return frozenset(block for loop in self._loops for block in loop)

    def loop_of(self, block: int) -> frozenset[int]:
        """Return the blocks of the outermost loop around that one; none where it has no loop."""
        return next((loop for loop in self._loops if block in loop), frozenset())

    def behind(self, at: int) -> list[int]:
        """Return the instructions that may run directly behind that one."""
        block = self.blocks[self.block_of[at]]
        if at + 1 < block.end:
            return [at + 1]
        targets = [self.blocks[edge.target] for edge in block.edges]
        return [b.start for b in targets if b.start < b.end]

    def instructions(self, block: Block) -> tuple[Instruction, ...]:
        return self.function.instructions[block.start : block.end]


def control_flow(function: Function) -> Flow:
    """Divide a function into blocks, at its labels and after instructions that may branch."""
    code = function.instructions
    starts = {0} | {label.target for label in function.labels}
    starts |= {i.index + 1 for i in code if _ends_block(i)}
    # A thread that runs past the last instruction returns: a block for labels there.
    starts = {s for s in starts if s < len(code)} | {len(code)}
    ordered = sorted(starts)
    number = {start: index for index, start in enumerate(ordered)}
    bounds = zip(ordered, [*ordered[1:], len(code)], strict=True)
    blocks = tuple(
        Block(index, start, end, _edges(code[start:end], number, end))
        for index, (start, end) in enumerate(bounds)
    )
    block_of = tuple(b.index for b in blocks for _ in range(b.start, b.end))
    return Flow(function, blocks, block_of)


def _ends_block(instruction: Instruction) -> bool:
    return (
        instruction.opcode in _LEAVES
        or instruction.opcode in ("bra", "brx")
        or never_returns(instruction)
    )


def never_returns(instruction: Instruction) -> bool:
    return instruction.opcode == "call" and any(
        isinstance(o, Symbol) and o.name in NEVER_RETURN for o in instruction.operands
    )


def _edges(piece: tuple[Instruction, ...], number: dict[int, int], end: int) -> tuple[Edge, ...]:
    if not piece:
        return ()
    last, guard = piece[-1], piece[-1].guard
    on = Edge(number[end], Guard(guard.register, not guard.negated) if guard else None)
    if not _ends_block(last):
        return (Edge(number[end]),)
    if last.opcode == "bra":
        labels = [o for o in last.operands if isinstance(o, Label)]
    else:
        tables = [o for o in last.operands if isinstance(o, Targets)]
        labels = [i for t in tables for i in t.items if isinstance(i, Label)]
    taken = tuple(Edge(number[target], guard) for target in dict.fromkeys(i.target for i in labels))
    return (*taken, on) if guard else taken
