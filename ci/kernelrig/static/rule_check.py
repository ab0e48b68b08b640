"""The Check of a static rule: what was found, and the suggested fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Protocol

from kernelrig.errors import CiError, ProtocolError
from kernelrig.findings import fingerprint, locate, number_lines, without_numbers
from kernelrig.model import Check, Finding, Rule, broken, failed, passed, skipped, unreadable
from kernelrig.model.frame import Place
from kernelrig.model.symbol import base_name
from kernelrig.ptx.rules import ISA_RULES

TOOL = "check"
"""The tool name under which kernels.yaml accepts findings of static rules."""


class Placed(Protocol):
    """An instruction with its place in the sources."""

    @property
    def place(self) -> Place: ...


def broken_rule(rule: Rule, message: str, *, kernel: str = "") -> Finding:
    """Return the finding that `rule` is broken, without a line."""
    kernel = base_name(kernel)
    return Finding(
        tool=TOOL,
        kind=rule.name,
        message=message,
        kernel=kernel,
        fingerprint=fingerprint(rule.code, kernel, "", without_numbers(message)),
        fix=rule.fix,
        rule=rule.code,
        section=ISA_RULES[rule.name].section if rule.name in ISA_RULES else "",
    )


def broken_rule_at(
    rule: Rule, message: str, kernel: str, instruction: Placed, source: str
) -> Finding:
    """Return the finding that `rule` is broken at an instruction of SASS or PTX.

    Its fingerprint survives moved lines and addresses, and a rebuild that renames the kernel.
    """
    at, kernel = locate(instruction.place.frames, source), base_name(kernel)
    name = PurePosixPath(at.file).name
    return replace(
        broken_rule(rule, message, kernel=kernel),
        file=at.file,
        line=at.line,
        frames=instruction.place.frames,
        fingerprint=fingerprint(rule.code, kernel, name, at.function, without_numbers(message)),
    )


def judged(
    rule: Rule,
    findings: Sequence[Finding],
    summary: str,
    facts: Mapping[str, str] | None = None,
) -> Check:
    """Return the check of a rule that was judged: it passes if nothing was found."""
    what = f"what: {rule.what}"
    verdict = failed(summary, *_advice(rule)) if findings else passed(summary, what)
    return Check(rule.title, verdict, findings=number_lines(findings), facts=dict(facts or {}))


def not_judged(rule: Rule, reason: str | CiError) -> Check:
    """Return the check of a rule that could not be judged: an error, never a pass."""
    as_verdict = unreadable if isinstance(reason, ProtocolError) else broken
    return Check(rule.title, as_verdict(str(reason), *_advice(rule)))


def not_asked(rule: Rule, reason: str, facts: Mapping[str, str] | None = None) -> Check:
    """Return the check of a rule that does not apply to this build: a skip."""
    return Check(rule.title, skipped(reason), facts=dict(facts or {}))


def _advice(rule: Rule) -> tuple[str, ...]:
    return (f"what: {rule.what}", f"why: {rule.why}", f"suggested fix: {rule.fix}")
