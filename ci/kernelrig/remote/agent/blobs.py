"""Uploaded files, stored under their SHA-256, and archives to unpack from them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from .disk import CHUNK, safe_relative, sha256_head
from .process_table import process_stat
from .refusal import Refused


class Blobs:
    """Files under their SHA-256. A name without .part is whole and was verified on arrival."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{64}", sha):
            raise Refused(f"'{sha}' is not a SHA-256")
        return self.folder / sha

    def check(self, sha: str, size: int) -> str:
        """Return `good`, `missing` or `corrupted`; a corrupted blob is removed."""
        path = self.path(sha)
        try:
            if path.stat().st_size == size and sha256_head(path, size) == sha:
                os.utime(path)  # recently used: prune keeps it
                return "good"
        except FileNotFoundError:
            return "missing"
        path.unlink()
        return "corrupted"

    def receive(self, sha: str, chunks: Iterator[bytes]) -> bool:
        """Store one blob from the stream; false if its hash is not the announced one."""
        path = self.path(sha)
        part = path.with_name(f"{sha}.{os.getpid()}.part")
        digest = hashlib.sha256()
        try:
            with part.open("wb") as f:
                for chunk in chunks:
                    digest.update(chunk)
                    f.write(chunk)
                f.flush()
                os.fsync(f.fileno())
            if digest.hexdigest() != sha:
                return False
            part.chmod(0o555)  # runs get hard links to programs: nothing may write through one
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return True

    def remove_stale_parts(self) -> None:
        for part in self.folder.glob("*.part"):
            if process_stat(int(part.name.split(".")[1])) is None:
                part.unlink(missing_ok=True)


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack regular files, folders and relative links; anything else is refused."""
    import tarfile  # few runs have something to unpack

    with tarfile.open(archive) as tar:
        for member in tar:
            target = folder / safe_relative(member.name)
            content = tar.extractfile(member) if member.isreg() else None
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                with target.open("wb") as f:
                    shutil.copyfileobj(content, f, CHUNK)
                target.chmod(member.mode & 0o777)
            elif member.issym():
                target.symlink_to(safe_relative(member.linkname))
            else:
                raise Refused(f"'{member.name}' in {archive.name} is not a file, folder or link")
