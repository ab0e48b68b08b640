"""The folder of a stage, which the agent and an untrusted program both write into.

The agent writes through a descriptor of the folder, and into files that it has just made: a program
that puts links into its folder, or another folder in its place, leads it nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import BinaryIO

OWNER_MAY = 0o700


class StageFolder:
    """A folder made here: fresh, so that no earlier stage has put results into it."""

    def __init__(self, path: Path) -> None:
        """Make the folder; FileExistsError if there is one."""
        path.mkdir()
        self.path = path
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(path, flags)

    @property
    def real(self) -> Path:
        """Return a path to the folder itself, whatever is at its place by now."""
        return Path(f"/proc/self/fd/{self.descriptor}")

    def in_place(self) -> bool:
        """Return whether the folder is still what lies at its path."""
        try:
            there = os.lstat(self.path)
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self.descriptor))

    def reopen_access(self) -> None:
        """Let the owner into the folder again, whatever its program has done to the mode."""
        mode = os.fstat(self.descriptor).st_mode & 0o777
        if mode & OWNER_MAY != OWNER_MAY:
            with contextlib.suppress(OSError):
                os.fchmod(self.descriptor, mode | OWNER_MAY)

    def create(self, name: str) -> BinaryIO:
        """Return a new, empty file of this name; what has the name is removed first."""
        self.reopen_access()
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(self.real / name) and not os.path.islink(self.real / name):
                shutil.rmtree(self.real / name)
            else:
                os.unlink(name, dir_fd=self.descriptor)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(name, flags, 0o644, dir_fd=self.descriptor), "wb")

    def names(self, prefix: str = "") -> list[str]:
        """Return the sorted names in the folder that begin with `prefix`."""
        return sorted(n for n in os.listdir(self.descriptor) if n.startswith(prefix))

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def rename(self, name: str, to: str) -> None:
        os.replace(name, to, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def size(self, name: str) -> int:
        """Return the bytes of the regular file of this name, 0 for anything else."""
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            return status.st_size if (status.st_mode & 0o170000) == 0o100000 else 0
        return 0

    def close(self) -> None:
        os.close(self.descriptor)
