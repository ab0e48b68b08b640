"""Which entries of a store were made here: their hashes, kept outside the entries.

An entry lists the hashes of its own files, so whoever changes one can change the list with it. The
ledger has the hash of that list as it was when the entry was made. One without a line in it, or
with another hash, is made again; one with another hash is not taken either where it is given.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kernelrig.files.rundir import sha256_file, write_atomic
from kernelrig.terminal.log import say

FOLDER = ".made-here"
"""Beside the entries; a file of the entry's name for each."""


def note(entry: Path, record: Path) -> None:
    """Note that `entry`, whose list of hashes is `record`, was made here."""
    write_atomic(_line(entry), sha256_file(record) + "\n")


def is_noted(entry: Path, record: Path) -> bool:
    """Whether `record` is what was noted when the entry was made."""
    try:
        return _line(entry).read_text() == sha256_file(record) + "\n"
    except (OSError, ValueError):
        return False


def contradicts(entry: Path, record: Path) -> bool:
    """Whether another entry of this name was made here; not for one that came from elsewhere."""
    return _line(entry.resolve()).exists() and not is_noted(entry.resolve(), record)


def forget_removed(store: Path) -> None:
    """Drop the lines of entries that are gone."""
    with locked(store):
        for line in (store / FOLDER).iterdir():
            if line.name != _LOCK and not (store / line.name).exists():
                line.unlink(missing_ok=True)


_LOCK = ".lock"


@contextlib.contextmanager
def locked(store: Path) -> Iterator[None]:
    """Let one process at a time change the store: an entry and its line belong together."""
    (store / FOLDER).mkdir(parents=True, exist_ok=True)
    lock = store / FOLDER / _LOCK
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)  # of a pipe it waits not
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that changes {store}: it holds {lock.name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)  # the kernel frees the lock, however this process ends


def _line(entry: Path) -> Path:
    return entry.parent / FOLDER / entry.name
