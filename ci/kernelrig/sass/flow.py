"""The control-flow graph of a SASS function, from the branch targets in its own text.

It needs no second run of nvdisasm; a test compares it with nvdisasm -bbcfg, which cuts further, at
labels without a branch to them, ignores traps, and shows a recursive call as a jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kernelrig.errors import ProtocolError
from kernelrig.model.symbol import NEVER_RETURN
from kernelrig.sass.branch import Branch
from kernelrig.sass.code import INSTRUCTION_BYTES, Function, Instruction, Module
from kernelrig.sass.ending import block_ends, return_addresses

if TYPE_CHECKING:
    import networkx as nx


class Edge(StrEnum):
    """How control passes to the next block: the `kind` of an edge of the graph."""

    NEXT = "next"
    TAKEN = "taken"
    RETURNED = "returned"
    """From a call to its return address."""
    TRAPPED = "trapped"
    """After a trap, or a call that never returns: not reached by any thread."""


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block; `callee` is the function that its last instruction calls, `?` if unknown."""

    instructions: tuple[Instruction, ...]
    callee: str = ""

    @property
    def address(self) -> int:
        return self.instructions[0].address

    @property
    def last(self) -> Instruction:
        return self.instructions[-1]


@dataclass(frozen=True, slots=True)
class Flow:
    """A function as a graph of its blocks, which go by their addresses.

    `graph` is what can be reached without passing a trap; `whole` has every block and edge.
    `callees` are the functions of the module that it calls itself.
    """

    function: Function
    blocks: dict[int, Block]
    graph: nx.DiGraph[int]
    whole: nx.DiGraph[int]
    callees: dict[str, Flow]

    @property
    def entry(self) -> int:
        return self.function.instructions[0].address

    @property
    def returns(self) -> bool:
        return any(self.blocks[b].last.root == "RET" for b in self.graph)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction that can be reached, by address."""
        return self.within(self.graph)

    def within(self, blocks: Iterable[int]) -> Iterator[Instruction]:
        for address in sorted(blocks):
            yield from self.blocks[address].instructions

    def called(self, blocks: Iterable[int]) -> tuple[Flow, ...]:
        """Return the functions that `blocks` call, and those that these call in turn."""
        found: dict[str, Flow] = {}
        waiting = [self.callees.get(self.blocks[b].callee) for b in sorted(blocks)]
        while waiting:
            flow = waiting.pop()
            if flow and flow.function.name not in found:
                found[flow.function.name] = flow
                waiting += flow.callees.values()
        return tuple(found.values())


def control_flow(module: Module, name: str) -> Flow:
    """Return the graph of the function `name`, and of what it calls."""
    return _Builder(module).flow(name)


@dataclass(slots=True)
class _Builder:
    module: Module
    done: dict[str, Flow] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def flow(self, name: str) -> Flow:
        if name not in self.done:
            self.open.add(name)
            self.done[name] = self.build(self.module.function(name))
            self.open.discard(name)
        return self.done[name]

    def build(self, function: Function) -> Flow:
        import networkx as nx

        ends = block_ends(function, self.module)
        callees = {
            e.callee: self.flow(e.callee)
            for e in ends.values()
            # What calls itself is open here: its own call is then one that returns.
            if e.callee and e.callee not in self.open and self.has(e.callee)
        }
        back = return_addresses(function, ends, {n: c.function for n, c in callees.items()})
        blocks = _blocks(function, ends, back)
        endless = {name for name, callee in callees.items() if not callee.returns}
        whole = _graph(blocks, ends, back, endless)
        live = nx.DiGraph(whole)
        trapped = [(a, b) for a, b, said in whole.edges.data() if said["kind"] is Edge.TRAPPED]
        live.remove_edges_from(trapped)
        entry = function.instructions[0].address
        reached = nx.descendants(live, entry) | {entry}
        live.remove_nodes_from(set(whole) - reached)
        # The padding after the last instruction does; it is not reached.
        if off := [b for b, said in live.nodes.data() if "runs_off" in said]:
            raise ProtocolError(f"'{function.name}' runs off its end from {off[0]:#06x}")
        return Flow(function, blocks, live, whole, callees)

    def has(self, name: str) -> bool:
        return any(f.name == name for f in self.module.functions)


def _blocks(function: Function, ends: dict[int, Branch], back: dict[int, int]) -> dict[int, Block]:
    """Divide the function at branch targets, and after what ends a block."""
    firsts = {function.instructions[0].address, *back.values()}
    firsts |= {target for end in ends.values() for target in end.targets}
    blocks: dict[int, Block] = {}
    held: list[Instruction] = []
    for i in function.instructions:
        if held and (i.address in firsts or held[-1].address in ends):
            blocks[held[0].address] = _block(held, ends)
            held = []
        held.append(i)
    blocks[held[0].address] = _block(held, ends)
    return blocks


def _block(held: list[Instruction], ends: dict[int, Branch]) -> Block:
    end = ends.get(held[-1].address)
    return Block(tuple(held), end.callee if end else "")


def _graph(
    blocks: dict[int, Block],
    ends: dict[int, Branch],
    back: dict[int, int],
    endless: set[str],
) -> nx.DiGraph[int]:
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(blocks)
    for address, block in blocks.items():
        end = ends.get(block.last.address, Branch(falls=True))
        after = block.last.address + INSTRUCTION_BYTES
        edges = [(target, Edge.TAKEN) for target in end.targets]
        if end.callee:
            edges.append((back[block.last.address], _after_call(end.callee, endless)))
        if end.traps:
            edges.append((after, Edge.TRAPPED))
        if end.falls:
            edges.append((after, Edge.NEXT))
        for target, kind in edges:
            if target in blocks:
                graph.add_edge(address, target, kind=kind)
            elif kind is not Edge.TRAPPED:
                graph.nodes[address]["runs_off"] = True
    return graph


def _after_call(callee: str, endless: set[str]) -> Edge:
    return Edge.TRAPPED if callee in endless or callee in NEVER_RETURN else Edge.RETURNED
