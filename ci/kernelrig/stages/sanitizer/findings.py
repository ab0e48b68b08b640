"""From compute-sanitizer's reports to findings: equal ones joined, located in the kernel's sources.

The fingerprint is made of what the tool itself names, so that a review holds whether or not the
build's disassembly is there to complete the chain of inlined calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kernelrig.findings import (
    Sources,
    fingerprint,
    frame_parts,
    locate,
    number_equal,
    without_numbers,
)
from kernelrig.model import Finding
from kernelrig.model.frame import Frame
from kernelrig.stages.sanitizer.tool_log import Report, access_place

Resolve = Callable[[Frame, int], tuple[Frame, ...]]
"""(innermost frame, offset in the kernel) -> the whole chain, innermost first."""

_Key = tuple[str, str, tuple[Frame, ...]]


def no_chain(frame: Frame, offset: int) -> tuple[Frame, ...]:
    """Return the frame alone: where no disassembly says what it was inlined into."""
    return (frame,)


def make_findings(
    tool: str,
    reports: Iterable[Report],
    sources: Sources,
    main: str,
    kernel: str = "",
    resolve: Resolve = no_chain,
) -> tuple[Finding, ...]:
    """Join equal reports: one finding for each kind and source line, however many threads had it.

    `main` is the kernel's main file. `kernel` is the one that the program launches, for reports
    that do not name theirs.
    """
    groups: dict[_Key, list[Report]] = defaultdict(list)
    for report in reports:
        groups[report.kind, without_numbers(report.message), _lines(report)].append(report)
    ordered = sorted(groups, key=lambda key: [(f.file, f.line) for f in key[2]])
    prints = number_equal((key, _fingerprint(tool, key, sources)) for key in ordered)
    return tuple(
        _finding(tool, same, kernel, prints[key], sources, main, resolve)
        for key, same in groups.items()
    )


def _lines(report: Report) -> tuple[Frame, ...]:
    """Return the lines that the tool names: outermost first, or the two accesses of a race."""
    return (*reversed(report.frames), *((report.other,) if report.other else ()))


def _fingerprint(tool: str, key: _Key, sources: Sources) -> str:
    kind, message, frames = key
    parts = [part for frame in frames for part in frame_parts(frame, sources)]
    return fingerprint(tool, kind, message, *parts)


def _finding(
    tool: str,
    same: Sequence[Report],
    kernel: str,
    name: str,
    sources: Sources,
    main: str,
    resolve: Resolve,
) -> Finding:
    first = same[0]
    ends = [first.frames, *([(first.other,)] if first.other else [])]
    if all(len(chain) == 1 for chain in ends) and len(first.offsets) == len(ends):
        ends = [resolve(chain[0], at) for chain, at in zip(ends, first.offsets, strict=True)]
    chains = [tuple(map(sources.frame, chain)) for chain in ends]
    at, *others = (locate(chain, main) for chain in chains)
    message = first.message
    if len(ends) > 1:  # a race: its message names both accesses
        for named, frame in zip(_lines(first), (at, *others), strict=True):
            message = message.replace(access_place(named), access_place(frame), 1)
    finding = Finding(
        tool=tool,
        kind=first.kind,
        message=message,
        kernel=(first.kernel or kernel or at.function) if first.frames else "",
        file=at.file,
        line=at.line,
        threads=_threads(same),
        count=len(same),
        fingerprint=name,
        frames=chains[0],
        related=tuple(others),
        ctas=len({report.block for report in same if report.block}),
    )
    return replace(finding, source_line=sources.text(finding))


def _threads(same: Sequence[Report]) -> str:
    first = same[0]
    if not first.thread:
        return ""
    more = len({(r.thread, r.block) for r in same}) - 1
    return f"thread {first.thread} of CTA {first.block}" + (f" and {more} more" if more else "")
