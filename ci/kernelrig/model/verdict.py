"""Verdicts, and the enumerations that records share: outcomes, devices, stage kinds, patterns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

SCHEMA = 1
"""The schema number of every file whose format has not changed; the others give their own."""


class Outcome(StrEnum):
    """PASS and FAIL judge the kernel; ERROR is our fault or the host's; SKIP: it was not run."""

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
    EXIT_STATUS = "exit status"  # what a checksum stage is of a plain program
    SANITIZER = "sanitizer"
    TIMING = "timing"
    METRICS = "metrics"  # what a timing stage is of a plain program: what it prints of itself
    PROFILE = "profile"
    BENCH = "bench"
    FAULT = "fault"

    def shown(self, stage: str) -> str:
        """Return the name of a stage as reports show it: what saw an exit status is no checksum."""
        if self is not StageKind.EXIT_STATUS:
            return stage
        named = stage.replace(str(StageKind.CHECKSUM), str(self))
        return named if str(self) in named else f"{named} ({self})"

    @property
    def static(self) -> bool:
        """Whether it is carried out in this process, on sources and builds alone."""
        return self in (StageKind.BUILD, StageKind.CHECK, StageKind.TUNABLES)

    @property
    def on_host(self) -> bool:
        """Whether an agent runs it; the others are judged from the builds or the probe."""
        return not self.static and self is not StageKind.PREFLIGHT

    @property
    def measured(self) -> bool:
        """Whether it measures: nothing is fetched and no other stage runs meanwhile."""
        kinds = (StageKind.TIMING, StageKind.METRICS, StageKind.BENCH, StageKind.PROFILE)
        return self in kinds


class Purpose(StrEnum):
    """The task that a run was made by: what it has to establish (kernelrig.report.outcome)."""

    BUILD = "build"
    CHECK = "check"
    EMULATE = "emulate"
    TEST = "remote-test"
    PROFILE = "profile"
    BENCH = "bench"
    SWEEP = "sweep"


class Pattern(StrEnum):
    """How the inputs are filled (the values and their reasons: kernelrig.reference.inputs)."""

    CONSTANT = "constant"
    INTEGER = "integer"
    RANDOM = "random"


class Function(StrEnum):
    """What a variant computes: where the table is added and what is rounded (kernel/function.cuh).

    ROUND_THEN_ADD is what the project's own kernels compute; a baseline, what its library offers.
    """

    PRODUCT = "product"
    ROUND_THEN_ADD = "round_then_add"
    BIAS_THEN_ADD = "bias_then_add"
    ADD_THEN_ROUND = "add_then_round"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement and what it rests on; `evidence` are short lines a person can check.

    `unreadable` marks an error whose cause is tool output that could not be parsed (garbled, cut
    short, no summary): the task exits 5 for it, for any other error 4 (kernelrig.report.outcome).
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
    """Return FAIL if any verdict is, else ERROR, else PASS, else SKIP; ERROR for no verdicts."""
    outcomes = {v.outcome for v in verdicts}
    for outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.PASS, Outcome.SKIP):
        if outcome in outcomes:
            return outcome
    return Outcome.ERROR
