"""What is said of a program that ran with its kernels emulated: text, records, the exit code."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from kernelrig.emu.__main__ import brief, shown
from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_session import Note, ProgramRun
from kernelrig.emu.cudart.program_verdict import dropped_lines, located, note_kind, note_line
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
SHOWN_NUMBERS = 8


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


def report_text(ran: ProgramRun, device: str, schedules: int, severities: str = "") -> str:
    """Return the report: what each launch found, what host calls did, how the program ended.

    A finding that several launches of a kernel have is shown with the first of them, and so is what
    schedules left different values in.
    """
    lines = []
    seen: dict[object, str] = {}
    differing: set[tuple[str, str]] = set()
    again: dict[str, list[int]] = {}
    for launch in ran.launches:
        new = [f for f in launch.findings if (launch.kernel, f.key) not in seen]
        seen |= {(launch.kernel, f.key): f.severity for f in new}
        left = {(launch.kernel, name) for name in launch.differing} - differing
        differing |= left
        if launch.findings and not new and not left:
            again.setdefault(launch.kernel, []).append(launch.number)
        else:
            lines += _launch_lines(launch, new)
    lines += [
        f"{_counted(len(numbers))} of {kernel} found the same again: {_listed(numbers)}"
        for kernel, numbers in again.items()
    ]
    lines += _note_lines(ran.notes)
    lines += dropped_lines(ran)
    errors = sum(severity == "error" for severity in seen.values())
    warnings = len(seen) - errors
    if severities:
        lines.append(f"severities: {severities}")
    lines.append(f"the program {_ending(ran.exit_code)}")
    observed = sum(launch.observed for launch in ran.launches)
    count = _counted(observed)
    lines.append(
        f"emulated: {device}, {count}, {schedules} schedules each, "
        f"{errors} errors, {warnings} warnings"
    )
    lines += _not_established(ran, observed)
    return "\n".join(lines)


def _not_established(ran: ProgramRun, observed: int) -> list[str]:
    """Return what the verdict does not rest on."""
    lines = []
    if others := len(ran.launches) - observed:
        verb = "was" if others == 1 else "were"
        lines.append(f"{_counted(others)} {verb} not observed: run once, for what later ones read")
    if parts := [launch for launch in ran.launches if launch.ctas]:
        first = parts[0]
        whole = first.grid[0] * first.grid[1] * first.grid[2]
        lines.append(
            f"of {_counted(len(parts))} a part was run ({first.ctas} of {whole} CTAs of"
            f" {first.kernel}): what the rest would have written is not there, and the program's"
            " own check may fail for it"
        )
    if not observed:
        lines.append("nothing was established of kernels: none was observed")
    return lines


def _counted(launches: int) -> str:
    return f"{launches} launch{'' if launches == 1 else 'es'}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"was ended by signal {-code}"


def _listed(numbers: Sequence[int]) -> str:
    shown_numbers = ", ".join(map(str, numbers[:SHOWN_NUMBERS]))
    left = len(numbers) - SHOWN_NUMBERS
    return shown_numbers + (f" and {left} more" if left > 0 else "")


def _launch_lines(launch: LaunchRun, findings: Sequence[Found]) -> list[str]:
    if not findings and not launch.differing and not launch.stopped:
        return []
    lines = [f"{located(launch.place)}launch {launch.number}: {_configuration(launch)}"]
    for finding in findings:
        follows = finding.cause is not None
        lines.append(f"  follows from that: {brief(finding)}" if follows else shown(finding))
    if launch.differing:
        names = ", ".join(launch.differing)
        lines.append(f"note: schedules left different values in {names}")
    return lines


def _configuration(launch: LaunchRun) -> str:
    parts = [f"grid {_triple(launch.grid)}", f"block {_triple(launch.block)}"]
    if launch.cluster != (1, 1, 1):
        parts.append(f"cluster {_triple(launch.cluster)}")
    return f"{launch.kernel}, {', '.join(parts)}"


def _triple(values: Sequence[int]) -> str:
    shown_values = list(values)
    while len(shown_values) > 1 and shown_values[-1] == 1:
        shown_values.pop()
    return " x ".join(map(str, shown_values))


def _note_lines(notes: Sequence[Note]) -> list[str]:
    """Return a line for each note; of equal ones the first, with their number."""
    counts = Counter(map(note_line, notes))
    return [f"{line}, {n} times" if n > 1 else line for line, n in counts.items()]
