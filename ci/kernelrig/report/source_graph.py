"""The control-flow graph of a profiled kernel as DOT, with counts and samples by basic block."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.model import LayoutBlock, SourceAnalysis
from kernelrig.terminal.text import one_line


def render_graph(analysis: SourceAnalysis) -> str:
    """Return the graph; a block is the darker the more samples lie in it."""
    most = max((b.samples for b in analysis.layout), default=0)
    lines = [f"digraph {_quoted(analysis.kernel)} {{", 'node [shape=box, fontname="monospace"];']
    lines += (line for b in analysis.layout for line in _block(b, most, analysis.samples))
    return "\n".join((*lines, "}", ""))


def _block(b: LayoutBlock, most: int, samples: int) -> Iterator[str]:
    share = f" ({100 * b.samples / samples:.1f}%)" if samples and b.samples else ""
    said = (
        f"{b.at:#06x}, {b.size // 16} instructions",
        b.role,
        f"{b.executed:,} times",
        f"{b.samples:,} samples{share}",
    )
    label = "\\n".join(_escaped(text) for text in said if text)
    heat = b.samples / most if most else 0.0
    yield f'"{b.at:#x}" [label="{label}", style=filled, fillcolor="0.05 {heat:.3f} 1.0"];'
    yield from (f'"{b.at:#x}" -> "{to:#x}";' for to in b.to)


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')
