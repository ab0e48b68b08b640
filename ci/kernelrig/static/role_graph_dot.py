"""The control-flow graph of a kernel as a picture: DOT always, SVG where graphviz is.

Blocks are coloured by role and boxed with their loop. What runs in one piece once traps are left
out is one node: a kernel of hundreds of blocks stays legible.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelrig.files.rundir import write_atomic
from kernelrig.findings import locate
from kernelrig.findings.location import is_file
from kernelrig.proc import run_process
from kernelrig.sass import Edge, Instruction, Loop, barriers
from kernelrig.static.role_graph import RoleGraph

LAYOUT_LIMIT_S = 120.0
_ROLE_COLOURS = ("#9ad0f5", "#f9c784", "#9fdcc0", "#e3b5d6", "#f3ec9a", "#b9c4f0", "#f2b09a")
"""Light enough for black text, and distinguishable with red-green colour blindness."""

_COLOURS = {"prologue": "white", "dispatch": "white", "tail": "#d8d8d8", "idle": "#f0f0f0"}
_SHARED = "shared"
_SHARED_COLOUR = "#ff6b6b"
_HEAD = (
    "digraph {name} {{",
    'graph [rankdir=TB, ranksep=0.3, fontname="Helvetica", labelloc=t, label={title}];',
    'node [shape=box, style=filled, fontname="Helvetica", fontsize=10, margin="0.08,0.05"];',
    'edge [fontname="Helvetica", fontsize=9, arrowsize=0.6];',
)
_SHOWN_LINES = 6


def role_dot(graph: RoleGraph, source: str, title: str = "") -> str:
    """Return the graph in the language of graphviz; `source` is the file whose lines are shown."""
    return "\n".join(_Picture.of(graph, source).lines(title)) + "\n"


def write_picture(dot_text: str, path: Path, program: str = "dot") -> tuple[Path, ...]:
    """Write `path` with the suffix .dot, and .svg where graphviz is; return what was written.

    A picture is for people: without graphviz, or if it gives up, there is the text alone.
    """
    written = path.with_suffix(".dot")
    write_atomic(written, dot_text)
    if not shutil.which(program):
        return (written,)
    picture = path.with_suffix(".svg")
    done = run_process([program, "-Tsvg", "-o", picture, written], timeout_s=LAYOUT_LIMIT_S)
    return (written,) if done.exit_code else (written, picture)


@dataclass(frozen=True, slots=True)
class _Picture:
    """Nodes by their first block: the blocks each is made of, and the kind it is drawn as."""

    graph: RoleGraph
    source: str
    nodes: Mapping[int, tuple[int, ...]]
    kinds: Mapping[int, str]
    loops: Mapping[int, Loop]

    @classmethod
    def of(cls, graph: RoleGraph, source: str) -> _Picture:
        kinds = {b: name for name, held in graph.roles.items() for b in held.blocks}
        for kind in _COLOURS:
            kinds |= dict.fromkeys(getattr(graph, kind), kind)
        kinds |= dict.fromkeys(graph.shared, _SHARED)
        # The smallest loop around each block: outer ones come first, and are overwritten.
        loops = {b: loop for loop in graph.loops for b in loop.blocks}
        picture = cls(graph, source, {}, kinds, loops)
        return cls(graph, source, picture.pieces(), kinds, loops)

    def pieces(self) -> dict[int, tuple[int, ...]]:
        """Join blocks that always follow one another, in one role and one loop."""
        flow = self.graph.flow.graph.subgraph(self.kinds)
        nodes: dict[int, list[int]] = {}
        held_by: dict[int, int] = {}
        for block in sorted(flow):
            before = list(flow.predecessors(block))
            head = held_by.get(before[0]) if len(before) == 1 else None
            if (
                head is not None
                and flow.out_degree(before[0]) == 1
                and self.kinds[block] == self.kinds[head]
                and self.loops.get(block) == self.loops.get(head)
            ):
                nodes[head].append(block)
                held_by[block] = head
            else:
                nodes[block] = [block]
                held_by[block] = block
        return {head: tuple(blocks) for head, blocks in nodes.items()}

    def lines(self, title: str) -> Iterator[str]:
        name = self.graph.flow.function.name
        for line in _HEAD:
            yield line.format(name=_quoted(name), title=_quoted(title or name))
        roles = tuple(self.graph.roles)
        colours = {r: _ROLE_COLOURS[n % len(_ROLE_COLOURS)] for n, r in enumerate(roles)}
        for kind, colour in (colours | _COLOURS | {_SHARED: _SHARED_COLOUR}).items():
            held = [head for head in self.nodes if self.kinds[head] == kind]
            if held:
                yield from self.cluster(kind, colour, held)
        yield from self.edges()
        yield "}"

    def cluster(self, kind: str, colour: str, heads: list[int]) -> Iterator[str]:
        code = list(self.graph.flow.within(b for h in heads for b in self.nodes[h]))
        yield f"subgraph {_quoted(f'cluster_{kind}')} {{"
        yield f"label={_quoted(f'{kind}: {len(code)} instructions')}; fontsize=16;"
        yield 'style="rounded"; color="#888888";'
        yield from self.boxed(heads, colour, None)
        yield "}"

    def boxed(self, heads: list[int], colour: str, enclosing: int | None) -> Iterator[str]:
        """Yield the nodes of the loop with header `enclosing`, and a box for each loop in it.

        None stands for the function itself: nodes and loops that are in no other loop.
        """
        for head in heads:
            loop = self.loops.get(head)
            here = loop.inside if loop and self.is_small(loop) else loop and loop.header
            if here == enclosing:
                yield self.node(head, colour)
        for loop in self.graph.loops:
            inside = [h for h in heads if h in loop.blocks]
            if not inside or loop.inside != enclosing or self.is_small(loop):
                continue
            count = len(list(self.graph.flow.within(loop.blocks)))
            line = locate(self.graph.flow.blocks[loop.header].last.place.frames, self.source).line
            yield f"subgraph {_quoted(f'cluster_loop_{self.kinds[inside[0]]}_{loop.header}')} {{"
            yield f"label={_quoted(f'loop at :{line}, {count} instructions')}; fontsize=12;"
            yield 'style="rounded,bold"; color="#555555";'
            yield from self.boxed(inside, colour, loop.header)
            yield "}"

    def is_small(self, loop: Loop) -> bool:
        """Return whether an arrow is enough to show the loop: a wait that spins."""
        return len([h for h in self.nodes if h in loop.blocks]) < 3

    def node(self, head: int, colour: str) -> str:
        code = list(self.graph.flow.within(self.nodes[head]))
        lines = [f"{head:#x}, {len(code)} instr", *self.notable(code)]
        if any(b in self.graph.traps for p in self.nodes[head] for b in self.followers(p)):
            lines.append("may trap")
        shape = ", penwidth=3" if head in self.graph.dispatch else ""
        text = "".join(f"{line}\\l" for line in lines)
        return f'{_quoted(hex(head))} [fillcolor="{colour}"{shape}, label={_quoted(text)}];'

    def followers(self, block: int) -> Iterator[int]:
        return iter(self.graph.flow.whole.successors(block))

    def notable(self, code: list[Instruction]) -> Iterator[str]:
        """Yield the source lines, the instructions that identify roles, and the barriers used."""
        frames = {locate(i.place.frames, self.source) for i in code}
        numbers = sorted({f.line for f in frames if is_file(f.file, self.source)})
        if numbers:
            yield f"line {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
        patterns = [p for held in self.graph.roles.values() for p in held.role.issues]
        counts = Counter(i.opcode for i in code if any(i.matches(p) for p in patterns))
        for b in barriers(code):
            counts[f"{b.kind.value} :{locate(b.instruction.place.frames, self.source).line}"] += 1
        shown = [f"{what} x{n}" if n > 1 else what for what, n in counts.items()]
        yield from shown[:_SHOWN_LINES]
        if len(shown) > _SHOWN_LINES:
            yield f"and {len(shown) - _SHOWN_LINES} more"

    def edges(self) -> Iterator[str]:
        heads = {block: head for head, blocks in self.nodes.items() for block in blocks}
        for a, b, data in self.graph.flow.graph.edges.data():
            if a not in heads or b not in heads or (heads[a] == heads[b] and b != heads[b]):
                continue
            how = []
            if data["kind"] is Edge.TAKEN and (when := _when(self.graph.flow.blocks[a].last)):
                how.append(f"label={_quoted(when)}")
            if (loop := self.loops.get(a)) and b == loop.header:
                how.append("penwidth=2")
            if data["kind"] is Edge.RETURNED:
                how.append("style=dashed")
            attributes = f" [{', '.join(how)}]" if how else ""
            yield f"{_quoted(hex(heads[a]))} -> {_quoted(hex(heads[b]))}{attributes};"


def _when(branch: Instruction) -> str:
    """Return on what a branch is taken: `!P0`, `UP0`, or that the warp has diverged."""
    if branch.matches("BRA.DIV"):
        return "diverged"
    return branch.guard or (branch.operands[0] if len(branch.operands) > 1 else "")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
