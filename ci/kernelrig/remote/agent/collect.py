"""List and send the files of a run, which may still be writing them.

Names travel as UTF-8; a byte that is none is a lone surrogate, which JSON escapes. Only regular
files are opened: a pipe would block, a link may lead anywhere.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from collections import deque
from collections.abc import Container, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from .disk import CHUNK, open_regular, safe_relative, sha256_of
from .refusal import Json, Refused
from .wire import Wire

OF_THE_RUN = ("journal.jsonl", "agent.log")
FRAME_ENTRIES = 500  # of at most 4 KB each, which JSON may make 24 KB


def list_files(wire: Wire, run: Path, most: int, small: SmallFiles | None = None) -> None:
    """Send the name and size of each file as it is now; later growth is not included.

    `lost` are what cannot be listed, with the reasons; `other` is what is no regular file. Of each
    folder of `stages` at most `most` files are listed. What is `small` follows with its contents.
    """
    frame: Json = {"files": [], "lost": [], "other": []}
    entries = 0
    for kind, *entry in _everything(run, most):
        frame[kind].append(entry)
        if small is not None and kind == "files":
            small.note(*cast("tuple[str, int]", entry))
        entries += 1
        if entries == FRAME_ENTRIES:
            wire.send(frame, more=True)
            frame, entries = {"files": [], "lost": [], "other": []}, 0
    wire.send(frame, more=True)
    if small is not None:
        wire.send({"small": small.contents(run)}, more=True)


class SmallFiles:
    """The files of few bytes, at most `most` in all, that were not `sent` with these sizes before.

    They go with the list of a run that is over, so that nobody has to ask for them.
    """

    def __init__(self, most: int, sent: Container[tuple[str, int]]) -> None:
        self.left = most
        self.each = most // 8
        self.sent = sent
        self.names: list[str] = []

    def note(self, name: str, size: int) -> None:
        if size <= min(self.each, self.left) and (name, size) not in self.sent:
            self.left -= size
            self.names.append(name)

    def contents(self, run: Path) -> list[tuple[str, str, str]]:
        """Return name, SHA-256 and base64 of each; what cannot be read now is asked for later."""
        found = []
        for name in self.names:
            with contextlib.suppress(OSError), open_regular(local_path(run, name)) as file:
                data = file.read(self.each)
                text = base64.b64encode(data).decode()
                found.append((name, hashlib.sha256(data).hexdigest(), text))
        return found


def _everything(run: Path, most: int) -> Iterator[tuple[str, str, object]]:
    for name in OF_THE_RUN:
        if os.path.lexists(run / name):
            yield _described(run, Path(name))
    stages = Path("stages")
    try:
        tops = sorted(os.listdir(run / stages))
    except OSError as e:
        yield "lost", str(stages), str(e.strerror)
        return
    for top in tops:
        yield from _below(run, stages / top, most)


def _below(run: Path, top: Path, most: int) -> Iterator[tuple[str, str, object]]:
    """Yield what lies below `top`, folder by folder, those near the top first."""
    if not os.path.isdir(run / top) or os.path.islink(run / top):
        yield _described(run, top)
        return
    left = most
    folders = deque([top])
    while folders:
        folder = folders.popleft()
        try:
            with os.scandir(run / folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as e:
            yield "lost", wire_name(folder), str(e.strerror)
            continue
        for entry in entries:
            name = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                continue
            if not left:
                yield "lost", wire_name(top), f"more than {most} files: the others are not listed"
                return
            left -= 1
            yield _described(run, name)


def _described(run: Path, name: Path) -> tuple[str, str, object]:
    try:
        status = os.lstat(run / name)
    except OSError as e:
        return "lost", wire_name(name), str(e.strerror)
    if kind := other_kind(status.st_mode):
        return "other", wire_name(name), kind
    return "files", wire_name(name), status.st_size


def other_kind(mode: int) -> str:
    """Return what a file that is not regular is, empty for a regular one."""
    if stat.S_ISREG(mode):
        return ""
    kinds = ((stat.S_ISLNK, "symbolic link"), (stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"))
    return next((name for test, name in kinds if test(mode)), "special file")


def wire_name(name: Path) -> str:
    """Return a path of this file system as it travels, whatever the locale here is."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def local_path(run: Path, name: str) -> Path:
    return run / safe_relative(os.fsdecode(name.encode("utf-8", "surrogateescape")))


def send_files(wire: Wire, run: Path, wanted: list[Json]) -> None:
    """Send each file, in the order requested: a header, its bytes, and then their hash.

    A file that the client has with these bytes is `same`; `lost` is the reason for one that cannot
    be sent, or that could not be read to its end: then the bytes that follow are zeros.
    """
    for number, file in enumerate(wanted):
        try:
            with open_regular(local_path(run, file["path"])) as f:
                _send_file(wire, number, f, file["bytes"], file.get("sha256"))
        except (BrokenPipeError, EOFError):
            raise
        except OSError as e:
            wire.send({"file": number, "lost": str(e.strerror)}, more=True)
        except (Refused, ValueError) as e:
            wire.send({"file": number, "lost": str(e)}, more=True)


def _send_file(wire: Wire, number: int, file: BinaryIO, size: int, known: str | None) -> None:
    if known is not None and sha256_of(file, size) == known:
        wire.send({"file": number, "same": True}, more=True)
        return
    file.seek(0)
    sent = Sent(file, size)
    wire.send({"file": number, "bytes": size}, sent.chunks(), more=True)
    ending = {"lost": sent.trouble} if sent.trouble else {"sha256": sent.digest.hexdigest()}
    wire.send({"file": number, **ending}, more=True)


class Sent:
    """The first `size` bytes of a file on their way; `trouble` is why they are not all its own."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.left = size
        self.digest = hashlib.sha256()
        self.trouble = ""

    def chunks(self) -> Iterator[bytes]:
        """Yield as many bytes as were announced, also of a file that shrinks or fails meanwhile."""
        while self.left > 0:
            chunk = self._read(min(CHUNK, self.left)) or bytes(min(CHUNK, self.left))
            self.left -= len(chunk)
            self.digest.update(chunk)
            yield chunk

    def _read(self, size: int) -> bytes:
        if self.trouble:
            return b""
        try:
            chunk = self.file.read(size)
        except OSError as e:
            self.trouble = str(e.strerror)
            return b""
        if not chunk:
            self.trouble = f"it became shorter by {self.left} bytes while it was read"
        return chunk
