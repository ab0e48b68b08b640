"""What is said of launches that were emulated: those of a program, or of a file of launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_notes import Note
from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.emu.cudart.program_verdict import dropped_lines, located, note_line
from kernelrig.emu.cudart.replay import Replay
from kernelrig.emu.cudart.verdict_line import Counted, program_verdict, replay_verdict
from kernelrig.emu.launch.finding_text import brief, shown
from kernelrig.emu.launch.verdict_word import counted
from kernelrig.emu.machine.findings import Finding

SHOWN_NUMBERS = 8


def report_text(
    ran: ProgramRun,
    name: str,
    device: str,
    schedules: int,
    severities: str = "",
    more: Sequence[str] = (),
) -> str:
    """Return the report: the verdict, what each launch found and host calls did, what `more` is to
    be said, and the verdict again.

    A finding that several launches of a kernel have is shown with the first of them, and so is what
    schedules left different values in. Where nothing was found the verdict stands at the end alone.
    """
    lines, seen = _launches_text(ran.launches)
    lines += _note_lines(ran.notes)
    lines += dropped_lines(ran)
    if severities:
        lines.append(f"severities: {severities}")
    if ran.interrupted:
        lines.append(f"{ran.interrupted}: launches that the program had not made yet are unchecked")
    lines += _not_established(ran)
    return _framed(program_verdict(ran, seen, name, device, schedules), lines, more)


def replay_text(ran: Replay, name: str, schedules: int, severities: str = "") -> str:
    """Return the report of a file of launches; `report_text` says how findings are shown."""
    lines, seen = _launches_text(ran.launches)
    lines += [f"note: {text}" for text in ran.notes]
    lines += [
        f"{located(one.place)}launch {one.number} ended with CUDA error {one.error}"
        for one in ran.launches
        if one.error
    ]
    if severities:
        lines.append(f"severities: {severities}")
    return _framed(replay_verdict(ran, seen, name, schedules), lines)


def _framed(verdict: str, lines: Sequence[str], more: Sequence[str] = ()) -> str:
    return "\n".join([*([verdict] if lines else []), *lines, *more, verdict])


def _launches_text(launches: Sequence[LaunchRun]) -> tuple[list[str], Counted]:
    """Return the lines, and how many errors, warnings and accepted errors there are."""
    lines = []
    seen: dict[object, Finding] = {}
    differing: set[tuple[str, str]] = set()
    again: dict[str, list[int]] = {}
    for launch in launches:
        new = [f for f in launch.findings if (launch.kernel, f.key) not in seen]
        seen |= {(launch.kernel, f.key): f for f in new}
        left = {(launch.kernel, name) for name in launch.differing} - differing
        differing |= left
        if launch.findings and not new and not left:
            again.setdefault(launch.kernel, []).append(launch.number)
        else:
            lines += _launch_lines(launch, new)
    lines += [
        f"{counted(len(numbers), 'launch')} of {kernel} found the same again: {_listed(numbers)}"
        for kernel, numbers in again.items()
    ]
    return lines, Counted.of(seen.values())


def _not_established(ran: ProgramRun) -> list[str]:
    """Return what the verdict does not rest on."""
    lines = []
    observed = sum(launch.observed for launch in ran.launches)
    if others := len(ran.launches) - observed:
        verb = "was" if others == 1 else "were"
        count = counted(others, "launch")
        left = "it" if others == 1 else "them"
        lines.append(f"{count} {verb} run once, unchecked: --kernel or --launch left {left} out")
    if parts := [launch for launch in ran.launches if launch.ctas]:
        first = parts[0]
        whole = first.grid[0] * first.grid[1] * first.grid[2]
        lines.append(
            f"of {counted(len(parts), 'launch')} a part was run ({first.ctas} of {whole} CTAs of"
            f" {first.kernel}): what the rest would have written is not there, and the program's"
            " own check may fail for it; the order of streams is judged of what was run"
        )
    if not observed:
        lines.append(_unlaunched(ran))
    return lines


def _unlaunched(ran: ProgramRun) -> str:
    """Say why no kernel was checked, as far as it is known."""
    if ran.launches:
        names = dict.fromkeys(launch.kernel for launch in ran.launches)
        return f"no launch was selected; launched were {_listed([*names])}"
    return "no kernel was launched; if the program needs arguments, pass them after `--`"


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
