"""Reviewed sanitizer findings: which of them still hold, and which the run no longer shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelrig.model import AcceptedFinding, Check, Finding, Stage, Tool, failed, passed
from kernelrig.stages.context import Context


def accept(finding: Finding, tool: Tool, context: Context) -> Finding:
    """Return the finding with the reason for which it is accepted, if one holds today."""
    entry = find_entry(finding, context)
    if entry is None or why_void(entry, tool, context):
        return finding
    return replace(finding, accepted=f"{entry.reason} (until {entry.expires})")


def find_entry(finding: Finding, context: Context) -> AcceptedFinding | None:
    wanted = (finding.tool, finding.fingerprint)
    entries = context.kernel.accepted
    return next((a for a in entries if (a.tool, a.fingerprint) == wanted), None)


def why_void(entry: AcceptedFinding, tool: Tool, context: Context) -> str:
    """Return why a reviewed entry does not hold, empty if it does; 2025.3 covers 2025.3.1.0."""
    if context.today > entry.expires:
        return f"accepted until {entry.expires}, which has passed: review it again"
    covered = entry.tool_version
    if not covered or not f"{tool.version}.".startswith(f"{covered}."):
        return f"accepted for version {covered or '(none)'} only, this is {tool.version}"
    return ""


def finding_check(finding: Finding, tool: Tool, context: Context) -> Check:
    """Return the JUnit case of one finding."""
    at = f"{finding.file.rsplit('/', 1)[-1]}:{finding.line}" if finding.line else finding.kernel
    where = f" at {at}" if at else ""
    inside = f" in {finding.kernel}" if finding.kernel else ""
    times = f", {finding.count} times" if finding.count > 1 else ""
    by = f", {finding.threads}" if finding.threads else ""
    facts = {"fingerprint": finding.fingerprint, "count": str(finding.count)}
    if finding.threads:
        facts["threads"] = finding.threads
    told = finding.message if at and at in finding.message else finding.message + where
    said = f"{finding.tool}: {told}{inside}{by}{times}"
    entry = find_entry(finding, context)
    if finding.accepted:
        verdict = passed(f"accepted: {finding.accepted}", said)
    elif entry is not None:
        verdict = failed(f"{said}; {why_void(entry, tool, context)}")
    else:
        verdict = failed(said, f"fingerprint {finding.fingerprint}")
    name = f"{finding.tool}: {finding.kind}{where}"
    return Check(name, verdict, findings=(finding,), facts=facts)


def unseen_notes(stage: Stage, findings: Sequence[Finding], context: Context) -> tuple[str, ...]:
    """Name the accepted entries of this tool that nothing matched: they may be deleted."""
    seen = {f.fingerprint for f in findings}
    return tuple(
        f"accepted finding {a.fingerprint} was not seen; kernels.yaml may drop it"
        for a in context.kernel.accepted
        if a.tool == stage.tool and a.fingerprint not in seen
    )
