"""manifest.json: what a run consisted of when it ended, and whether it still does."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.rundir import sha256_file, write_json

MANIFEST = "manifest.json"
SCHEMA = 1
MAX_BYTES = 64 << 30
"""What is hashed of a run, which takes a minute: a sparse file may have any apparent size.

No verdict rests on a file that is so large: what judges reads far less of one.
"""
_RESTORE = "put it back, or run it again: nothing is concluded from a run that was changed"


def write_manifest(run: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Write manifest.json: size and SHA-256 of every other file of the run.

    The smallest of at most `max_bytes` together are hashed, of the others the hash is empty.
    """
    found = _files(run)
    sizes = {name: path.stat().st_size for name, path in found.items()}
    hashed = _to_hash(sizes, max_bytes)
    files = {
        name: {"bytes": sizes[name], "sha256": sha256_file(path) if name in hashed else ""}
        for name, path in found.items()
    }
    write_json(run / MANIFEST, {"schema": SCHEMA, "files": files})


def require_unchanged(run: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Raise ProtocolError, which names it, if a file of the finished run was changed, added or
    removed, or if the run has no manifest.
    """
    listed, found = _read(run, max_bytes), _files(run)
    odd = [
        *(f"{name} is missing" for name in listed if name not in found),
        *(f"{name} was added" for name in found if name not in listed),
        *(f"{name} was changed" for name, path in found.items() if not _is_as(path, listed, name)),
    ]
    if odd:
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise ProtocolError(f"{run.name}: {odd[0]} after the run had ended{more}", _RESTORE)


def require_last_record(run: Path) -> None:
    """Raise ProtocolError if run.json is not the one of the last report; nothing without a report.

    A run that goes on has no manifest: what ended cannot be made one that goes on by an edit.
    """
    if (run / MANIFEST).is_file() and not is_unchanged(run, "run.json"):
        raise ProtocolError(f"{run.name}: run.json was changed after the last report", _RESTORE)


def is_unchanged(run: Path, name: str) -> bool:
    """Whether a single file of a run is as its manifest lists it; the others are not read."""
    try:
        listed = _read(run)
    except ProtocolError:
        return False
    return name in listed and _is_as(run / name, listed, name)


def _to_hash(sizes: Mapping[str, int], max_bytes: int) -> set[str]:
    """Return the smallest files that have at most so many bytes together."""
    ordered = sorted(sizes, key=lambda name: (sizes[name], name))
    totals = accumulate(sizes[name] for name in ordered)
    return {name for name, total in zip(ordered, totals, strict=True) if total <= max_bytes}


def _files(run: Path) -> dict[str, Path]:
    paths = {str(p.relative_to(run)): p for p in sorted(run.rglob("*")) if p.is_file()}
    return {name: path for name, path in paths.items() if name != MANIFEST}


def _is_as(path: Path, listed: Mapping[str, tuple[int, str]], name: str) -> bool:
    if name not in listed:
        return True
    size, digest = listed[name]
    try:
        return path.stat().st_size == size and (not digest or sha256_file(path) == digest)
    except OSError:
        return False


def _read(run: Path, max_bytes: int = MAX_BYTES) -> dict[str, tuple[int, str]]:
    path = run / MANIFEST
    try:
        value = strict_json.load(path)
        if value["schema"] != SCHEMA:
            raise ProtocolError(f"{path} has schema {value['schema']}, not {SCHEMA}")
        listed = {str(n): (int(f["bytes"]), str(f["sha256"])) for n, f in value["files"].items()}
    except FileNotFoundError as e:
        raise ProtocolError(
            f"{run.name} has no {MANIFEST}: its client was killed before the last report",
            f"`invoke collect {run.name}` judges it again and writes it",
        ) from e
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise ProtocolError(f"{path} is damaged: {e}") from e
    hashed = _to_hash({name: size for name, (size, _) in listed.items()}, max_bytes)
    if odd := next((n for n, (_, digest) in listed.items() if bool(digest) != (n in hashed)), ""):
        raise ProtocolError(f"{path} is damaged: whether {odd} has a hash does not fit its size")
    return listed
