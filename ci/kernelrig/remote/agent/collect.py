"""List and send the files of a run, which may still be writing them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .disk import CHUNK, safe_relative, sha256_head
from .refusal import Json
from .wire import Wire

OF_THE_RUN = ("job.json", "journal.jsonl", "agent.log")


def list_files(run: Path) -> list[Json]:
    """Return path, size and hash of each file as it is now; later growth is not included."""
    files = []
    for path in [*(run / name for name in OF_THE_RUN), *sorted((run / "stages").rglob("*"))]:
        if path.is_file() and not path.is_symlink():
            size = path.stat().st_size
            name = str(path.relative_to(run))
            files.append({"path": name, "bytes": size, "sha256": sha256_head(path, size)})
    return files


def send_files(wire: Wire, run: Path, files: list[Json]) -> None:
    """Send each file as one frame; a frame with `lost` stands for a file that is gone."""
    for wanted in files:
        path = run / safe_relative(wanted["path"])
        try:
            with path.open("rb") as f:
                header = {"path": wanted["path"], "bytes": wanted["bytes"]}
                wire.send(header, exactly(f, wanted["bytes"]))
        except FileNotFoundError as e:
            wire.send({"path": wanted["path"], "lost": str(e.strerror)})


def exactly(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield `size` bytes even of a file that shrinks; the client notices by the hash."""
    while size > 0:
        chunk = file.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
        size -= len(chunk)
        yield chunk
