"""Reading a file that somebody else named: a regular file, up to a size, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_CHUNK = 1 << 20


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`.

    OSError, whose `strerror` says what is wrong, for anything else: a FIFO would be waited for, and
    a device has no end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as e:
        raise OSError(errno.EINVAL, "its name holds a NUL byte", str(path)) from e
    with os.fdopen(descriptor, "rb") as f:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = bytearray()
        while state.st_size <= max_bytes and len(data) <= max_bytes and (chunk := f.read(_CHUNK)):
            data += chunk
    if max(state.st_size, len(data)) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", str(path))
    return bytes(data)
