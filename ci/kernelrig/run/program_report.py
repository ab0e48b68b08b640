"""The records of a program that ran with its kernels emulated: what --json has."""

from __future__ import annotations

from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_notes import Note
from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.emu.cudart.program_verdict import dropped_lines, note_kind, note_line
from kernelrig.model import (
    EmulatedLaunch,
    EmulatedProgram,
    HostNote,
    LaunchFinding,
)
from kernelrig.run.program_review import Review


def program_record(ran: ProgramRun, gpu: str, schedules: int, review: Review) -> EmulatedProgram:
    """Return what --json has of a run, to which the review was not applied yet."""
    notes = [*map(_note_record, ran.notes)]
    notes += [HostNote("dropped", "", line) for line in dropped_lines(ran)]
    return EmulatedProgram(
        gpu,
        schedules,
        ran.exit_code,
        tuple(_launch_record(launch, review) for launch in ran.launches),
        tuple(notes),
    )


def _launch_record(ran: LaunchRun, review: Review) -> EmulatedLaunch:
    both = zip(ran.findings, review.records(ran), strict=True)
    findings = tuple(LaunchFinding(found.severity, finding) for found, finding in both)
    return EmulatedLaunch(
        ran.number, ran.place, ran.kernel, ran.grid, ran.block, ran.cluster, ran.observed, ran.ctas,
        ran.stopped, ran.instructions, findings, ran.differing,
    )  # fmt: skip


def _note_record(note: Note) -> HostNote:
    return HostNote(note_kind(note), note.place, note_line(note).partition(": ")[2])
