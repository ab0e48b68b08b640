"""The journal of a sweep: one line of JSON for each thing that is known, only ever added to.

artifacts/sweeps/<kernel>-<arch>-<hash of the inputs>/
  journal.jsonl      the first line names the inputs; the others are events
  heats/NNN.json     the slots of each heat with all samples; the journal has their SHA-256
  results.csv  samples.csv  report.html  sweep.patch     made of these, at any time again

A line is whole or does not count: a client that is killed while it writes loses that line alone,
and what it is about is done again. The folder may be copied to another machine and gone on with.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelrig.errors import ConfigError, IncompleteError, ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.regular_file import read_regular
from kernelrig.files.rundir import sha256_file, sync, utc_now, write_atomic

SWEEPS = Path("artifacts/sweeps")
JOURNAL, HEATS = "journal.jsonl", "heats"
SCHEMA = 1
_MOST_BYTES = 64 << 20
Event = dict[str, Any]


class Journal:
    """The events of a sweep, in their order; `add` is on the disk before it returns."""

    def __init__(self, folder: Path, events: list[Event]) -> None:
        self.folder = folder
        self.events = events

    def add(self, event: str, **more: Any) -> None:  # noqa: ANN401 - any JSON value
        said = {"event": event, "utc": utc_now(), **more}
        line = (json.dumps(said, allow_nan=False) + "\n").encode()
        path = self.folder / JOURNAL
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.events.append(json.loads(line))

    def of(self, *kinds: str) -> Iterator[Event]:
        return (e for e in self.events if e["event"] in kinds)

    def keep_heat(self, number: int, text: str) -> tuple[str, str]:
        """File the slots of a heat; return the file's name and hash for the journal."""
        name = f"{HEATS}/{number:03d}.json"
        write_atomic(self.folder / name, text)
        return name, sha256_file(self.folder / name)

    def heat_file(self, event: Mapping[str, Any]) -> Path:
        """Return the file of a heat; ProtocolError if it is not as it was filed."""
        name = str(event["file"])
        path = self.folder / name
        if not name.startswith(f"{HEATS}/") or "/" in name[len(HEATS) + 1 :] or ".." in name:
            raise ProtocolError(f"{self.folder / JOURNAL} names '{name[:80]}', which is no heat")
        if not path.is_file() or sha256_file(path) != event["sha256"]:
            raise ProtocolError(
                f"{path} is missing, or is not what was measured",
                "copy the whole folder of the sweep, or remove it and start again",
            )
        return path


@contextlib.contextmanager
def open_journal(folder: Path, inputs: Mapping[str, Any]) -> Iterator[Journal]:
    """Open the journal of the sweep of these inputs, made if it is new; one client at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEATS).mkdir(exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise IncompleteError(
                f"another process carries out this sweep: it holds {folder / '.lock'}",
                "wait until it has ended, or end it; then call `sweep` again",
            ) from e
        first: Event = {"event": "sweep", "schema": SCHEMA, **inputs}
        path = folder / JOURNAL
        if not path.exists() or not read_regular(path, _MOST_BYTES).rstrip():
            write_atomic(path, json.dumps(first) + "\n")
            sync(folder)
        yield Journal(folder, read_events(path, first))
    finally:
        os.close(lock)  # the kernel frees the lock, however this process ends


def read_events(path: Path, first: Event | None = None) -> list[Event]:
    """Return the events. A last line that is cut short is dropped, and taken out of the file."""
    data = read_regular(path, _MOST_BYTES)
    whole, _, rest = data.rpartition(b"\n")
    if rest:
        write_atomic(path, whole + b"\n")
    events = []
    for number, line in enumerate(whole.split(b"\n"), 1):
        try:
            event = strict_json.loads(line)
        except ValueError as e:
            raise ProtocolError(
                f"{path}:{number} is not an event of a sweep; the file is damaged",
                "remove the folder and start again",
            ) from e
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise ProtocolError(f"{path}:{number} is not an event of a sweep")
        events.append(event)
    if first is not None and events[:1] != [first]:
        raise ConfigError(
            f"{path.parent} is a sweep of other inputs: kernel, sets, tools or case differ",
            "remove it, or bring the sources back to what they were",
        )
    return events
