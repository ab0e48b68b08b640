"""How far an asynchronous load is from the instruction that waits for it.

The wait is that of the scoreboard, read from the cubin: the first instruction on some path that
waits for the one the load sets. The first use of a register does not show it: `tcgen05.wait::ld`
has no instruction of its own, and ptxas puts the wait on one that uses none of the results.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernelrig.sass.code import Instruction
from kernelrig.sass.cubin import Issue
from kernelrig.sass.flow import Flow

_DEPBAR = re.compile(r"SB([0-5])")


@dataclass(frozen=True, slots=True)
class LoadWait:
    """A load, and the nearest instruction that waits for it; None if none does.

    `instructions` stand between the two; `cycles` is the least that issuing them takes one warp.
    """

    load: Instruction
    waiter: Instruction | None
    instructions: int = 0
    cycles: int = 0


def load_waits(flow: Flow, issue: Mapping[int, Issue], pattern: str) -> tuple[LoadWait, ...]:
    """Return the distance from each load that `pattern` names to its wait, on the shortest path."""
    return tuple(
        _nearest(flow, issue, block, at)
        for block in sorted(flow.graph)
        for at, i in enumerate(flow.blocks[block].instructions)
        if i.matches(pattern)
    )


def _nearest(flow: Flow, issue: Mapping[int, Issue], block: int, at: int) -> LoadWait:
    load = flow.blocks[block].instructions[at]
    board = issue[load.address].sets_on_write
    if board is None:
        return LoadWait(load, None)
    found: dict[int, Instruction] = {}
    # Instructions passed, cycles, block, place in it: of two ways the shorter is gone first.
    ways = [(0, issue[load.address].stall, block, at + 1)]
    seen: set[int] = set()
    while ways:
        passed, cycles, block, at = heapq.heappop(ways)
        if block in found and at < 0:
            return LoadWait(load, found[block], passed, cycles)
        for i in flow.blocks[block].instructions[at:]:
            if board in _awaited(i, issue[i.address]):
                found[i.address] = i
                heapq.heappush(ways, (passed, cycles, i.address, -1))
                break
            passed, cycles = passed + 1, cycles + issue[i.address].stall
        else:
            for follower in set(flow.graph.successors(block)) - seen:
                heapq.heappush(ways, (passed, cycles, follower, 0))
        if at == 0:
            seen.add(block)  # a loop may come back to what stands before the load
    return LoadWait(load, None)


def _awaited(i: Instruction, issue: Issue) -> Iterator[int]:
    yield from issue.waits
    if i.root == "DEPBAR" and i.operands and (found := _DEPBAR.match(i.operands[0])):
        yield int(found[1])
