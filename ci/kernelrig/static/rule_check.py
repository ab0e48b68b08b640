"""A rule's answer: the Check that names what was found, and the suggested fix."""

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
"""What findings of static rules are accepted under in kernels.yaml."""


class Placed(Protocol):
    """An instruction that knows where it comes from."""

    @property
    def place(self) -> Place: ...


def broken_rule(rule: Rule, message: str, *, kernel: str = "") -> Finding:
    """Return the finding that `rule` does not hold, of no line in particular."""
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
    """Return the finding that `rule` does not hold at an instruction of SASS or PTX.

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
    said: str,
    facts: Mapping[str, str] | None = None,
) -> Check:
    """Return the answer of a rule that was judged: it holds if nothing was found."""
    what = f"what: {rule.what}"
    verdict = failed(said, *_advice(rule)) if findings else passed(said, what)
    return Check(rule.title, verdict, findings=number_lines(findings), facts=dict(facts or {}))


def not_judged(rule: Rule, reason: str | CiError) -> Check:
    """Return the answer of a rule that could not be judged: an error, never a pass."""
    garbled = isinstance(reason, ProtocolError)
    answer = unreadable if garbled else broken
    return Check(rule.title, answer(str(reason), *_advice(rule)))


def not_asked(rule: Rule, reason: str, facts: Mapping[str, str] | None = None) -> Check:
    """Return the answer of a rule that has nothing to say of this build."""
    return Check(rule.title, skipped(reason), facts=dict(facts or {}))


def _advice(rule: Rule) -> tuple[str, ...]:
    return (f"what: {rule.what}", f"why: {rule.why}", f"suggested fix: {rule.fix}")
