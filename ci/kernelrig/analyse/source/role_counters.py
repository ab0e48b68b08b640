"""What each role executes, and the regions inside it: its loops, and what lies between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from kernelrig.analyse.source.instruction_class import WORK, class_of
from kernelrig.analyse.source.listing_flow import ProfiledFlow
from kernelrig.analyse.source.role_parts import Part, Parts
from kernelrig.analyse.source.stall_causes import shares
from kernelrig.model import CountedInstruction, Region, SourceRole
from kernelrig.sass import Instruction

BY_COUNT = 16
"""Instructions with one count that are taken for a role where the graph is not known."""
_TOP = 3
_MOST_REGIONS = 8
_LEAST_SHARE = 0.005
"""Of a role's samples or instructions: a region with less of both is not shown."""


def role_counters(
    profiled: ProfiledFlow, parts: Parts, tiles: int, samples: int
) -> Iterator[SourceRole]:
    """Yield what each role executes; `samples` are those of the launch."""
    for part in parts.roles:
        yield _role(profiled, parts, part, tiles, samples)


def _role(profiled: ProfiledFlow, parts: Parts, part: Part, tiles: int, samples: int) -> SourceRole:
    body = [
        b
        for b in sorted(part.blocks)
        if b not in part.guards and b not in profiled.detours and profiled.depth(b)
    ] or sorted(part.blocks)
    executed, again = _executed(profiled, body)
    iterations = _iterations(profiled, body)
    counted = list(profiled.of(part.blocks))
    own = sum(c.samples for c in counted)
    aside = sum(profiled.times(b) for b in part.blocks & profiled.detours & set(profiled.retries))
    threads = sum(c.threads for c in counted)
    return SourceRole(
        name=part.name,
        warps=parts.named(part.warps) or "every warp",
        instructions=len(counted),
        executed=sum(c.executed for c in counted),
        iterations=iterations,
        per_iteration=executed / iterations if iterations else 0.0,
        per_tile=executed / tiles if tiles else None,
        retried=again + aside,
        samples=own,
        share=own / samples if samples else 0.0,
        predicated_on=sum(c.predicated_on for c in counted) / threads if threads else 0.0,
        stalls=shares(counted, _TOP),
        regions=tuple(_regions(profiled, parts, body, own, executed)),
    )


def _executed(profiled: ProfiledFlow, body: Sequence[int]) -> tuple[int, int]:
    """Return the instructions of a role without those that try a wait again, and how often."""
    executed = again = 0
    for block in body:
        counted = list(profiled.of([block]))
        if loop := profiled.retries.get(block):
            entered = min(profiled.times(block), profiled.entries(loop))
            again += profiled.times(block) - entered
            executed += sum(min(c.executed, entered) for c in counted)
        else:
            executed += sum(c.executed for c in counted)
    return executed, again


def _iterations(profiled: ProfiledFlow, body: Sequence[int]) -> int:
    """Return how often the warps of a role go round its main loop, together."""
    depths = {b: loop.depth for b in body if (loop := profiled.innermost(b))}
    outer = min(depths.values(), default=0)
    main = [b for b in body if depths.get(b, 0) == outer and b not in profiled.retries]
    return max((profiled.times(b) for b in main or body), default=0)


def _regions(
    profiled: ProfiledFlow, parts: Parts, body: Sequence[int], samples: int, executed: int
) -> Iterator[Region]:
    """Yield the parts of a role that differ in loop or in warps, by address."""
    held: dict[tuple[int, frozenset[int]], list[int]] = defaultdict(list)
    for block in body:
        loop = profiled.innermost(block)
        held[loop.header if loop else -1, parts.reached[block]].append(block)
    if len(held) < 2:
        return
    found = [
        _region(profiled, parts, key[0], key[1], blocks)
        for key, blocks in held.items()
        if profiled.samples(blocks) >= _LEAST_SHARE * samples
        or sum(c.executed for c in profiled.of(blocks)) >= _LEAST_SHARE * executed
    ]
    found.sort(key=lambda r: -r.samples)
    yield from sorted(found[:_MOST_REGIONS], key=lambda r: r.at)


def _region(
    profiled: ProfiledFlow,
    parts: Parts,
    header: int,
    warps: frozenset[int],
    blocks: list[int],
) -> Region:
    counted = list(profiled.of(blocks))
    again = [profiled.of([b]) for b in blocks if b not in profiled.retries]
    times = max((max(c.executed for c in of) for of in again), default=profiled.times(blocks[0]))
    executed, _ = _executed(profiled, blocks)
    loop = next((x for x in profiled.loops if x.header == header), None)
    return Region(
        at=min(blocks),
        what=contents(list(profiled.instructions(blocks))),
        warps=parts.named(warps) or "every warp",
        loop=loop is not None and loop.depth > 1,
        instructions=len(counted),
        times=times,
        per_time=executed / times if times else 0.0,
        samples=sum(c.samples for c in counted),
        stalls=shares(counted, _TOP),
    )


def contents(code: Sequence[Instruction]) -> str:
    """Return what a piece of code works with: `24 tensor core, 18 barriers`; empty for none."""
    held = Counter(c for i in code if (c := class_of(i)) in WORK)
    return ", ".join(f"{n} {what}" for what, n in held.most_common(_TOP)) or "addresses, decisions"


def roles_by_count(
    code: Sequence[tuple[CountedInstruction, Instruction]], tiles: int, samples: int
) -> Iterator[SourceRole]:
    """Yield a role for each count that many instructions have: the graph is not known."""
    groups: dict[int, list[tuple[CountedInstruction, Instruction]]] = defaultdict(list)
    for counted, i in code:
        if counted.executed:
            groups[counted.executed].append((counted, i))
    for times, group in sorted(groups.items(), key=lambda g: -len(g[1])):
        if len(group) < BY_COUNT:
            continue
        counted_of = [counted for counted, _ in group]
        own = sum(c.samples for c in counted_of)
        threads = sum(c.threads for c in counted_of)
        yield SourceRole(
            name=contents([i for _, i in group]),
            warps=f"{times:,} times",
            instructions=len(group),
            executed=times * len(group),
            iterations=times,
            per_iteration=float(len(group)),
            per_tile=times * len(group) / tiles if tiles else None,
            retried=0,
            samples=own,
            share=own / samples if samples else 0.0,
            predicated_on=sum(c.predicated_on for c in counted_of) / threads if threads else 0.0,
            stalls=shares(counted_of, _TOP),
            regions=(),
        )
