"""What a run found: one record a fault, however many threads and times it was seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

OBSERVER_OF = {
    "out-of-bounds": "memory",
    "misaligned": "memory",
    "descriptor": "memory",
    "race": "races",
    "proxy-fence": "races",
    "uninitialised": "init",
    "deadlock": "sync",
    "barrier-misuse": "sync",
    "tmem": "sync",
    "leak": "sync",
    "mismatch": "results",
    "step-limit": "run",
}
"""Kind of a finding -> the observer that makes it, named as the GPU stage it stands for."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`message` says what happened, what was expected and how to mend it.

    `cta`, `warp` and `lanes` are of the first thread seen: linear index in the grid, warp of its
    CTA, bits of the lanes; -1 and 0 where no thread is at fault. `source` is `file:line function`
    of the outermost frame in the kernel's own file, `calls` the whole chain, innermost first.
    Findings of one kind and line that have one `same` are of one fault; None is the message.
    """

    kind: str
    severity: str
    message: str
    cta: int = -1
    warp: int = -1
    lanes: int = 0
    ptx_line: int = 0
    source: str = ""
    calls: str = ""
    count: int = 1
    schedule: int = 0
    same: object = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> tuple[object, ...]:
        """What findings of one fault have in common, whichever schedule saw them."""
        return (self.kind, self.ptx_line, self.message if self.same is None else self.same)

    def as_record(self) -> dict[str, Any]:
        """Return what findings.json has of it."""
        record = asdict(self)
        del record["same"]
        return record


@dataclass
class Findings:
    """The findings of a run, each once."""

    schedule: int = 0
    _seen: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Count `finding`; the first one of a fault stands for all."""
        known = self._seen.get(finding.key)
        if known:
            self._seen[finding.key] = replace(known, count=known.count + finding.count)
        else:
            self._seen[finding.key] = replace(finding, schedule=self.schedule)

    def merge(self, others: tuple[Finding, ...]) -> None:
        """Take over what other schedules found; the first one seen keeps its schedule number."""
        for other in others:
            known = self._seen.get(other.key)
            count = known.count + other.count if known else other.count
            self._seen[other.key] = replace(known or other, count=count)

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self._seen.values())

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self._seen.values() if f.severity == "error")
