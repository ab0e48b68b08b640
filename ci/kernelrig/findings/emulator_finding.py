"""What the emulator found as a report's finding, wherever it ran: in a stage, or as `run`."""

from __future__ import annotations

import re
from typing import Protocol

from kernelrig.findings.fingerprints import Lines, fingerprint, frame_parts, without_numbers
from kernelrig.model import Finding
from kernelrig.model.frame import Frame

EMULATOR = "emulator"
_LIST = re.compile(r"(\W*#)(?:(?:, | and )(?:\w+ )?#)+")
_OF_THE_LAUNCH = ("deadlock", "mismatch")
"""Kinds whose message describes the state of the whole launch, another in each schedule."""


class Emulated(Protocol):
    """What of a finding is the same in the emulator's memory and in the file that it writes."""

    @property
    def kind(self) -> str: ...

    @property
    def rule(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def section(self) -> str: ...

    @property
    def fix(self) -> str: ...

    @property
    def objects(self) -> tuple[str, ...]: ...

    @property
    def cta(self) -> int: ...

    @property
    def warp(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def schedules(self) -> int: ...

    @property
    def warps(self) -> int: ...

    @property
    def ctas(self) -> int: ...


def emulated_finding(found: Emulated, at: Frame, sources: Lines) -> Finding:
    """Return what a report says of `found`, located at `at`; the caller knows kernel and frames."""
    return Finding(
        tool=EMULATOR,
        kind=found.kind,
        message=found.message,
        file=at.file,
        line=at.line,
        threads=f"warp {found.warp} of CTA {found.cta}" if found.cta >= 0 else "",
        count=found.count,
        fingerprint=_fingerprint(found, at, sources),
        source_line=sources.line(at.file, at.line).strip(),
        fix=found.fix,
        rule=found.rule,
        section=found.section,
        objects=found.objects,
        schedules=found.schedules,
        warps=found.warps,
        ctas=found.ctas,
    )


def _fingerprint(found: Emulated, at: Frame, sources: Lines) -> str:
    """Return the fingerprint of what is wrong and where, without stage, case and schedule."""
    message = "" if found.kind in _OF_THE_LAUNCH else without_numbers(found.message)
    objects = sorted({without_numbers(name) for name in found.objects})
    parts = frame_parts(at, sources)
    said = _LIST.sub(r"\1", message)
    return fingerprint(EMULATOR, found.kind, found.rule, said, *parts, *objects)
