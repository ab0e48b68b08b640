"""The records of a program that ran with its kernels emulated: what --json has."""

from __future__ import annotations

from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_session import Note, ProgramRun
from kernelrig.emu.cudart.program_verdict import note_kind, note_line
from kernelrig.emu.machine.findings import Finding as Found
from kernelrig.findings.location import frame_of
from kernelrig.model import (
    EmulatedLaunch,
    EmulatedProgram,
    Finding,
    HostNote,
    LaunchFinding,
)

TOOL = "emulator"


def program_record(ran: ProgramRun, gpu: str, schedules: int) -> EmulatedProgram:
    """Return what --json has of a run."""
    return EmulatedProgram(
        gpu,
        schedules,
        ran.exit_code,
        tuple(map(_launch_record, ran.launches)),
        tuple(map(_note_record, ran.notes)),
    )


def _launch_record(ran: LaunchRun) -> EmulatedLaunch:
    findings = tuple(LaunchFinding(f.severity, _finding_record(ran, f)) for f in ran.findings)
    return EmulatedLaunch(
        ran.number, ran.place, ran.kernel, ran.grid, ran.block, ran.cluster, ran.observed, ran.ctas,
        ran.stopped, ran.instructions, findings, ran.differing,
    )  # fmt: skip


def _finding_record(ran: LaunchRun, found: Found) -> Finding:
    place = frame_of(found.source)
    return Finding(
        tool=TOOL,
        kind=found.kind,
        message=found.message,
        kernel=ran.kernel,
        file=place.file,
        line=place.line,
        threads=f"warp {found.warp} of CTA {found.cta}" if found.cta >= 0 else "",
        count=found.count,
        frames=found.frames or ((place,) if place.file else ()),
        related=found.related,
        fix=found.fix,
        section=found.section,
        objects=found.objects,
        schedules=found.schedules,
        warps=found.warps,
        ctas=found.ctas,
    )


def _note_record(note: Note) -> HostNote:
    return HostNote(note_kind(note), note.place, note_line(note).partition(": ")[2])
