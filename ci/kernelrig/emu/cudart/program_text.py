"""What is said of launches that were emulated: those of a program, or of a file of launches."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence

from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_session import Note, ProgramRun
from kernelrig.emu.cudart.program_verdict import dropped_lines, located, note_line
from kernelrig.emu.cudart.replay import Replay
from kernelrig.emu.launch.finding_text import brief, shown
from kernelrig.emu.machine.findings import Finding

SHOWN_NUMBERS = 8


def report_text(ran: ProgramRun, device: str, schedules: int, severities: str = "") -> str:
    """Return the report: what each launch found, what host calls did, how the program ended.

    A finding that several launches of a kernel have is shown with the first of them, and so is what
    schedules left different values in.
    """
    lines, counted = _launches_text(ran.launches)
    lines += _note_lines(ran.notes)
    lines += dropped_lines(ran)
    if severities:
        lines.append(f"severities: {severities}")
    if ran.interrupted:
        lines.append(f"{ran.interrupted}: the program was ended, and what it had not launched")
        lines[-1] += " was not observed"
    else:
        lines.append(f"the program {_ending(ran.exit_code)}")
    observed = sum(launch.observed for launch in ran.launches)
    count = _counted(observed)
    lines.append(f"emulated: {device}, {count}, {schedules} schedules each, {counted}")
    lines += _not_established(ran, observed)
    return "\n".join(lines)


def replay_text(ran: Replay, schedules: int, severities: str = "") -> str:
    """Return the report of a file of launches; `report_text` says how findings are shown."""
    lines, counted = _launches_text(ran.launches)
    lines += [f"note: {text}" for text in ran.notes]
    lines += [
        f"{located(one.place)}launch {one.number} ended with CUDA error {one.error}"
        for one in ran.launches
        if one.error
    ]
    if severities:
        lines.append(f"severities: {severities}")
    count = _counted(len(ran.launches))
    lines.append(f"emulated: {count}, {schedules} schedules each, {counted}")
    return "\n".join(lines)


def _launches_text(launches: Sequence[LaunchRun]) -> tuple[list[str], str]:
    """Return the lines, and how many errors, warnings and accepted errors there are."""
    lines = []
    seen: dict[object, str] = {}
    differing: set[tuple[str, str]] = set()
    again: dict[str, list[int]] = {}
    for launch in launches:
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
    counts = Counter(seen.values())
    said = f"{counts.pop('error', 0)} errors, {counts.pop('warning', 0)} warnings"
    return lines, "".join((said, *(f", {n} {severity}" for severity, n in counts.items())))


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
        lines.append(f"nothing was established of kernels: none was {_unlaunched(ran)}")
    return lines


def _unlaunched(ran: ProgramRun) -> str:
    """Say why no launch was observed, as far as it is known."""
    if ran.launches:
        names = dict.fromkeys(launch.kernel for launch in ran.launches)
        return f"observed; launched were {_listed([*names])}"
    before = "launched" if not ran.exit_code else "launched before its end"
    return f"{before} (what a program takes as arguments stands behind --)"


def _counted(launches: int) -> str:
    return f"{launches} launch{'' if launches == 1 else 'es'}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"was ended by signal {-code}"


def _listed(numbers: Sequence[object]) -> str:
    shown_numbers = ", ".join(map(str, numbers[:SHOWN_NUMBERS]))
    left = len(numbers) - SHOWN_NUMBERS
    return shown_numbers + (f" and {left} more" if left > 0 else "")


def _launch_lines(launch: LaunchRun, findings: Sequence[Finding]) -> list[str]:
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
