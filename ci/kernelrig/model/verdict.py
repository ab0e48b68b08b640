"""The words every record is made of: outcomes, kinds, patterns, and the verdict they carry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

SCHEMA = 1
"""The version that every file of ours says of itself."""


class Outcome(StrEnum):
    """PASS and FAIL speak of the kernel, ERROR of us or the host, SKIP says why it was not run."""

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
    """What a stage does."""

    BUILD = "build"
    CHECK = "check"
    TUNABLES = "tunables"
    PREFLIGHT = "preflight"
    CHECKSUM = "checksum"
    SANITIZER = "sanitizer"
    TIMING = "timing"
    PROFILE = "profile"
    BENCH = "bench"
    FAULT = "fault"

    @property
    def static(self) -> bool:
        """Say whether it is carried out in this process, on sources and builds alone."""
        return self in (StageKind.BUILD, StageKind.CHECK, StageKind.TUNABLES)

    @property
    def on_host(self) -> bool:
        """Say whether an agent runs it; the others are judged from the builds or the probe."""
        return not self.static and self is not StageKind.PREFLIGHT


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

    An error whose cause is a tool's answer that nobody can read (garbled, cut, summary missing)
    says `unreadable`: the task then exits 5, for any other error 4 (kernelrig.report.outcome).
    """

    outcome: Outcome
    summary: str
    evidence: tuple[str, ...] = ()
    unreadable: bool = False


def failed(summary: str, *evidence: str) -> Verdict:
    return Verdict(Outcome.FAIL, summary, tuple(e for e in evidence if e))


def broken(summary: str, *evidence: str) -> Verdict:
    """Return the verdict that could not be reached: our fault or the host's, never the kernel's."""
    return Verdict(Outcome.ERROR, summary, tuple(e for e in evidence if e))


def unreadable(summary: str, *evidence: str) -> Verdict:
    """Return the error of an answer that is missing, cut short or garbled."""
    return replace(broken(summary, *evidence), unreadable=True)


def passed(summary: str, *evidence: str) -> Verdict:
    return Verdict(Outcome.PASS, summary, tuple(e for e in evidence if e))


def skipped(summary: str) -> Verdict:
    return Verdict(Outcome.SKIP, summary)


def combine(verdicts: Iterable[Verdict]) -> Outcome:
    """Join verdicts: any fail wins, then any error; nothing at all is an error, never a pass."""
    outcomes = {v.outcome for v in verdicts}
    for outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.PASS, Outcome.SKIP):
        if outcome in outcomes:
            return outcome
    return Outcome.ERROR
