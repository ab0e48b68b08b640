"""What is noted of a program's host code: calls that fail, and errors that it never reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelrig.emu.cudart.messages import Noted

MAX_NOTES = 1000
KEPT = (Noted.HOST_ACCESS, Noted.STREAM_RACE)
"""One of each is kept, whatever there is before it: they are errors of the run."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the host code did at `place`, `prog.cu:12` where that is known.

    It concerns `size` bytes, `offset` bytes into `allocation`, where it names one.
    """

    kind: Noted
    code: int
    text: str
    place: str = ""
    allocation: str = ""
    offset: int = 0
    size: int = 0


class Notes:
    """Of a program that runs. `dropped` counts notes beyond the first MAX_NOTES."""

    def __init__(self) -> None:
        self.dropped = 0
        self._kept: list[Note] = []
        self._refused: list[Note] = []  # launches whose error was not read yet
        self._dropped_copy: Note | None = None

    def keep(self, note: Note) -> None:
        """Keep a note: of very many the first, and an error, by which the verdict is no pass."""
        more = note.kind in KEPT and all(known.kind != note.kind for known in self._kept)
        if len(self._kept) < MAX_NOTES or more:
            self._kept.append(note)
        else:
            self.dropped += 1

    def refused_launch(self, note: Note) -> None:
        """Keep a launch that was refused once its error is read, or the program ends."""
        if len(self._refused) < MAX_NOTES:
            self._refused.append(note)
        else:
            self.keep(note)

    def refused_copy(self, note: Note, *, drops_result: bool) -> None:
        self.keep(note)
        if drops_result and self._dropped_copy is None:
            self._dropped_copy = note

    def error_was_read(self) -> None:
        for note in self._refused:
            self.keep(note)
        self._refused.clear()
        self._dropped_copy = None

    def of_ended(self, exit_code: int) -> list[Note]:
        """Return all notes; an error is a refused launch whose error the program never read, and
        the first copy whose result it drops, which is no warning then.
        """
        launches = [replace(note, kind=Noted.OVERLOOKED_LAUNCH) for note in self._refused]
        if exit_code or self._dropped_copy is None:
            return [*self._kept, *launches]
        copy = replace(self._dropped_copy, kind=Noted.OVERLOOKED_COPY)
        return [*(n for n in self._kept if n is not self._dropped_copy), *launches, copy]
