"""Findings as a person reads them."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.launch.severities import SHOWN_BY_HARDWARE
from kernelrig.emu.machine.findings import Finding


def brief(finding: Finding) -> str:
    """Return what follows from another finding in one line; the file has the rest."""
    return shown(replace(finding, fix="", section="", message=finding.message.partition("\n")[0]))


def shown(finding: Finding) -> str:
    """Return a finding as a person reads it."""
    where = finding.source or (f"PTX line {finding.ptx_line}" if finding.ptx_line else "the launch")
    thread = f" (CTA {finding.cta} warp {finding.warp})" if finding.cta >= 0 else ""
    over = "over all lanes and schedules"
    times = f", {finding.count} times {over}" if finding.count > 1 else ""
    head = f"{finding.severity}: {finding.kind}: {where}{thread}{times}: {finding.message}"
    said = [head]
    if finding.fix:
        said.append(f"  fix: {finding.advice}")
    elif finding.section:
        said.append(f"  see PTX ISA {finding.section}")
    if finding.fix and SHOWN_BY_HARDWARE.get(finding.rule) == "no":
        said.append("  by PTX; no hardware is known to show it")
    return "\n".join(said)
