"""Which blocks of a warp-specialised kernel belong to which role.

A role is identified by the instructions that only it issues (its work). Two sets of roles classify
a block: those whose work can be reached from it (ahead), and those whose work reaches it (behind).

    ahead     behind    the block is
    several   -         prologue; or dispatch, if a successor has fewer ahead
    one       - or it   that role's, work still to come
    -         one       that role's, work done
    -         several   the common tail
    any       another   shared: after one role's work a warp may reach another's

Blocks that lead only to traps are left out: no thread continues after a trap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelrig.model import Role
from kernelrig.sass import Flow, Instruction, Loop, natural_loops

if TYPE_CHECKING:
    import networkx as nx

_LEAVES = ("EXIT", "RET", "KILL")


@dataclass(frozen=True, slots=True)
class RoleBlocks:
    """What a role executes.

    `work` are the blocks with the instructions that identify it, `missing` the patterns that none
    of them issues. No path leads from one of its `places` to another: they are copies.
    """

    role: Role
    blocks: frozenset[int]
    work: frozenset[int]
    missing: tuple[str, ...]
    places: tuple[frozenset[int], ...]
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class RoleGraph:
    """A function divided into its roles.

    Every reachable block is in exactly one of: a role, the prologue, the dispatch, the tail, the
    traps, the shared or the idle blocks.
    """

    flow: Flow
    roles: Mapping[str, RoleBlocks]
    prologue: frozenset[int]
    dispatch: frozenset[int]
    tail: frozenset[int]
    traps: frozenset[int]
    idle: frozenset[int]
    shared: Mapping[int, frozenset[str]]
    loops: tuple[Loop, ...]

    def instructions(self, role: str) -> tuple[Instruction, ...]:
        """Return what the role executes, called functions included."""
        return self.executed(self.roles[role].blocks)

    def loop_instructions(self, role: str) -> tuple[Instruction, ...]:
        """Return the instructions of the role's loops, called functions included."""
        return self.executed({b for loop in self.roles[role].loops for b in loop.blocks})

    def executed(self, blocks: Iterable[int]) -> tuple[Instruction, ...]:
        """Return the instructions of `blocks` and of the functions that they call."""
        blocks = frozenset(blocks)
        called = (i for flow in self.flow.called(blocks) for i in flow.instructions)
        return (*self.flow.within(blocks), *called)


def part_roles(flow: Flow, roles: Mapping[str, Role]) -> RoleGraph:
    """Return the function's blocks by role. Nothing is judged here: see `role_rules`."""
    work = {name: _work(flow, role) for name, role in roles.items()}
    behind = {name: _spread(flow.graph, blocks) for name, blocks in work.items()}
    ahead = {name: _spread(flow.graph.reverse(copy=False), work[name]) for name in work}
    loops = natural_loops(flow)
    traps = _traps(flow)
    own: dict[str, set[int]] = {name: set() for name in roles}
    prologue, dispatch, tail, idle = set[int](), set[int](), set[int](), set[int]()
    shared: dict[int, frozenset[str]] = {}
    for block in set(flow.graph) - traps:
        before = frozenset(n for n in roles if block in ahead[n])
        after = frozenset(n for n in roles if block in behind[n])
        if not before | after:
            idle.add(block)
        elif len(before | after) == 1:
            own[min(before | after)].add(block)
        elif not before:
            tail.add(block)
        elif after:
            shared[block] = before | after
        else:
            of_followers = [
                frozenset(n for n in roles if f in ahead[n]) for f in flow.graph.successors(block)
            ]
            parts = any(one and one != before for one in of_followers)
            (dispatch if parts else prologue).add(block)
    return RoleGraph(
        flow=flow,
        roles={
            name: _role_blocks(flow, role, own[name], work[name], loops)
            for name, role in roles.items()
        },
        prologue=frozenset(prologue),
        dispatch=frozenset(dispatch),
        tail=frozenset(tail),
        traps=frozenset(traps),
        idle=frozenset(idle),
        shared=shared,
        loops=loops,
    )


def issues(instruction: Instruction, role: Role) -> bool:
    return any(instruction.matches(pattern) for pattern in role.issues)


def _work(flow: Flow, role: Role) -> frozenset[int]:
    """Return the blocks that issue an instruction of the role, or call a function that does."""
    return frozenset(
        block
        for block in flow.graph
        if any(issues(i, role) for i in flow.within([block]))
        or any(issues(i, role) for f in flow.called([block]) for i in f.instructions)
    )


def _role_blocks(
    flow: Flow,
    role: Role,
    own: set[int],
    work: frozenset[int],
    loops: tuple[Loop, ...],
) -> RoleBlocks:
    issued = [*flow.within(work), *(i for f in flow.called(work) for i in f.instructions)]
    return RoleBlocks(
        role,
        frozenset(own),
        work,
        tuple(p for p in role.issues if not any(i.matches(p) for i in issued)),
        _places(flow, work),
        tuple(loop for loop in loops if loop.header in own),
    )


def _places(flow: Flow, work: frozenset[int]) -> tuple[frozenset[int], ...]:
    """Group the work: two blocks are together if a path leads from one to the other."""
    import networkx as nx

    together: nx.Graph[int] = nx.Graph()
    together.add_nodes_from(work)
    for block in work:
        together.add_edges_from((block, other) for other in _spread(flow.graph, [block]) & work)
    pieces = nx.connected_components(together)
    return tuple(sorted((frozenset(piece) for piece in pieces), key=min))


def _spread(graph: nx.DiGraph[int], starts: Iterable[int]) -> set[int]:
    """Return `starts`, and all that can be reached from them along `graph`."""
    found: set[int] = set()
    waiting = list(starts)
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += graph.successors(block)
    return found


def _traps(flow: Flow) -> set[int]:
    """Return the blocks from which only a trap can be reached: no exit, and no endless loop."""
    import networkx as nx

    leaves = {b for b in flow.graph if flow.blocks[b].last.root in _LEAVES}
    cycles = [c for c in nx.strongly_connected_components(flow.graph) if len(c) > 1]
    self_loops = {b for b in flow.graph if flow.graph.has_edge(b, b)}
    backwards = flow.graph.reverse(copy=False)
    return set(flow.graph) - _spread(backwards, leaves.union(self_loops, *cycles))
