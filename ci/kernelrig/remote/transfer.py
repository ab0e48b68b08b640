"""Transfer files to the host and back: blobs by SHA-256, files by a manifest, missing ones only."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kernelrig.errors import IncompleteError, ProtocolError, RemoteError
from kernelrig.files.rundir import sha256_file
from kernelrig.remote.protocol import CHUNK, AgentSession

TRIES = 3  # for bytes that arrive wrong; dropped connections are retried by host_link


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a run as the host's manifest lists it."""

    path: str
    bytes: int
    sha256: str


def exact_chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield `size` bytes even of a file that shrinks: the hash shows it, the stream stays whole."""
    with path.open("rb") as f:
        while size > 0:
            chunk = f.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
            size -= len(chunk)
            yield chunk


def send_missing(
    session: AgentSession, files: Mapping[str, Path], on_sent: Callable[[int, int, int], None]
) -> None:
    """Send the blobs that the host lacks; `on_sent` gets blobs, bytes and blobs sent again."""
    sizes = {sha: path.stat().st_size for sha, path in files.items()}
    answer = session.ask({"op": "need", "blobs": sizes})
    missing, again = list(answer["missing"]), len(answer["corrupted"])
    for _ in range(TRIES):
        if not missing:
            return
        blobs = [{"sha256": sha, "bytes": sizes[sha]} for sha in missing]
        stream = (chunk for sha in missing for chunk in exact_chunks(files[sha], sizes[sha]))
        sent = len(missing)
        missing = list(session.ask({"op": "put", "blobs": blobs}, stream)["bad"])
        on_sent(sent - len(missing), sum(blob["bytes"] for blob in blobs), again)
        again = len(missing)
    names = ", ".join(files[sha].name for sha in missing)
    raise RemoteError(
        f"{names}: arrived with another SHA-256 than announced",
        "was the file being written? run it again",
    )


def list_files(session: AgentSession, run_id: str) -> tuple[Listed, ...]:
    answer = session.ask({"op": "manifest", "run": run_id})
    try:
        return tuple(Listed(f["path"], f["bytes"], f["sha256"]) for f in answer["files"])
    except (KeyError, TypeError) as e:
        raise ProtocolError(f"the manifest of {run_id} is garbled") from e


def inside(destination: Path, name: str) -> Path:
    """Return the local path of a file of the host; a name that leads outside is an error."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ProtocolError(f"the host lists a file outside its run: '{name}'")
    return destination / path


def fetch_run(
    session: AgentSession, run_id: str, destination: Path, on_file: Callable[[], None]
) -> tuple[str, ...]:
    """Fetch the files that are not here yet; return the names of those that could not be fetched.

    Of a file that grows meanwhile the part is fetched that existed when it was listed.
    """
    here: set[str] = set()
    missing: tuple[str, ...] = ()
    for _ in range(TRIES):
        listed = [f for f in list_files(session, run_id) if f.path not in here]
        here |= {f.path for f in listed if is_here(inside(destination, f.path), f)}
        wanted = [f for f in listed if f.path not in here]
        if not wanted:
            return ()
        for file in fetch(session, run_id, destination, wanted):
            here.add(file.path)
            on_file()
        missing = tuple(f.path for f in wanted if f.path not in here)
        if not missing:
            return ()
    return missing


def is_here(path: Path, listed: Listed) -> bool:
    if not path.is_file() or path.stat().st_size != listed.bytes:
        return False
    return sha256_file(path) == listed.sha256


def fetch(
    session: AgentSession, run_id: str, destination: Path, wanted: list[Listed]
) -> Iterator[Listed]:
    """Request all files in one request and yield each one that arrived with its hash."""
    files: list[dict[str, Any]] = [{"path": f.path, "bytes": f.bytes} for f in wanted]
    session.send({"op": "fetch", "run": run_id, "files": files})
    by_path = {f.path: f for f in wanted}
    while "end" not in (header := session.frame()):
        file = by_path.get(header.get("path", ""))
        if file is None:
            raise ProtocolError(f"the host sends a file that was not requested: {header!r}")
        if "bytes" in header and store(
            inside(destination, file.path), session.payload(header["bytes"]), file.sha256
        ):
            yield file


def store(path: Path, chunks: Iterable[bytes], sha: str) -> bool:
    """Write a file whole or not at all; false if its bytes do not have the announced hash."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    digest = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as f:
            for chunk in chunks:
                digest.update(chunk)
                f.write(chunk)
            f.flush()
            os.fsync(f.fileno())
        if digest.hexdigest() != sha:
            return False
        temporary.replace(path)
    except OSError as e:
        raise IncompleteError(f"cannot write {path}: {e.strerror}") from e
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return True
