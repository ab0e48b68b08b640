"""Files of the agent, and the disk that holds them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .refusal import Refused

CHUNK = 1 << 18
BLOCK = 512  # the unit of st_blocks, whatever the file system's own is
FLOOR_BYTES = 64 << 20
FLOOR_INODES = 16


def sha256_head(path: Path, size: int) -> str:
    """Hash the first `size` bytes: a log may grow while it is being fetched."""
    with path.open("rb") as f:
        return sha256_of(f, size)


def sha256_of(file: BinaryIO, size: int) -> str:
    """Hash the next `size` bytes of an open file, fewer if it has no more."""
    digest = hashlib.sha256()
    while size > 0:
        chunk = file.read(min(CHUNK, size))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read it; OSError for anything else, without waiting for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def free_bytes(path: Path) -> int:
    """Return what a user without privileges may still write to the disk of `path`."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def floor_bytes(path: Path) -> int:
    """Return the free space below which a run stops: FLOOR_BYTES, on a small disk 1% of it."""
    disk = os.statvfs(path)
    return min(FLOOR_BYTES, disk.f_blocks * disk.f_frsize // 100)


def full_text(path: Path) -> str:
    """Return the error text for a full disk under `path`, which may not exist yet."""
    there = next(p for p in (path, *path.parents) if p.exists())
    disk = os.statvfs(there)
    no_inodes = disk.f_files and not disk.f_favail  # 0 files: without an inode limit
    left = "no inode" if no_inodes else f"{free_bytes(there)} bytes"
    return f"the disk is full: {left} free under {path}"


def disk_reason(path: Path) -> str:
    """Return the error text for a disk too full to go on, empty if there is enough space."""
    free, disk = free_bytes(path), os.statvfs(path)
    if disk.f_files and disk.f_favail < FLOOR_INODES:  # 0 files: without an inode limit
        return f"the disk is full: {disk.f_favail} inodes free"
    return f"the disk is full: {free} bytes free" if free < floor_bytes(path) else ""


def tree_bytes(folder: Path) -> int:
    """Return the bytes of all files below `folder`; files that vanish meanwhile count as 0.

    A file counts as what it holds or as what it takes on the disk, whichever is more: a sparse one
    takes nothing here and all of its size wherever it is copied to.
    """
    total = 0
    for parent, _, names in walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(f"{parent}/{name}")
                total += max(status.st_size, status.st_blocks * BLOCK)
    return total


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what os.walk does, however deep a program nests folders: os.walk calls itself."""
    left = [str(folder)]
    while left:
        parent = left.pop()
        folders: list[str] = []
        names: list[str] = []
        with contextlib.suppress(OSError), os.scandir(parent) as listed:
            for entry in listed:
                (folders if entry.is_dir() else names).append(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
        yield parent, folders, names


def remove_tree(path: Path) -> int:
    """Remove a file or folder; return the bytes freed (of hard links only with the last).

    A folder within a folder is moved up before it is emptied, so that however deep they are nested
    no path becomes too long, and nothing calls itself.
    """
    if not path.is_dir() or path.is_symlink():
        return _unlink(path)
    freed = moved = 0
    while children := _listed(path):
        for child in children:
            if not child.is_dir(follow_symlinks=False):
                freed += _unlink(Path(child.path))
                continue
            for below in _listed(child.path):
                if below.is_dir(follow_symlinks=False):
                    os.rename(below.path, path / f".removed-{os.getpid()}-{moved}")
                    moved += 1
                else:
                    freed += _unlink(Path(below.path))
            os.rmdir(child.path)
    path.rmdir()
    return freed


def _listed(folder: str | Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as listed:
        return list(listed)


def _unlink(path: Path) -> int:
    status = path.lstat()
    path.unlink()
    return status.st_size if status.st_nlink == 1 else 0


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: a temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)


def safe_relative(text: str) -> Path:
    """Return `text` as a path inside the run; Refused if it is absolute or contains `..`."""
    path = Path(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Refused(f"'{text}' is not a path inside the run")
    return path
