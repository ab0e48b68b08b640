"""Which warps do what: roles from the branches on the thread's index, also inside a shared loop.

A block is a role's if only warps of that role can reach it. Two warps have one role if, inside a
loop, they can reach the same work that not every warp can reach. What every warp can reach is
dispatch, prologue and tail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelrig.analyse.source.instruction_class import WORK, class_of
from kernelrig.analyse.source.listing_flow import ProfiledFlow
from kernelrig.sass import warps_of_blocks

MOST_WARPS = 32
_ENOUGH = 4
"""Instructions that must have a count before it is taken for that of the CTAs."""


@dataclass(frozen=True, slots=True)
class Part:
    """A role: its warps and its blocks. `guards` only decide whether its work is to be done."""

    name: str
    warps: frozenset[int]
    blocks: frozenset[int]
    guards: frozenset[int]


@dataclass(frozen=True, slots=True)
class Parts:
    """The roles of a kernel, and which warps reach each block. `warps` of a CTA, 0 = not known."""

    roles: tuple[Part, ...]
    reached: Mapping[int, frozenset[int]]
    warps: int

    def role_of(self, block: int) -> Part | None:
        return next((part for part in self.roles if block in part.blocks), None)

    def named(self, warps: frozenset[int]) -> str:
        """`W1`, `W2 to W5`, `W2 on` where the last one is not known; empty for every warp."""
        every = frozenset().union(*self.reached.values())
        if warps == every:
            return ""
        if not self.warps and max(warps) == max(every):
            first = min(warps)
            if warps == frozenset(range(first, max(every) + 1)):
                return f"W{first} on"
        return spans(sorted(warps))


def divide(profiled: ProfiledFlow, warps: int = 0) -> Parts:
    """Return the roles of a kernel whose CTA has `warps` warps, 0 if that has to be found out."""
    reached = warps_of_blocks(profiled.flow, warps or MOST_WARPS)
    if not warps and (warps := _warps(profiled, reached)):
        known = frozenset(range(warps))
        reached = {block: found & known for block, found in reached.items()}
    every = frozenset().union(*reached.values())
    inside = {b for loop in profiled.loops for b in loop.blocks} - profiled.detours
    shared = [
        reached[block]
        for block in profiled.blocks
        if block in inside and reached[block] != every and _works(profiled, block)
    ]
    groups = _joined(shared)
    if not groups:
        groups = [every]
    roles = []
    for group in groups:
        own = frozenset(b for b, found in reached.items() if found and found <= group)
        if group == every:
            own = frozenset(b for b in own if b in inside or b in profiled.detours)
        if own:
            name = _name(profiled, own)
            roles.append(Part(name, group, own, frozenset(_guards(profiled, own))))
    return Parts(tuple(sorted(roles, key=lambda p: min(p.warps))), reached, warps)


def spans(numbers: Iterable[int]) -> str:
    """`W0, W2 to W5` for 0, 2, 3, 4, 5."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][-1] == n - 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(f"W{p[0]}" if len(p) == 1 else f"W{p[0]} to W{p[-1]}" for p in parts)


def _warps(profiled: ProfiledFlow, reached: Mapping[int, frozenset[int]]) -> int:
    """Return the warps of a CTA: those that entered, for each CTA.

    A CTA goes once through the code of one warp that is in no loop. One CTA of a cluster may go
    further than the others, and an instruction that is issued again counts twice.
    """
    inside = {b for loop in profiled.loops for b in loop.blocks}
    alone = [b for b, found in reached.items() if len(found) == 1 and b not in inside]
    entered = profiled.counted[profiled.flow.entry].executed
    often = Counter(c.executed for c in profiled.of(alone))
    for ctas in sorted((n for n, times in often.items() if n and times >= _ENOUGH), reverse=True):
        if entered % ctas == 0 and entered // ctas <= MOST_WARPS:
            return entered // ctas
    return 0


def _works(profiled: ProfiledFlow, block: int) -> bool:
    return any(class_of(i) in WORK for i in profiled.code(block))


def _joined(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Join sets that have a warp in common."""
    groups: list[frozenset[int]] = []
    for found in sets:
        apart = [g for g in groups if not g & found]
        groups = [*apart, found.union(*(g for g in groups if g & found))]
    return [g for g in groups if g]


def _guards(profiled: ProfiledFlow, own: frozenset[int]) -> Iterable[int]:
    """Yield the role's first blocks that only decide: they do no work, and a way leads out."""
    graph = profiled.flow.graph
    heads = [b for b in own if not set(graph.predecessors(b)) & own]
    found: set[int] = set()
    while heads:
        block = heads.pop()
        leaves = set(graph.successors(block)) - own
        if block in found or _works(profiled, block) or not leaves:
            continue
        found.add(block)
        heads += [b for b in graph.successors(block) if b in own]
    return found


def _name(profiled: ProfiledFlow, blocks: frozenset[int]) -> str:
    """Return what a role is there for, by what it issues."""
    code = list(profiled.instructions(blocks))
    classes = {class_of(i) for i in code}
    stores = "global stores" in classes or any(i.matches("UTMASTG") for i in code)
    loads = any(i.matches(p) for i in code for p in ("UTMALDG", "UBLKCP", "LDGSTS"))
    if "tensor core" in classes:
        return "consumer" if stores else "MMA"
    if "tensor memory" in classes:
        return "epilogue"
    if loads:
        return "load"
    return "store" if stores else ""
