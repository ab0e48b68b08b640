"""Reviewed findings of a program that `run` emulates: what is no fault, by its fingerprint.

The fingerprints are those of the stages that emulate a program: a review holds in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path

from kernelrig import __version__
from kernelrig.config.accepted_findings import load_accepted, write_accepted
from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.emu.machine.findings import Finding as Found
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular
from kernelrig.findings import EMULATOR, Acceptance, emulated_finding, number_lines
from kernelrig.findings.location import frame_of
from kernelrig.model import AcceptedFinding, Finding

ACCEPTED = "accepted"
"""What the report calls a finding that was reviewed, in place of its severity."""
DAYS = 90
"""After so many an entry that --accept wrote has to be reviewed again."""
_MOST_BYTES = 16 << 20


@dataclass(slots=True)
class Review:
    """The entries of `file`, none without one."""

    file: Path | None = None
    today: date = field(default_factory=date.today)
    entries: tuple[AcceptedFinding, ...] = ()
    _texts: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: Path | None) -> Review:
        """Read the file that the user names; one that is to be written need not be there."""
        known = file is not None and file.exists()
        return cls(file, entries=load_accepted(file) if file is not None and known else ())

    @property
    def acceptance(self) -> Acceptance:
        return Acceptance(EMULATOR, __version__, self.today, self.entries)

    def line(self, file: str, line: int) -> str:
        """Return the text of a source line, empty where it is not there."""
        if file not in self._texts:
            try:
                text = read_regular(Path(file), _MOST_BYTES).decode(errors="replace")
            except OSError:
                text = ""
            self._texts[file] = text.split("\n")
        lines = self._texts[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def records(self, ran: LaunchRun) -> tuple[Finding, ...]:
        """Return the findings of a launch as reports have them, those that hold as accepted."""
        made = number_lines([self._record(ran, found) for found in ran.findings])
        names = [m.fingerprint for m in made]
        linked = (
            m if f.cause is None else replace(m, explained_by=names[f.cause])
            for f, m in zip(ran.findings, made, strict=True)
        )
        return tuple(map(self.acceptance.apply, linked))

    def applied(self, ran: ProgramRun) -> ProgramRun:
        """Return the run with the reviewed errors as such: they fail nothing."""
        return replace(ran, launches=tuple(map(self._reviewed, ran.launches)))

    def accept(self, ran: ProgramRun, reason: str) -> int:
        """Write the errors of the run that are not reviewed yet into the file; return how many."""
        if self.file is None:
            raise ConfigError("no file for reviewed findings")
        expires = self.today + timedelta(days=DAYS)
        new = dict.fromkeys(
            finding.fingerprint
            for launch in ran.launches
            for found, finding in zip(launch.findings, self.records(launch), strict=True)
            if found.severity == "error" and not finding.accepted
        )
        kept = (e for e in self.entries if e.tool != EMULATOR or e.fingerprint not in new)
        added = (AcceptedFinding(EMULATOR, name, __version__, reason, expires) for name in new)
        entries = (*kept, *added)
        if new:
            try:
                write_accepted(self.file, entries)
            except OSError as e:
                why = f"{self.file} cannot be written: {e.strerror}"
                raise ConfigError(why, "pass --accepted with another file") from e
        self.entries = entries  # what could not be written is not accepted
        return len(new)

    def unseen(self, ran: ProgramRun) -> Iterator[str]:
        """Name the entries that no finding of a whole run matched: they may be deleted."""
        seen = {f.fingerprint for launch in ran.launches for f in self.records(launch)}
        for entry in self.entries:
            if entry.tool == EMULATOR and entry.fingerprint not in seen:
                yield f"note: accepted finding {entry.fingerprint} was not seen: {self.file}"

    def _reviewed(self, ran: LaunchRun) -> LaunchRun:
        both = zip(ran.findings, self.records(ran), strict=True)
        return replace(ran, findings=tuple(_shown(found, finding) for found, finding in both))

    def _record(self, ran: LaunchRun, found: Found) -> Finding:
        place = frame_of(found.source)
        return replace(
            emulated_finding(found, place, self),
            kernel=ran.kernel,
            frames=found.frames or ((place,) if place.file else ()),
            related=found.related,
        )


def _shown(found: Found, finding: Finding) -> Found:
    if found.severity != "error" or not finding.accepted:
        return found
    message = f"{found.message.partition(chr(10))[0]}: {finding.accepted}"
    return replace(found, severity=ACCEPTED, message=message, fix="", section="")
