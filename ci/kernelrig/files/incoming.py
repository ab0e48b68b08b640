"""Files that others name, written below one folder: whole or not at all, never through a link.

Each is written under a temporary name in that folder and then moved to its place, which is reached
folder by folder from there: a symbolic link on the way is an error, whatever it points at.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Self

from kernelrig.files.rundir import part_name, sync

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_OPEN = 16


class Incoming:
    """The folder that files arrive in; names are relative to it, with `/` between the parts.

    Every operation may raise OSError.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folders: dict[tuple[str, ...], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (*self._folders.values(), self._root):
            os.close(descriptor)
        self._folders.clear()

    def free_bytes(self) -> int:
        disk = os.fstatvfs(self._root)
        return disk.f_bavail * disk.f_frsize

    def sync(self) -> None:
        """Bring all that arrived to the disk: once for all files, of which there may be many."""
        sync(self.root)

    def sha256_here(self, name: str, size: int) -> str:
        """Return the SHA-256 of a file that is here with `size` bytes, empty without one."""
        *parents, last = name.split("/")
        try:
            folder = self._folder(tuple(parents), make=False)
            status = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                return ""
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return ""
        with os.fdopen(descriptor, "rb") as f:
            return hashlib.file_digest(f, "sha256").hexdigest()

    def new_part(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o666, dir_fd=self._root)

    def remove_part(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._root)

    def move(self, part: str, name: str) -> None:
        *parents, last = name.split("/")
        folder = self._folder(tuple(parents), make=True)
        os.rename(part, last, src_dir_fd=self._root, dst_dir_fd=folder)

    def _folder(self, parts: tuple[str, ...], *, make: bool) -> int:
        if not parts:
            return self._root
        known = self._folders.get(parts)
        if known is not None:
            return known
        at = os.dup(self._root)
        for name in parts:
            try:
                below = _open_folder(at, name, make=make)
            finally:
                os.close(at)
            at = below
        while len(self._folders) >= _KEPT_OPEN:
            os.close(self._folders.pop(next(iter(self._folders))))
        self._folders[parts] = at
        return at


def _open_folder(parent: int, name: str, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as e:
        if e.errno in (errno.ENOTDIR, errno.ELOOP):  # which of them a link gives is the kernel's
            text = f"{name} is no folder here, but a file or a symbolic link"
            raise OSError(e.errno, text) from e
        raise


class Part:
    """A file on its way; unless it is moved to its place, it is gone afterwards.

    `failure` is the first error of the disk: what follows is then only counted, since the stream
    that brings it has to be read to the file's end. `sha256` is of all that came.
    """

    def __init__(self, folder: Incoming) -> None:
        self.failure: OSError | None = None
        self._folder = folder
        self._name = part_name()
        self._descriptor = -1
        self._digest = hashlib.sha256()

    def __enter__(self) -> Self:
        try:
            self._descriptor = self._folder.new_part(self._name)
        except OSError as e:
            self.failure = e
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._name:
            self._folder.remove_part(self._name)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        view = memoryview(data)
        try:
            while view and self.failure is None:
                view = view[os.write(self._descriptor, view) :]
        except OSError as e:
            self.failure = e

    def move(self, name: str) -> None:
        """Give the file its name, in place of one that is there."""
        if self.failure is not None:
            return
        try:
            self._folder.move(self._name, name)
            self._name = ""
        except OSError as e:
            self.failure = e
