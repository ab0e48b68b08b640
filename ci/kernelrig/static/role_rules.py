"""W001 to W005: each warp role is present, once, and no warp can reach another role's work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kernelrig.config.expression import evaluate
from kernelrig.findings import locate
from kernelrig.model import Check, Finding, Rule
from kernelrig.sass import (
    Flow,
    Instruction,
    Loop,
    barriers,
    dominates,
    dominators,
    only_waits,
    whole_cta,
)
from kernelrig.static.role_dispatch import diverged_warps, roles_of_threads, warps_text
from kernelrig.static.role_graph import RoleBlocks, RoleGraph, issues
from kernelrig.static.rule_check import broken_rule, broken_rule_at, judged, not_asked, not_judged

FOUND = Rule(
    "W001",
    "role-found",
    "every role that kernels.yaml names issues all of its instructions",
    "a role without them was optimised away, or does its work with something slower",
    "look for the missing instruction in the PTX; adapt the role's `issues` if it was replaced",
)
ONCE = Rule(
    "W002",
    "role-once",
    "each role's code is in one place, or in as many as kernels.yaml says",
    "a second copy takes room in the instruction cache, and is tuned and read apart from the first",
    "branch once on the warp index, and let the warps of a role differ by data alone",
)
DISJOINT = Rule(
    "W003",
    "roles-disjoint",
    "from the dispatch to the common tail no block belongs to two roles",
    "in shared code a warp of one role waits for, or does, the work of another: roles no longer"
    " overlap, and registers and divergence are those of both",
    "give each role its own loops inside one chain of branches on the warp index",
)
APART = Rule(
    "W004",
    "role-apart",
    "no role holds a barrier that counts every thread of the CTA or the cluster",
    "the warps of other roles never arrive at it: the kernel hangs, or they arrive at another one",
    "use an mbarrier, or a named barrier with the count of the role's own threads",
)
BY_WARP = Rule(
    "W005",
    "role-by-warp",
    "all lanes of a warp take the same role",
    "a warp whose lanes diverge runs one role after the other, and its `.aligned` instructions,"
    " which need the whole warp, are undefined",
    "branch on threadIdx.x / 32, and elect a lane inside the role",
)
RULES = (FOUND, ONCE, DISJOINT, APART, BY_WARP)
MOST_THREADS = 1024


def check_roles(
    graph: RoleGraph,
    source: str,
    threads: int = MOST_THREADS,
    tunables: Mapping[str, int] | None = None,
) -> tuple[Check, ...]:
    """Judge the roles of a function; `source` is the kernel's own file, findings are on its lines.

    `threads` are those of a CTA. The facts of the first Check list what each role consists of.
    """
    if not graph.roles:
        return tuple(
            not_asked(rule, "kernels.yaml names no roles of this kernel") for rule in RULES
        )
    names = ", ".join(graph.roles)
    return (
        _answer(FOUND, _missing(graph), f"found: {names}", role_facts(graph, source)),
        _answer(ONCE, _copies(graph, source, tunables or {}), _places(graph)),
        _answer(DISJOINT, _shared_code(graph, source), f"disjoint: {names}"),
        *(_several_roles(graph, source, threads) if len(graph.roles) > 1 else _single_role()),
    )


def role_facts(graph: RoleGraph, source: str) -> dict[str, str]:
    """Return what each role consists of: its size, its loops with what they issue and wait for."""
    facts = {"dispatch": ", ".join(_branch(graph.flow, b, source) for b in sorted(graph.dispatch))}
    for name, held in graph.roles.items():
        if not held.blocks:
            continue
        spins = [loop for loop in held.loops if only_waits(graph.flow, loop)]
        first = graph.flow.blocks[min(held.work or held.blocks)].instructions[0]
        facts[name] = ", ".join(
            (
                f"{len(held.blocks)} blocks",
                f"{len(list(graph.flow.within(held.blocks)))} instructions",
                f"work at {locate(first.place.frames, source).text}",
                f"loops that only wait: {len(spins)}",
            )
        )
        for loop in held.loops:
            if loop not in spins:
                label = f"{name}, loop at {_line(graph.flow, loop.header, source)}"
                # Two loops of one line, unrolled or specialised, differ by their addresses.
                label += f" ({loop.header:#x})" if label in facts else ""
                facts[label] = _loop(graph.flow, loop, held.role.issues, source)
    return {label: text for label, text in facts.items() if text}


def _answer(
    rule: Rule,
    findings: Iterable[Finding],
    holds: str,
    facts: Mapping[str, str] | None = None,
) -> Check:
    found = tuple(findings)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return judged(rule, found, f"{found[0].message}{more}" if found else holds, facts)


def _missing(graph: RoleGraph) -> Iterator[Finding]:
    kernel = graph.flow.function.name
    for name, held in graph.roles.items():
        for pattern in held.missing:
            yield broken_rule(
                FOUND,
                f"{name} is identified by {pattern}, which the kernel does not issue",
                kernel=kernel,
            )


def _copies(graph: RoleGraph, source: str, tunables: Mapping[str, int]) -> Iterator[Finding]:
    for name, held in graph.roles.items():
        wanted = evaluate(held.role.places, tunables)
        if held.places and len(held.places) != wanted:
            at = _first_issue(graph.flow, held.places[-1], held)
            message = f"{name} is in {_count(len(held.places))}, not {wanted}"
            yield _finding(ONCE, graph, at, source, message)


def _places(graph: RoleGraph) -> str:
    return ", ".join(f"{n} in {_count(len(held.places))}" for n, held in graph.roles.items())


def _count(places: int) -> str:
    return f"{places} place" if places == 1 else f"{places} places"


def _shared_code(graph: RoleGraph, source: str) -> Iterator[Finding]:
    """Yield a finding for each two roles of which one's warps can reach the other's work.

    It is at the first block on the path that not only the first role's warps execute.
    """
    idom = dominators(graph.flow)
    roles = list(graph.roles.values())
    for n, one in enumerate(roles):
        for other in roles[n + 1 :]:
            ways = [w for w in (_way(graph, one, other), _way(graph, other, one)) if w]
            if not ways:
                continue
            way = min(ways, key=len)
            shared = (b for b in way if not dominates(way[0], b, idom))
            at = graph.flow.blocks[next(shared, way[-1])].instructions[0]
            message = f"warps of {one.role.name} and {other.role.name} run the same code"
            if enclosing := _smallest_loop(graph, one, other):
                message += f": the loop at {_line(graph.flow, enclosing.header, source)} holds both"
            yield _finding(DISJOINT, graph, at, source, message)


def _way(graph: RoleGraph, one: RoleBlocks, other: RoleBlocks) -> list[int]:
    """Return the shortest path from the work of `one` to that of `other`, empty if none."""
    import networkx as nx

    best: list[int] = []
    for start in one.work & graph.shared.keys():
        reached = nx.single_source_shortest_path(graph.flow.graph, start)
        for end in other.work & reached.keys():
            if not best or len(reached[end]) < len(best):
                best = reached[end]
    return best


def _smallest_loop(graph: RoleGraph, one: RoleBlocks, other: RoleBlocks) -> Loop | None:
    enclosing = [p for p in graph.loops if p.blocks & one.work and p.blocks & other.work]
    return min(enclosing, key=lambda loop: len(loop.blocks), default=None)


def _whole_cta_barriers(graph: RoleGraph, source: str) -> Iterator[Finding]:
    for name, held in graph.roles.items():
        for barrier in barriers(graph.flow.within(held.blocks)):
            if whole_cta(barrier):
                message = (
                    f"{name} holds {barrier.instruction.opcode}, at which other roles never arrive"
                )
                yield _finding(APART, graph, barrier.instruction, source, message)


def _finding(rule: Rule, graph: RoleGraph, at: Instruction, source: str, message: str) -> Finding:
    return broken_rule_at(rule, message, graph.flow.function.name, at, source)


def _several_roles(graph: RoleGraph, source: str, threads: int) -> Iterator[Check]:
    yield _answer(APART, _whole_cta_barriers(graph, source), f"none in: {', '.join(graph.roles)}")
    yield _by_warp(graph, source, threads)


def _single_role() -> Iterator[Check]:
    yield from (
        not_asked(rule, "a single role is apart from no other") for rule in (APART, BY_WARP)
    )


def _by_warp(graph: RoleGraph, source: str, threads: int) -> Check:
    if graph.shared or not graph.dispatch:
        return not_judged(BY_WARP, "there is no dispatch to the roles: see the rules above")
    by_thread = roles_of_threads(graph, threads)
    if isinstance(by_thread, str):
        return not_judged(BY_WARP, by_thread)
    branch = graph.flow.blocks[min(graph.dispatch)].last
    found = [
        _finding(BY_WARP, graph, branch, source, f"lanes of warp {warp} part: {_list(names)}")
        for warp, names in diverged_warps(by_thread).items()
    ]
    who = {name: warps_text(by_thread, name) for name in graph.roles}
    return _answer(BY_WARP, found, ", ".join(f"{n}: {w}" for n, w in who.items()), who)


def _list(names: Sequence[str]) -> str:
    return " and ".join(name or "no role" for name in names)


def _first_issue(flow: Flow, blocks: Iterable[int], held: RoleBlocks) -> Instruction:
    code = list(flow.within(blocks))
    return next((i for i in code if issues(i, held.role)), code[0])


def _loop(flow: Flow, loop: Loop, patterns: tuple[str, ...], source: str) -> str:
    code = list(flow.within(loop.blocks))
    issued = Counter(i.opcode for i in code if any(i.matches(p) for p in patterns))
    parts = [f"{len(code)} instructions", *(f"{n} {what}" for what, n in issued.items())]
    waits = Counter(
        f"{b.kind.value} at :{locate(b.instruction.place.frames, source).line}"
        for b in barriers(code)
    )
    parts += [f"{what} x{n}" if n > 1 else what for what, n in waits.items()]
    if loop.entries > 1:
        parts.append(f"can be entered at {loop.entries} blocks")
    return ", ".join(parts)


def _branch(flow: Flow, block: int, source: str) -> str:
    return f"{_line(flow, block, source)} {flow.blocks[block].last.text.split(' `')[0].rstrip(',')}"


def _line(flow: Flow, block: int, source: str) -> str:
    # The last instruction: ptxas moves others between lines, a branch stays on its own.
    return locate(flow.blocks[block].last.place.frames, source).text
