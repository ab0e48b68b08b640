"""A journal of this side: one line of JSON for each thing that is known, only ever added to.

A line is whole or does not count: a process that is killed while it writes loses that line alone,
and what it is about is done again. The first line names the inputs that the others are about.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelrig.errors import IncompleteError, ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.regular_file import read_regular
from kernelrig.files.rundir import sync, utc_now, write_atomic

JOURNAL = "journal.jsonl"
_APPENDING = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_BYTES = 64 << 20
_ENDING_S = 1.0
"""The workers of a client that was killed hold its lock until they are gone, too."""
Event = dict[str, Any]


class EventLog:
    """The events in their order; `add` is on the disk before it returns.

    Several processes may add to one file, one at a time; what one of them has left of a line goes
    with the next. `read` sees the lines of others.
    """

    def __init__(self, folder: Path, events: list[Event]) -> None:
        self.folder = folder
        self.events = events

    def add(self, event: str, **more: Any) -> None:  # noqa: ANN401 - any JSON value
        said = {"event": event, "utc": utc_now(), **more}
        line = (json.dumps(said, allow_nan=False) + "\n").encode()
        descriptor = os.open(self.folder / JOURNAL, _APPENDING)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until it is closed, however this process ends
            whole = _end_of_lines(descriptor)
            os.ftruncate(descriptor, whole)
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, whole)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder / JOURNAL))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.events.append(json.loads(line))

    def of(self, *kinds: str) -> Iterator[Event]:
        return (e for e in self.events if e["event"] in kinds)

    def read(self, what: str) -> None:
        """Read the events anew, with those that other processes have added by now."""
        self.events = _parsed(self.folder / JOURNAL, what)


@contextlib.contextmanager
def held_log(folder: Path, first: Event, what: str) -> Iterator[list[Event]]:
    """Hold the log of a folder, made with its `first` line where there is none; yield its events.

    IncompleteError where another process has it. `what` it is the log of: `sweep`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        until = time.monotonic() + _ENDING_S
        while not _locked(lock):
            if time.monotonic() > until:
                raise IncompleteError(
                    f"another process carries out this {what}: it holds {folder / '.lock'}",
                    f"wait until it has ended, or end it; then call `{what}` again",
                )
            time.sleep(0.05)
        path = folder / JOURNAL
        if not path.exists() or not read_regular(path, _MOST_BYTES).rstrip():
            write_atomic(path, json.dumps(first) + "\n")
            sync(folder)
        yield _parsed(path, what)
    finally:
        os.close(lock)  # the kernel frees the lock, however this process ends


def read_log(folder: Path, what: str) -> list[Event]:
    """Return the events of a folder without holding its log; none where there is none yet."""
    path = folder / JOURNAL
    return _parsed(path, what) if path.is_file() else []


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end_of_lines(log: int) -> int:
    """Return the size of the whole lines: behind them lies what a full disk, or a kill, cut off."""
    size = os.fstat(log).st_size
    if os.pread(log, 1, max(0, size - 1)) in (b"\n", b""):
        return size
    return os.pread(log, size, 0).rfind(b"\n") + 1


def _parsed(path: Path, what: str) -> list[Event]:
    """Return the events; a last line without its end is being written, or was cut short."""
    whole, _, _ = read_regular(path, _MOST_BYTES).rpartition(b"\n")
    events = []
    for number, line in enumerate(whole.split(b"\n"), 1):
        try:
            event = strict_json.loads(line)
        except ValueError as e:
            raise ProtocolError(
                f"{path}:{number} is not an event of a {what}; the file is damaged",
                "remove the folder and start again",
            ) from e
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise ProtocolError(f"{path}:{number} is not an event of a {what}")
        events.append(event)
    return events
