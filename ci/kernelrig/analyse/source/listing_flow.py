"""A profiled kernel as its control-flow graph, with counters by block and by loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kernelrig.analyse.source.instruction_class import is_wait
from kernelrig.model import CountedInstruction, SourceCounters
from kernelrig.sass import (
    Flow,
    Instruction,
    Loop,
    control_flow,
    natural_loops,
    only_waits,
    profiled_module,
)

_AGAIN = 1.5
"""A loop of which more turns than this are taken for each entry is one; others may leave at once,
such as the loop around an instruction of one elected lane."""


@dataclass(frozen=True, slots=True)
class ProfiledFlow:
    """The kernel's own code; what it calls, such as a trap's message, is not part of it.

    `retries` are the loops that only try a barrier again, by their header; `detours` the blocks of
    those that lie aside, with the branch back from them.
    """

    flow: Flow
    counted: dict[int, CountedInstruction]
    loops: tuple[Loop, ...]
    retries: dict[int, Loop]
    detours: frozenset[int]
    _around: dict[int, list[Loop]] = field(default_factory=dict)
    _turning: dict[int, bool] = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(sorted(self.flow.graph))

    def code(self, block: int) -> tuple[Instruction, ...]:
        return self.flow.blocks[block].instructions

    def instructions(self, blocks: Iterable[int]) -> Iterator[Instruction]:
        return self.flow.within(blocks)

    def of(self, blocks: Iterable[int]) -> Iterator[CountedInstruction]:
        return (self.counted[i.address] for i in self.instructions(blocks))

    def times(self, block: int) -> int:
        """Return how often warps went through a block: the most that one instruction has."""
        return max(c.executed for c in self.of([block]))

    def samples(self, blocks: Iterable[int]) -> int:
        return sum(c.samples for c in self.of(blocks))

    def entries(self, loop: Loop) -> int:
        """Return how often a loop was entered: what its predecessors outside of it executed.

        A predecessor that may go elsewhere counts in full, so it is the most that can be.
        """
        before = set(self.flow.graph.predecessors(loop.header)) - loop.blocks
        return sum(self.counted[self.flow.blocks[b].last.address].executed for b in before)

    def turns(self, loop: Loop) -> bool:
        """Return whether a loop is gone round, and not only once for each entry."""
        if (header := loop.header) not in self._turning:
            least = _AGAIN * max(1, self.entries(loop))
            self._turning[header] = header not in self.retries and self.times(header) >= least
        return self._turning[header]

    def innermost(self, block: int) -> Loop | None:
        """Return the smallest loop around a block that is gone round."""
        around = [loop for loop in self.around(block) if self.turns(loop)]
        return min(around, key=lambda loop: len(loop.blocks), default=None)

    def depth(self, block: int) -> int:
        return max((loop.depth for loop in self.around(block)), default=0)

    def around(self, block: int) -> list[Loop]:
        """Return the loops that a block is in."""
        if not self._around:
            for loop in self.loops:
                for inside in loop.blocks:
                    self._around.setdefault(inside, []).append(loop)
        return self._around.get(block, [])


def profiled_flow(counters: SourceCounters) -> ProfiledFlow:
    """Return the graph of a profiled kernel; ProtocolError where it cannot be followed."""
    lines = [(c.address, c.sass) for c in counters.instructions]
    flow = control_flow(profiled_module(counters.kernel, lines), counters.kernel)
    base = lines[0][0]
    return _with_loops(flow, {c.address - base: c for c in counters.instructions})


def unprofiled_flow(flow: Flow) -> ProfiledFlow:
    """Return the graph of a kernel of which nothing was measured: every count is 0."""
    code = (i for block in flow.blocks.values() for i in block.instructions)
    counted = {i.address: CountedInstruction(i.address, i.text, 0, 0, 0, 0, 0) for i in code}
    return _with_loops(flow, counted)


def _with_loops(flow: Flow, counted: dict[int, CountedInstruction]) -> ProfiledFlow:
    loops = natural_loops(flow)
    retries = {loop.header: loop for loop in loops if only_waits(flow, loop)}
    return ProfiledFlow(flow, counted, loops, retries, frozenset(_detours(flow, retries)))


def _detours(flow: Flow, retries: dict[int, Loop]) -> Iterator[int]:
    """Yield the blocks of retry loops that a wait elsewhere leads to, and the way back."""
    for loop in retries.values():
        outside = set(flow.graph.predecessors(loop.header)) - loop.blocks
        if not outside or not all(_ends_in_wait(flow, block) for block in outside):
            continue
        yield from loop.blocks
        for block in loop.blocks:
            for after in flow.graph.successors(block):
                code = flow.blocks[after].instructions
                own = set(flow.graph.predecessors(after)) <= loop.blocks
                if after not in loop.blocks and own and len(code) == 1 and code[0].root == "BRA":
                    yield after


def _ends_in_wait(flow: Flow, block: int) -> bool:
    return any(is_wait(i) for i in flow.blocks[block].instructions)
