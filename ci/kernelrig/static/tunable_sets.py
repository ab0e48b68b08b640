"""T001: each set of tunables compiles without spills, or a static assert rejects it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelrig.model import Check, Rule, TriedSet
from kernelrig.model.symbol import is_called
from kernelrig.static.rule_check import broken_rule, judged
from kernelrig.static.subject import Subject

RULE = Rule(
    "T001",
    "tunables",
    "a set of tunables compiles without spills and local memory, or a static assert refuses it",
    "a tuner may choose any set that compiles, also one that spills",
    "fix the code path of the set, or add a static assert that says why the set cannot be",
)


def check_sets(subject: Subject, tried: Sequence[TriedSet]) -> tuple[Check, ...]:
    """Judge every set; each is a Check of its own, called by what differs from the defaults."""
    defaults = subject.tunables
    return tuple(_check(subject, one, set_name(one.values, defaults)) for one in tried)


def set_name(values: Mapping[str, int], defaults: Mapping[str, int]) -> str:
    """Return `LOAD_PIPE_DEPTH=3 BLOCK_N=128`, or `defaults`."""
    other = [f"{name}={value}" for name, value in values.items() if value != defaults.get(name)]
    return " ".join(other) or "defaults"


def describe_sets(checks: Sequence[Check], tried: Sequence[TriedSet]) -> tuple[str, ...]:
    """Return a few lines that summarise all sets."""
    compiled = sum(bool(one.functions) for one in tried)
    sentences = Counter(sentence for one in tried for sentence in one.refused)
    seconds, reused = sum(map(_seconds, tried)), sum(one.reused for one in tried)
    return (
        f"{len(tried)} sets of tunables: {compiled} compile, "
        f"{sum(bool(one.refused) for one in tried)} are refused by a static assert, "
        f"{sum(check.verdict.outcome == 'fail' for check in checks)} fail",
        *(f"refused {number} sets: {sentence}" for sentence, number in sentences.most_common()),
        f"{seconds:.0f} s of nvcc, {reused} sets kept from before",
    )


def _check(subject: Subject, one: TriedSet, name: str) -> Check:
    complaints, summary = _judge(subject, one)
    found = [broken_rule(RULE, f"{name}: {text}", kernel=subject.function) for text in complaints]
    facts = {}
    if kernels := [f for f in one.functions if is_called(subject.kernel.kernel_regex, f.name)]:
        facts["registers"] = str(max(f.registers for f in kernels))
    check = judged(RULE, found, summary, facts)
    return replace(check, name=f"{RULE.code} {name}", seconds=_seconds(one))


def _seconds(one: TriedSet) -> float:
    """Return the seconds that this run spent on compiling it."""
    return 0.0 if one.reused else one.seconds


def _judge(subject: Subject, one: TriedSet) -> tuple[tuple[str, ...], str]:
    """Return what is wrong with a set, and its result in words."""
    if one.complaint:
        return (one.complaint,), one.unexpected
    if one.refused:
        return (), f"refused: {'; '.join(one.refused)}"
    kernels = [f for f in one.functions if is_called(subject.kernel.kernel_regex, f.name)]
    if not kernels:
        return ("it compiles, and holds no such kernel",), f"no {subject.function}"
    spills = sum(f.spill_store_bytes + f.spill_load_bytes for f in one.functions)
    stack = max(f.stack_bytes for f in one.functions)
    registers = max(f.registers for f in kernels)
    said = f"{registers} registers, {spills} bytes spilled, {stack} bytes of stack"
    wrong = bool(spills or stack or one.local_instructions)
    local = f"{said}, {one.local_instructions} accesses to local memory"
    return ((local,), local) if wrong else ((), said)
