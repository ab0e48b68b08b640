"""Findings as a person reads them."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.launch.severities import SHOWN_BY_HARDWARE
from kernelrig.emu.machine.findings import Finding
from kernelrig.findings.demangling import readable
from kernelrig.findings.location import chain_text, frame_of


def brief(finding: Finding) -> str:
    """Return what follows from another finding in one line; the file has the rest."""
    message = finding.message.partition("\n")[0]
    return shown(replace(finding, fix="", section="", message=message, frames=()))


def shown(finding: Finding) -> str:
    """Return a finding as a person reads it."""
    where = finding.source or (f"PTX line {finding.ptx_line}" if finding.ptx_line else "the launch")
    thread = f" (CTA {finding.cta} warp {finding.warp})" if finding.cta >= 0 else ""
    over = "over all lanes and schedules"
    times = f", {finding.count} times {over}" if finding.count > 1 else ""
    head = f"{finding.severity}: {finding.kind}: {where}{thread}{times}: {finding.message}"
    said = [head, *_callers(finding)]
    if finding.fix:
        said.append(f"  fix: {finding.advice}")
    elif finding.section:
        said.append(f"  see PTX ISA {finding.section}")
    if finding.fix and SHOWN_BY_HARDWARE.get(finding.rule) == "no":
        said.append("  by PTX; no hardware is known to show it")
    return readable("\n".join(said))


def _callers(finding: Finding) -> list[str]:
    """Return the calls that lead to the line that is named, if it is in an inlined function."""
    at = frame_of(finding.source)
    places = [(f.line, f.function) for f in finding.frames]
    if (at.line, at.function) not in places:
        return []
    outer = finding.frames[places.index((at.line, at.function)) :]
    return [f"  inlined: {chain_text(outer)}"] if len(outer) > 1 else []
