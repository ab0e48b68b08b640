"""Required order: on every path to `target`, after the latest `since`, there is a `before`.

Dominance alone cannot express it: it has no `since`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kernelrig.sass.code import Instruction
from kernelrig.sass.flow import Flow

Predicate = Callable[[Instruction], bool]
"""Which instructions are meant."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A shortest path to `instruction` without what must precede it.

    `path` are its blocks, from where it begins: the entry, or the last `since`.
    """

    instruction: Instruction
    since: Instruction | None
    path: tuple[int, ...]


def breaches(
    flow: Flow,
    target: Predicate,
    before: Predicate,
    since: Predicate | None = None,
    within: Iterable[int] | None = None,
) -> tuple[Breach, ...]:
    """Return each `target` that some path reaches without `before`.

    The path begins at the entry, and anew at each `since`: a fence counts only for the stores that
    stand before it. Loops are followed round. A predicated `before` may not run and does not count;
    a predicated `since` may run and does; so does one in a function that is called on the way.
    `within` keeps to the blocks of a role: paths then begin wherever it is entered.
    """
    inside = set(flow.graph) if within is None else set(within)
    ways = deque(_begins(flow, inside, since))
    found: dict[int, Breach] = {}
    seen = {block for block, at, _, _ in ways if at == 0}
    while ways:
        block, at, path, origin = ways.popleft()
        if _is_done(flow.blocks[block].instructions[at:], target, before, path, origin, found):
            continue
        for follower in sorted(set(flow.graph.successors(block)) & inside - seen):
            seen.add(follower)
            ways.append((follower, 0, (*path, follower), origin))
    return tuple(found[address] for address in sorted(found))


_Way = tuple[int, int, tuple[int, ...], Instruction | None]
"""A block, where in it the way goes on, the blocks passed, and the `since` it began at."""


def _begins(flow: Flow, inside: set[int], since: Predicate | None) -> Iterator[_Way]:
    if since:
        for block in sorted(inside):
            code = flow.blocks[block].instructions
            yield from ((block, n + 1, (block,), i) for n, i in enumerate(code) if since(i))
            if any(since(i) for callee in flow.called([block]) for i in callee.instructions):
                yield block, len(code), (block,), code[-1]
    for block in sorted(inside):
        if block == flow.entry or set(flow.graph.predecessors(block)) - inside:
            yield block, 0, (block,), None


def _is_done(
    code: tuple[Instruction, ...],
    target: Predicate,
    before: Predicate,
    path: tuple[int, ...],
    origin: Instruction | None,
    found: dict[int, Breach],
) -> bool:
    """Add the targets in `code` to `found`; return whether a `before` ends the path here."""
    for i in code:
        if before(i) and not i.conditional:
            return True
        if target(i):
            found.setdefault(i.address, Breach(i, origin, path))
    return False
