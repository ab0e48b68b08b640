"""Reviewed findings of kernels.yaml: which hold today, and the JUnit case of a finding.

The same for sanitizers, the emulator and static rules. An entry names the tool, the fingerprint,
the reason, the day on which it expires and the version of the tool that it was reviewed with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from kernelrig.model import AcceptedFinding, Check, Finding, failed, passed


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The entries for one tool, as it runs today in this version."""

    tool: str
    version: str
    today: date
    entries: tuple[AcceptedFinding, ...]

    def apply(self, finding: Finding) -> Finding:
        """Return the finding with the reason for which it is accepted, if an entry holds today."""
        entry = self._entry(finding)
        if entry is None or self.why_void(entry):
            return finding
        return replace(finding, accepted=f"{entry.reason} (until {entry.expires})")

    def why_void(self, entry: AcceptedFinding) -> str:
        """Return why an entry does not hold, empty if it does; 2025.3 covers 2025.3.1.0."""
        if self.today > entry.expires:
            return f"accepted until {entry.expires}, which has passed: review it again"
        covered = entry.tool_version
        if not covered or not f"{self.version}.".startswith(f"{covered}."):
            return f"accepted for version {covered or '(none)'} only, this is {self.version}"
        return ""

    def check(self, finding: Finding, stage: str) -> Check:
        """Return the JUnit case of a finding in the stage of the tool `stage`."""
        said = f"{stage}: {describe(finding)}"
        entry = self._entry(finding)
        if finding.accepted:
            verdict = passed(f"accepted: {finding.accepted}", said)
        elif entry is not None:
            verdict = failed(f"{said}; {self.why_void(entry)}")
        else:
            verdict = failed(said, f"fingerprint {finding.fingerprint}")
        facts = {"fingerprint": finding.fingerprint, "count": str(finding.count)}
        facts |= {"threads": finding.threads} if finding.threads else {}
        return Check(f"{stage}: {headline(finding)}", verdict, findings=(finding,), facts=facts)

    def unseen(self, findings: Iterable[Finding]) -> tuple[str, ...]:
        """Name the entries of this tool that no finding matched: they may be deleted."""
        seen = {f.fingerprint for f in findings}
        return tuple(
            f"accepted finding {entry.fingerprint} was not seen; kernels.yaml may drop it"
            for entry in self.entries
            if entry.tool == self.tool and entry.fingerprint not in seen
        )

    def _entry(self, finding: Finding) -> AcceptedFinding | None:
        wanted = (self.tool, finding.fingerprint)
        return next((e for e in self.entries if (e.tool, e.fingerprint) == wanted), None)


def describe(finding: Finding) -> str:
    """Describe a finding in one line: its kind and location, what happened, the threads."""
    seen = ", ".join(filter(None, (finding.threads, finding.times)))
    return f"{headline(finding)}: {finding.message}" + (f" ({seen})" if seen else "")


def headline(finding: Finding) -> str:
    """`race at gemm.cu:412`; without a line, the kernel's name in its place."""
    at = f"{finding.file.rsplit('/', 1)[-1]}:{finding.line}" if finding.line else finding.kernel
    return f"{finding.kind} at {at}" if at else finding.kind
