"""Counters by instruction as text: stalls, roles, matrix instructions, waits, what to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from kernelrig.model import SourceAnalysis, SourceRole, StallShare
from kernelrig.model.frame import Frame
from kernelrig.terminal.text import one_line, render_rows

_STALLS, _WAITS, _MIX, _EXCESS = 8, 8, 10, 6
_SASS = 60
"""Letters of an instruction that are shown."""


def render_source(analysis: SourceAnalysis, *, layout: bool = False) -> str:
    """Render an analysis; `layout` adds a row for each basic block, by address."""
    return "\n".join(_lines(analysis, layout)) + "\n"


def _lines(a: SourceAnalysis, layout: bool) -> Iterator[str]:
    head = f"{one_line(a.kernel)}: {a.instructions:,} instructions"
    if a.executed:
        where = f"{a.warps} warps a CTA" if a.warps else "warps of a CTA not known"
        tiles = f", {a.tiles:,} tiles" if a.tiles else ""
        yield f"{head}, {a.executed:,} executed by warps; {where}{tiles}"
        yield (
            f"{a.samples:,} samples, {a.samples_executed:,} on executed instructions,"
            f" {a.not_issued:,} while no warp issued"
        )
    else:
        yield head
    yield from (f"note: {one_line(note)}" for note in a.notes)
    if a.stalls:
        stalls = [("stall", "samples", "share", "")]
        stalls += [(s.reason, f"{s.samples:,}", _percent(s), s.meaning) for s in a.stalls[:_STALLS]]
        yield from ("", render_rows(stalls))
    if a.roles and not a.executed:
        parts = [("role", "warps", "in code")]
        parts += [(r.name or "-", r.warps, f"{r.instructions:,}") for r in a.roles]
        yield from ("", render_rows(parts))
    elif a.roles:
        yield from ("", _roles(a.roles))
    if a.executed and (regions := list(_regions(a.roles))):
        yield from ("", render_rows([_REGION, *regions]))
    if a.tensor:
        rows = [("matrix instruction", "in code", "executed", "samples", "stalls")]
        rows += [
            (t.opcode, f"{t.instructions}", f"{t.executed:,}", f"{t.samples:,}", _top(t.stalls))
            for t in a.tensor
        ]
        yield from ("", render_rows(rows))
    yield from _waits(a)
    yield from _stalled(a)
    yield from _excess(a)
    if a.mix:
        mix = [("executed", "instructions", "in code", "share")]
        mix += [
            (m.what, f"{m.executed:,}", f"{m.instructions}", f"{100 * m.share:.1f}%")
            for m in a.mix[:_MIX]
        ]
        yield from ("", render_rows(mix))
    if a.predictions:
        counts = [("predicted", "expression", "predicted", "measured", "")]
        for p in a.predictions:
            agrees = "equal" if p.predicted == p.measured else "differs"
            counts.append((p.opcode, p.expression, f"{p.predicted:,}", f"{p.measured:,}", agrees))
        yield from ("", render_rows(counts))
    if layout:
        yield from ("", _layout(a))


def _roles(roles: Sequence[SourceRole]) -> str:
    head = ("role", "warps", "samples", "share", "instructions", "an iteration", "iterations")
    rows = [(*head, "a tile", "threads on", "stalls")]
    for r in roles:
        per_tile = f"{r.per_tile:,.1f}" if r.per_tile is not None else "-"
        figures = (f"{r.samples:,}", f"{100 * r.share:.1f}%", f"{r.executed:,}")
        each = (f"{r.per_iteration:,.1f}", f"{r.iterations:,}", per_tile)
        on = f"{100 * r.predicated_on:.1f}%"
        rows.append((r.name or "-", r.warps, *figures, *each, on, _top(r.stalls)))
    return render_rows(rows)


_REGION = ("region", "at", "warps", "samples", "instructions", "times", "works with", "stalls")


def _regions(roles: Sequence[SourceRole]) -> Iterator[tuple[str, ...]]:
    for role in roles:
        for r in role.regions if len(role.regions) > 1 else ():
            kind = f"{role.name} loop" if r.loop else role.name
            figures = (f"{r.samples:,}", f"{r.per_time:,.1f}", f"{r.times:,}")
            yield (kind, f"{r.at:#06x}", r.warps, *figures, r.what, _top(r.stalls))


def _waits(a: SourceAnalysis) -> Iterator[str]:
    if a.waits:
        rows = [("wait", "at", "role", "passes", "tried again", "samples", "share", "line")]
        for w in a.waits[:_WAITS]:
            name = " ".join(w.sass.split()[:1]) if w.sass[:1] != "@" else w.sass.split()[1]
            figures = (f"{w.passes:,}", f"{w.retries:,}", f"{w.samples:,}", f"{100 * w.share:.1f}%")
            rows.append((name, f"{w.at:#06x}", w.role, *figures, _line(w.line)))
        yield from ("", render_rows(rows))
        if more := a.waits[_WAITS:]:
            yield f"and {len(more)} waits more with {sum(w.samples for w in more):,} samples"


def _stalled(a: SourceAnalysis) -> Iterator[str]:
    if a.top:
        rows = [
            ("most samples", "share", "at", "role", "instruction", "stall", "waits for", "line")
        ]
        for t in a.top:
            start = (f"{t.samples:,}", f"{100 * t.share:.1f}%", f"{t.at:#06x}", t.role)
            rows.append((*start, _cut(t.sass), t.reason, t.waits_for, _line(t.line)))
        yield from ("", render_rows(rows))


def _excess(a: SourceAnalysis) -> Iterator[str]:
    for unit in dict.fromkeys(e.unit for e in a.excess):
        held = [e for e in a.excess if e.unit == unit]
        moved, needed = sum(e.moved for e in held), sum(e.needed for e in held)
        rows = [(f"{unit} moved", "needed", "at", "role", "instruction", "line")]
        rows += [
            (f"{e.moved:,}", f"{e.needed:,}", f"{e.at:#06x}", e.role, _cut(e.sass), _line(e.line))
            for e in held[:_EXCESS]
        ]
        text = f"{len(held)} accesses move {moved:,} {unit} and need {needed:,}"
        yield from ("", text, render_rows(rows))


def _layout(a: SourceAnalysis) -> str:
    measured = ("executed", "samples") if a.executed else ()
    rows = [("block", "bytes", "role", "loops", *measured, "goes to", "by")]
    for b in a.layout:
        to = ", ".join(f"{t:#06x}" for t in b.to) or "-"
        figures = (f"{b.executed:,}", f"{b.samples:,}") if a.executed else ()
        start = (f"{b.at:#06x}", str(b.size), b.role or "-", str(b.depth))
        rows.append((*start, *figures, to, _cut(b.last)))
    return render_rows(rows)


def _top(stalls: Sequence[StallShare]) -> str:
    return ", ".join(f"{s.reason} {100 * s.share:.0f}%" for s in stalls[:3])


def _percent(s: StallShare) -> str:
    return f"{100 * s.share:.1f}%"


def _cut(text: str) -> str:
    return text if len(text) <= _SASS else f"{text[: _SASS - 3]}..."


def _line(frame: Frame | None) -> str:
    return f"{PurePosixPath(frame.file).name}:{frame.line}" if frame and frame.line else ""
