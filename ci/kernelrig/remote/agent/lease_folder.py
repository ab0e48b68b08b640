"""The folder in which all users of a host keep the leases of its GPUs.

It is shared as /tmp is: sticky, so that nobody removes another's files. Whoever made it could, so
that nothing here is trusted but what its owner wrote: a record counts only if it is a regular file
that belongs to the user whose number its name has. Nothing is opened through a link.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from .process_table import POLL_S
from .refusal import Refused

VARIABLE = "KERNELRIG_LEASES"
FOLDER = "/tmp/kernelrig-leases-v1"
MODE = 0o1777
MUTEX_S = 10.0
MOST_BYTES = 4096
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def open_folder() -> Iterator[int]:
    """Yield a descriptor of the folder, made where there is none; Refused for anything else."""
    path = os.environ.get(VARIABLE) or FOLDER
    hint = f"remove it, or name another folder as {VARIABLE} in this remote's `env`"
    try:
        with contextlib.suppress(FileExistsError):
            make_shared(path)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        raise Refused(f"no GPU can be leased: {path}: {e.strerror}; {hint}") from e
    try:
        if stat.S_IMODE(os.fstat(folder).st_mode) != MODE:
            raise Refused(f"no GPU can be leased: {path} is not shared (mode 1777); {hint}")
        yield folder
    finally:
        os.close(folder)


def make_shared(path: str) -> None:
    """Make the folder with its mode at once: nobody ever sees it with another."""
    mask = os.umask(0)
    try:
        os.mkdir(path, MODE)
    finally:
        os.umask(mask)


@contextlib.contextmanager
def mutex(folder: int, name: str) -> Iterator[None]:
    """Hold the lock file `name`, for as short as records are looked at and written."""
    limit = time.monotonic() + MUTEX_S
    while (held := _locked(folder, name)) is None:
        if time.monotonic() > limit:
            raise Refused(f"no GPU can be leased: another process holds {name} of the leases")
        time.sleep(POLL_S)
    try:
        yield
    finally:
        os.close(held)


def _locked(folder: int, name: str) -> int | None:
    try:
        file = os.open(name, READ, dir_fd=folder)
    except FileNotFoundError:
        # Only where there is none: with O_CREAT the kernel refuses another user's file there.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, MAKE, 0o644, dir_fd=folder))
        return None
    except OSError as e:  # a link
        raise Refused(f"no GPU can be leased: {name} of the leases is no file: {e.strerror}") from e
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return file
    os.close(file)
    return None


def write_new(folder: int, name: str, content: bytes) -> int:
    """Put a record of this user's in its place, whole, and return its open file."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # EPERM where another user put something there
    file = os.open(name, MAKE, 0o644, dir_fd=folder)
    try:
        os.fchmod(file, 0o644)  # whatever the umask: others must be able to read it
        os.write(file, content)
    except OSError:
        os.close(file)
        raise
    return file


def read_owned(folder: int, name: str, owner: int) -> bytes | None:
    """Return what `owner` wrote into a record; None for what is no record of that user's."""
    try:
        file = os.open(name, READ, dir_fd=folder)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != owner or found.st_size > MOST_BYTES:
            return None
        return os.read(file, MOST_BYTES)
    finally:
        os.close(file)
