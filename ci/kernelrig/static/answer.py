"""A rule's answer: the Check that says what was found, and how to mend it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from kernelrig.errors import CiError, ProtocolError
from kernelrig.findings import locate
from kernelrig.model import Check, Finding, Rule, broken, failed, passed, skipped, unreadable
from kernelrig.model.frame import Place

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


class Placed(Protocol):
    """An instruction that knows where it comes from."""

    @property
    def place(self) -> Place: ...


def place(rule: Rule, message: str, *, kernel: str = "", file: str = "", line: int = 0) -> Finding:
    """Return a place that breaks `rule`; its fingerprint survives moved lines and addresses."""
    words = [rule.code, kernel, PurePosixPath(file).name, _NUMBER.sub("#", message)]
    return Finding(
        tool="check",
        kind=rule.name,
        message=message,
        kernel=kernel,
        file=file,
        line=line,
        fingerprint=hashlib.sha256("\0".join(words).encode()).hexdigest()[:16],
    )


def at_instruction(
    rule: Rule, message: str, kernel: str, instruction: Placed, source: str
) -> Finding:
    """Return a place in SASS or PTX, on its line of `source`, inlined helpers named beside it."""
    frame = locate(instruction.place.frames, source)
    inlined = f" ({instruction.place.text})" if len(instruction.place.frames) > 1 else ""
    return place(rule, f"{message}{inlined}", kernel=kernel, file=frame.file, line=frame.line)


def judged(
    rule: Rule,
    findings: Sequence[Finding],
    said: str,
    facts: Mapping[str, str] | None = None,
) -> Check:
    """Return the answer of a rule that was judged: it holds if nothing was found."""
    what = f"what: {rule.what}"
    verdict = failed(said, *_advice(rule)) if findings else passed(said, what)
    return Check(rule.title, verdict, findings=tuple(findings), facts=dict(facts or {}))


def not_judged(rule: Rule, reason: str | CiError) -> Check:
    """Return the answer of a rule that could not be judged: an error, never a pass."""
    garbled = isinstance(reason, ProtocolError)
    answer = unreadable if garbled else broken
    return Check(rule.title, answer(str(reason), *_advice(rule)))


def not_asked(rule: Rule, reason: str, facts: Mapping[str, str] | None = None) -> Check:
    """Return the answer of a rule that has nothing to say of this build."""
    return Check(rule.title, skipped(reason), facts=dict(facts or {}))


def _advice(rule: Rule) -> tuple[str, ...]:
    return (f"what: {rule.what}", f"why: {rule.why}", f"mend: {rule.mend}")
