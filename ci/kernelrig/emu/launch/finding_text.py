"""Findings as a person reads them."""

from __future__ import annotations

from kernelrig.emu.launch.severities import SHOWN_BY_HARDWARE
from kernelrig.emu.machine.findings import Finding
from kernelrig.findings.demangling import readable
from kernelrig.findings.location import chain_text, frame_of


def brief(finding: Finding) -> str:
    """Return what follows from another finding in one line; the document has the rest."""
    return readable(f"{finding.kind}: {_place(finding)}")


def shown(finding: Finding) -> str:
    """Return a finding as a person reads it: what and where, then why, each in lines of its own."""
    over = "over all lanes and schedules"
    times = f", {finding.count} times {over}" if finding.count > 1 else ""
    head = f"{finding.severity}: {finding.kind}: {_place(finding)}{times}"
    said = [head, *(f"  {line}" for line in finding.message.split("\n")), *_callers(finding)]
    if finding.fix:
        said.append(f"  fix: {finding.advice}")
    elif finding.section:
        said.append(f"  see PTX ISA {finding.section}")
    if finding.fix and SHOWN_BY_HARDWARE.get(finding.rule) == "no":
        said.append("  by PTX; no hardware is known to show it")
    return readable("\n".join(said))


def _place(finding: Finding) -> str:
    where = finding.source or (f"PTX line {finding.ptx_line}" if finding.ptx_line else "the launch")
    return where + (f" (CTA {finding.cta} warp {finding.warp})" if finding.cta >= 0 else "")


def _callers(finding: Finding) -> list[str]:
    """Return the calls that lead to the line that is named, if it is in an inlined function."""
    at = frame_of(finding.source)
    places = [(f.line, f.function) for f in finding.frames]
    if (at.line, at.function) not in places:
        return []
    outer = finding.frames[places.index((at.line, at.function)) :]
    return [f"  inlined: {chain_text(outer)}"] if len(outer) > 1 else []
