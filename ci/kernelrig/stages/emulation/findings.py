"""The emulator's findings as model.Finding: located, with fingerprint and source line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kernelrig import __version__
from kernelrig.findings import EMULATOR, Acceptance, Sources, emulated_finding, number_lines
from kernelrig.model import Finding
from kernelrig.stages.context import Context
from kernelrig.stages.emulation.findings_file import Found


class Listed(Protocol):
    """What holds findings as the emulator writes them, and those that a part leaves out."""

    @property
    def findings(self) -> tuple[Found, ...]: ...

    @property
    def others(self) -> tuple[Found, ...]: ...


def acceptance(context: Context) -> Acceptance:
    """Return the reviewed findings of the emulator of this version."""
    return Acceptance(EMULATOR, __version__, context.today, context.kernel.accepted)


def emulated_findings(
    seen: Listed, wanted: Sequence[Found], context: Context
) -> tuple[Finding, ...]:
    """Return a finding for each of `wanted`, which are of the file `seen`, in its order.

    Findings of one line that agree in everything but numbers have one fingerprint; those of another
    line have another one.
    """
    found = (*seen.findings, *seen.others)
    sources = Sources(context.build, context.source_root)
    made = number_lines([_finding(f, sources) for f in found])
    review = acceptance(context)
    return tuple(
        review.apply(replace(finding, explained_by=_cause(f, made)))
        for f, finding in zip(found, made, strict=True)
        if any(f is one for one in wanted)
    )


def _finding(found: Found, sources: Sources) -> Finding:
    at = sources.frame(found.location)
    message = found.message
    if found.ptx_line and not at.line:
        message += f" (PTX line {found.ptx_line})"
    if found.calls and not found.frames:  # schema 1 has the chain as text alone
        message += f", at {found.calls}"
    made = emulated_finding(found, at, sources)
    return replace(
        made,
        message=message,
        kernel=found.frames[-1].function if found.frames else at.function,
        threads=", ".join(filter(None, (made.threads, f"schedule {found.schedule}"))),
        frames=tuple(map(sources.frame, found.frames)) or ((at,) if at.line else ()),
        related=tuple(map(sources.frame, found.related)),
    )


def _cause(found: Found, made: Sequence[Finding]) -> str:
    known = found.cause is not None and 0 <= found.cause < len(made)
    return made[found.cause].fingerprint if known and found.cause is not None else ""
