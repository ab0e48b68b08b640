"""Files that are whole or not there: atomic writes, hashes, and the layout of a run directory."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelrig.errors import ConfigError


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `path` so that a reader sees the old file or the new one, never a part of it."""
    payload = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("wb") as f:
            f.write(payload)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    write_atomic(path, json.dumps(value, indent=2) + "\n")


def sha256_file(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def utc_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id(kernel: str, remote: str) -> str:
    """`<utc stamp>-<kernel>-<remote>-<4 hex>`: sorts by time, names what ran where."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{kernel}-{remote}-{secrets.token_hex(2)}"


def stage_folder(run: Path, index: int, name: str) -> Path:
    """The folder of the stage at `index` (from 1); the agent on the box uses the same name."""
    return run / "stages" / f"{index:02d}-{name}"


def build_folder(run: Path, variant: str = "") -> Path:
    """The folder of the run's own build, or of a variant that a stage runs; here and on the box."""
    return run / "variants" / variant if variant else run / "build"


def find_run(runs: Path, name: str) -> Path:
    """Return the run directory that `name` means: a path, an id, or an id's unique part."""
    if (Path(name) / "run.json").is_file():
        return Path(name)
    found = sorted(p.parent for p in runs.glob("*/run.json") if name in p.parent.name)
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(f"no run matches '{name}' under {runs}", f"list them with `ls {runs}`")
    raise ConfigError(
        f"'{name}' matches {len(found)} runs: {', '.join(p.name for p in found)}",
        "give more of the one you mean",
    )


def write_manifest(run: Path) -> None:
    """Write manifest.json: size and SHA-256 of every other file of the run."""
    files = {
        str(p.relative_to(run)): {"bytes": p.stat().st_size, "sha256": sha256_file(p)}
        for p in sorted(run.rglob("*"))
        if p.is_file() and p.name != "manifest.json"
    }
    write_json(run / "manifest.json", {"schema": 1, "files": files})


def prune(folder: Path, days: int) -> int:
    """Remove entries of `folder` untouched for `days`; return the bytes freed."""
    limit = time.time() - days * 86400
    freed = 0
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.stat().st_mtime < limit:
            files = [entry] if entry.is_file() else [p for p in entry.rglob("*") if p.is_file()]
            freed += sum(p.stat().st_size for p in files)
            entry.unlink() if entry.is_file() else shutil.rmtree(entry)
    return freed
