"""The journal of a run: one line of JSON per event, appended, fsynced, never rewritten.

A client that lost its connection, or another client, reads it from any byte offset; verdicts are
made from it. So a line is either whole or absent, also when the disk is full or the agent killed.

With a key, which nobody but the client has and which is in no file here, each line is sealed with
those before it: a program that kills the agent cannot write its journal on.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from .disk import open_regular, write_file
from .refusal import Json

BALLAST_BYTES = 256 << 10
LINE_BYTES = 1 << 20  # longer than any event


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def lay_ballast(run: Path) -> None:
    """Reserve disk space for the journal's last lines; random bytes, which no disk compresses."""
    (run / "ballast").write_bytes(os.urandom(BALLAST_BYTES))


class Events(Protocol):
    """Where events go: the journal, or the pipe of a worker to the agent that writes it."""

    def write(self, event: str, **fields: object) -> None: ...

    def is_whole(self) -> bool: ...

    def restore(self) -> None: ...


class Journal:
    """Writes one fsynced JSON line per event; with `echo` to stdout, too.

    The ballast is removed when the disk is full, so that even this can be recorded. `written` are
    the whole lines of an earlier agent of the same run, which are gone on with.
    """

    def __init__(
        self, run: Path, *, echo: bool = False, written: bytes = b"", key: str = ""
    ) -> None:
        self.ballast = run / "ballast"
        self.echo = echo
        self.began = time.monotonic()
        self.path = run / "journal.jsonl"
        self.key = bytes.fromhex(key)
        self.seal = b""  # of the last line
        self.written = bytearray(written)  # a program of the run may write into the file, too
        self.file = self._open()
        if written:
            os.ftruncate(self.file, len(written))  # a killed agent may leave a part of a line

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.path, flags, 0o600)

    def is_whole(self) -> bool:
        """Return whether the file at its place holds what was written here, and nothing else."""
        try:
            there = self.path.lstat()
            same = os.path.samestat(there, os.fstat(self.file))
            whole = same and there.st_size == len(self.written)
            return whole and self.path.read_bytes() == self.written
        except OSError:
            return False

    def restore(self) -> None:
        """Write the file anew as it was, at its place."""
        write_file(self.path, bytes(self.written))
        os.close(self.file)
        self.file = self._open()

    def write(self, event: str, **fields: object) -> None:
        seconds = round(time.monotonic() - self.began, 3)
        text = json.dumps({"event": event, "utc": utc_now(), "t": seconds, **fields})
        line = f"{self._sealed(text)}\n"
        try:
            self._append(line.encode())
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.ballast.unlink(missing_ok=True)
            self._append(line.encode())
        self.written += line.encode()
        if self.echo:
            with contextlib.suppress(BrokenPipeError):  # a client that is gone reads nothing
                os.write(1, line.encode())

    def _sealed(self, text: str) -> str:
        """Return an event with its seal as its last field, where there is a key."""
        if not self.key:
            return text
        self.seal = hmac.digest(self.key, self.seal + text.encode(), "sha256")
        return f'{text[:-1]}, "seal": "{self.seal.hex()}"}}'

    def _append(self, line: bytes) -> None:
        whole = os.fstat(self.file).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(self.file, view) :]
            os.fsync(self.file)
        except OSError:
            os.ftruncate(self.file, whole)  # a partial line must not precede another
            raise


class Ending:
    """How a command ended: the fields of its `command_ended` event."""

    def __init__(self, ended_by: str, detail: str = "") -> None:
        self.ended_by = ended_by
        self.detail = detail
        self.exit: int | None = None
        self.signal: int | None = None
        self.seconds = 0.0
        self.reused_from = ""
        self.strays = 0
        self.looks = 0
        self.disturbed = False

    def add(self, detail: str) -> None:
        self.detail = f"{self.detail}; {detail}" if self.detail else detail

    def fields(self) -> Json:
        return dict(vars(self))


def journal_events(path: Path, offset: int) -> Iterator[tuple[Json, int]]:
    """Yield (event, offset after it) for complete lines; the last may be half written.

    A stage may have written into the journal: a line that is no event is passed over with a note,
    so that the events after it are seen. The client judges the journal itself.
    """
    try:
        file = open_regular(path)
    except OSError:  # removed, or replaced by something else: there is no further event to tell
        return
    with file:
        file.seek(offset)
        while line := file.readline(LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                return
            began, offset = offset, offset + len(line)
            yield (
                _event(line)
                or {
                    "event": "note",
                    "text": f"the journal has no event at byte {began}: {line[:80]!r}",
                },
                offset,
            )


def _event(line: bytes) -> Json | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
