"""The fingerprint of what the emulator found, wherever it ran: in a stage, or as `run`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from kernelrig.findings.fingerprints import Lines, fingerprint, frame_parts, without_numbers
from kernelrig.model.frame import Frame

EMULATOR = "emulator"
_LIST = re.compile(r"(\W*#)(?:(?:, | and )(?:\w+ )?#)+")
_OF_THE_LAUNCH = ("deadlock", "mismatch")
"""Kinds whose message describes the state of the whole launch, another in each schedule."""


class Named(Protocol):
    """What of a finding its fingerprint is made of."""

    @property
    def kind(self) -> str: ...

    @property
    def rule(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def objects(self) -> Sequence[str]: ...


def emulated_fingerprint(found: Named, at: Frame, sources: Lines) -> str:
    """Return the fingerprint of what is wrong and where, without stage, case and schedule."""
    message = "" if found.kind in _OF_THE_LAUNCH else without_numbers(found.message)
    objects = sorted({without_numbers(name) for name in found.objects})
    parts = frame_parts(at, sources)
    said = _LIST.sub(r"\1", message)
    return fingerprint(EMULATOR, found.kind, found.rule, said, *parts, *objects)
