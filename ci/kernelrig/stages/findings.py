"""From hazards to findings, each under a name that survives reruns and moved lines."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath

from kernelrig.model import Finding
from kernelrig.stages.sanitizer.tool_log import Hazard, Place

_NOISE = re.compile(r"0x[0-9a-fA-F]+|\d[\d,.]*")

LineText = Callable[[str, int], str]
"""(file, line) -> the text of that source line, empty where it is not known."""


def make_findings(
    tool: str, hazards: Iterable[Hazard], line_text: LineText, kernel: str = ""
) -> tuple[Finding, ...]:
    """Join equal hazards: one finding for each kind and source line, however many threads met it.

    `kernel` is the one that the program launches, for hazards that do not name theirs. Where two
    places have one fingerprint, the later are numbered: a reviewed finding must never cover a
    second place that looks like it.
    """
    groups: dict[tuple[str, str, tuple[Place, ...]], list[Hazard]] = defaultdict(list)
    for h in hazards:
        groups[h.kind, _NOISE.sub("#", h.message), h.places].append(h)
    prints: dict[tuple[str, str, tuple[Place, ...]], str] = {}
    seen: dict[str, int] = defaultdict(int)
    for key in sorted(groups, key=lambda k: [(p.file, p.line) for p in k[2]]):
        base = _fingerprint(tool, *key, line_text)
        seen[base] += 1
        prints[key] = base if seen[base] == 1 else f"{base}-{seen[base]}"
    return tuple(_finding(tool, same, kernel, prints[key]) for key, same in groups.items())


def _finding(tool: str, same: Sequence[Hazard], kernel: str, fingerprint: str) -> Finding:
    first = same[0]
    at = first.places[0] if first.places else Place()
    return Finding(
        tool=tool,
        kind=first.kind,
        message=first.message,
        kernel=(first.kernel or kernel or at.function) if first.places else "",
        file=at.file,
        line=at.line,
        threads=_threads(same),
        count=len(same),
        fingerprint=fingerprint,
    )


def _fingerprint(
    tool: str, kind: str, stripped: str, places: Sequence[Place], line_text: LineText
) -> str:
    """Name a finding by what survives a rerun and moved lines: no address, no line number."""
    parts = [tool, kind, stripped]
    for p in places:
        parts += [
            p.function,
            PurePosixPath(p.file).name,
            " ".join(line_text(p.file, p.line).split()),
        ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _threads(same: Sequence[Hazard]) -> str:
    first = same[0]
    if not first.thread:
        return ""
    more = len({(h.thread, h.block) for h in same}) - 1
    return f"thread {first.thread} of CTA {first.block}" + (f" and {more} more" if more else "")
