"""The sources of the native core as they were at one instant.

What is compiled must be what its name says: a file that changes while the compiler runs (an editor,
a rebase) changes nothing here.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "core"
_INCLUDE = re.compile(rb'^#include "([^"]+)"', re.MULTILINE)
_KINDS = ("*.cpp", "*.hpp", "*.h")


@dataclass(frozen=True, slots=True)
class CoreSources:
    """The content of each .cpp and .hpp, by its path below `root`."""

    root: Path
    files: dict[str, bytes]

    @property
    def units(self) -> tuple[str, ...]:
        """What is compiled."""
        return tuple(name for name in self.files if name.endswith(".cpp"))

    def included(self, unit: str) -> list[bytes]:
        """Return the content of a file and of each header of ours that it includes, at any depth.

        A header that is not there is left to the compiler, which says so.
        """
        found: set[str] = set()
        left = [unit]
        while left:
            name = left.pop()
            if name in found or name not in self.files:
                continue
            found.add(name)
            for said in _INCLUDE.findall(self.files[name]):
                beside = posixpath.normpath(posixpath.join(posixpath.dirname(name), said.decode()))
                left.append(beside if beside in self.files else posixpath.normpath(said.decode()))
        return [self.files[name] for name in sorted(found)]

    def write(self, folder: Path) -> None:
        """Write all files below `folder`, for the compiler. Raises OSError."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def whole(self) -> Iterator[str | bytes]:
        """Yield each path and its content."""
        for name, content in self.files.items():
            yield name
            yield content


def read_sources(root: Path = SOURCES) -> CoreSources:
    """Return the sources below `root` as they are now. Raises OSError."""
    files = {}
    for path in sorted(path for kind in _KINDS for path in root.rglob(kind)):
        with contextlib.suppress(FileNotFoundError):  # it has just been removed
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    return CoreSources(root, files)


def digest(*parts: str | bytes) -> str:
    """Return the SHA-256 of texts, each told apart from the next."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()
