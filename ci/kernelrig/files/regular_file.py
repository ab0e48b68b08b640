"""Reading a file that somebody else named: a regular file, up to a size, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_CHUNK = 1 << 20


def is_there(path: Path) -> bool:
    """Whether a name that somebody wrote is a file's: one that is too long for a name is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`.

    OSError, whose `strerror` says what is wrong, for anything else: a FIFO would be waited for, and
    a device has no end.
    """
    with open_regular(path) as f:
        size = os.fstat(f.fileno()).st_size
        data = bytearray()
        while size <= max_bytes and len(data) <= max_bytes and (chunk := f.read(_CHUNK)):
            data += chunk
    if max(size, len(data)) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return bytes(data)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; OSError for anything else, as `read_regular` raises it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as e:
        raise OSError(errno.EINVAL, "its name holds a NUL byte", str(path)) from e
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))
