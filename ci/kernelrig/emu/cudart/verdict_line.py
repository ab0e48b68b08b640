"""The verdict on emulated launches in one line: its word, why, and what was emulated."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.emu.cudart.program_verdict import ERRORS, exit_code, note_line
from kernelrig.emu.cudart.replay import Replay
from kernelrig.emu.launch.verdict_word import counted, verdict_word
from kernelrig.emu.machine.findings import Finding


@dataclass(frozen=True, slots=True)
class Counted:
    """How much was found: errors, those that follow from others, and what fails nothing."""

    errors: int = 0
    explained: int = 0
    warnings: int = 0
    accepted: int = 0

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Counted:
        """Count what was found, each of its kind once."""
        kept = list(findings)
        errors = [f for f in kept if f.severity == "error"]
        explained = sum(f.cause is not None for f in errors)
        if explained == len(errors):  # none is left that could be their cause
            explained = 0
        severities = [f.severity for f in kept]
        return cls(
            len(errors) - explained,
            explained,
            severities.count("warning"),
            severities.count("accepted"),
        )

    @property
    def text(self) -> str:
        """The counts in words: `2 errors, which explain 4 more, and 1 warning`."""
        said = counted(self.errors, "error") if self.errors else "no errors"
        if self.explained:
            said += f", which explain{'s' * (self.errors == 1)} {self.explained} more"
        return said + (f", {counted(self.warnings, 'warning')}" if self.warnings else "")


def program_verdict(ran: ProgramRun, seen: Counted, name: str, device: str, schedules: int) -> str:
    """Return the verdict on a program; `name` is its source, `seen` what its launches found."""
    wrong = {note_line(note) for note in ran.notes if note.kind in ERRORS}
    seen = replace(seen, errors=seen.errors + len(wrong))
    observed = sum(launch.observed for launch in ran.launches)
    code = exit_code(ran)
    said = [seen.text]
    if not seen.errors and any(launch.stopped for launch in ran.launches):
        said.append("a launch did not reach its end")
    said.append(ran.interrupted or f"the program {_ending(ran.exit_code)}")
    if not observed and not seen.errors:
        said[0] = "no kernel was checked"
    elif not seen.errors and ran.exit_code and not ran.interrupted:
        said.reverse()  # what it failed by comes first
    return _line(code, seen, name, said, _emulated(device, observed, schedules))


def replay_verdict(ran: Replay, seen: Counted, name: str, schedules: int) -> str:
    """Return the verdict on a file of launches; `name` is the file."""
    said = [seen.text]
    if not seen.errors and any(one.stopped or one.error for one in ran.launches):
        said.append("a launch did not reach its end")
    return _line(ran.exit_code, seen, name, said, _emulated("", len(ran.launches), schedules))


def _line(code: int, seen: Counted, name: str, said: Sequence[str], emulated: str) -> str:
    return f"{verdict_word(code, seen.accepted)}: {name}: {'; '.join(said)} ({emulated})"


def _emulated(device: str, launches: int, schedules: int) -> str:
    each = " each" if launches > 1 else ""
    count = f"{counted(launches, 'launch')} in {counted(schedules, 'schedule')}{each}"
    count = count if launches else "no launch"
    return f"emulated: {', '.join(filter(None, (device, count)))}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"was ended by signal {-code}"
