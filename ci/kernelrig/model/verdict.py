"""Outcomes, kinds, patterns and verdicts: the types that all other records use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

SCHEMA = 1
"""The schema number of files whose format has not changed since the first."""


class Outcome(StrEnum):
    """PASS and FAIL are about the kernel, ERROR about us or the host; SKIP was not run."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    SKIP = "skip"


class DeviceKind(StrEnum):
    """What executed the kernel; every label in every report derives from it."""

    GPU = "gpu"
    EMULATOR = "emulator"
    CPU = "cpu"  # a plain program without CUDA; never a remote's device
    STATIC = "static"  # nothing was executed: the build itself was read


class StageKind(StrEnum):
    """What a stage is; the agent on the host runs all but the first two."""

    CHECK = "check"
    PREFLIGHT = "preflight"
    CHECKSUM = "checksum"
    SANITIZER = "sanitizer"
    TIMING = "timing"
    PROFILE = "profile"
    BENCH = "bench"

    @property
    def on_host(self) -> bool:
        """Whether the agent runs it; others are judged here, from builds or the probe."""
        return self not in (StageKind.CHECK, StageKind.PREFLIGHT)


class Pattern(StrEnum):
    """How the inputs are filled (the values and their reasons: kernelrig.reference.inputs)."""

    CONSTANT = "constant"
    INTEGER = "integer"
    RANDOM = "random"


class Function(StrEnum):
    """What a variant computes: where the table joins, what is rounded (kernel/function.cuh).

    The second is the project's own. A baseline computes what its library can.
    """

    PRODUCT = "product"
    ROUND_THEN_ADD = "round_then_add"
    BIAS_THEN_ADD = "bias_then_add"
    ADD_THEN_ROUND = "add_then_round"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement and what it rests on; `evidence` are short lines a person can check.

    An error is `unreadable` if a tool's output could not be parsed (garbled, cut short, summary
    missing): the task then exits 5, for any other error 4 (kernelrig.report.outcome).
    """

    outcome: Outcome
    summary: str
    evidence: tuple[str, ...] = ()
    unreadable: bool = False


def failed(summary: str, *evidence: str) -> Verdict:
    return Verdict(Outcome.FAIL, summary, tuple(e for e in evidence if e))


def broken(summary: str, *evidence: str) -> Verdict:
    """Return the error of a verdict not established: the fault is ours or the host's."""
    return Verdict(Outcome.ERROR, summary, tuple(e for e in evidence if e))


def unreadable(summary: str, *evidence: str) -> Verdict:
    """Return the error of tool output that is missing, cut short or garbled."""
    return replace(broken(summary, *evidence), unreadable=True)


def passed(summary: str, *evidence: str) -> Verdict:
    return Verdict(Outcome.PASS, summary, tuple(e for e in evidence if e))


def skipped(summary: str) -> Verdict:
    return Verdict(Outcome.SKIP, summary)


def combine(verdicts: Iterable[Verdict]) -> Outcome:
    """Join verdicts: any fail wins, then any error; no verdicts at all are an error, not a pass."""
    outcomes = {v.outcome for v in verdicts}
    for outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.PASS, Outcome.SKIP):
        if outcome in outcomes:
            return outcome
    return Outcome.ERROR
