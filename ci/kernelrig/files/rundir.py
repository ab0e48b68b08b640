"""Atomic writes, hashes, and the layout of a run directory."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import secrets
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelrig.files.regular_file import open_regular

_PART = re.compile(r"\.(\d+)\.[0-9a-f]{8}\.part")


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `path` so that a reader sees the old file or the new one, never a part of it."""
    payload = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(part_name())
    try:
        with temporary.open("wb") as f:
            f.write(payload)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def part_name() -> str:
    """Return a new name for a file that is being written, whatever it will be called.

    It has the process's id: `remove_stale_parts` knows by it whether anyone is still writing.
    """
    return f".{os.getpid()}.{secrets.token_hex(4)}.part"


def remove_stale_parts(run: Path) -> None:
    """Remove what killed processes left half written in the run directory.

    What lies below `stages` came from a host, and is written in the run's own folder first.
    """
    for path in run.glob(".*.part"):
        writer = _PART.fullmatch(path.name)
        if writer and not _is_running(int(writer[1])):
            path.unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    """Return whether another process has this id: of ours, nothing is half written now."""
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


def sync(folder: Path) -> None:
    """Bring everything on the file system of `folder` to the disk, in one call for many files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    write_atomic(path, json.dumps(value, indent=2) + "\n")


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a regular file; OSError for anything else, which may have no end."""
    with open_regular(path) as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def odd_file(folder: Path) -> str:
    """Name the first thing below `folder` that is neither a file nor a folder, empty if none is."""
    for top, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(top, name)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                kind = "symbolic link" if stat.S_ISLNK(mode) else "special file"
                return f"{path.relative_to(folder)} is a {kind}"
    return ""


def utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stage_folder(run: Path, index: int, name: str) -> Path:
    """Return the folder of the stage at `index` (from 1); the agent on the host uses the same."""
    return run / "stages" / f"{index:02d}-{name}"


def build_folder(run: Path, variant: str = "") -> Path:
    """Return the folder of the run's own build, or of a stage's variant; the same on the host."""
    return run / "variants" / variant if variant else run / "build"
