"""The sources of the native core as they were at one instant.

What is compiled must be what its name says: a file that changes while the compiler runs (an editor,
a rebase) changes nothing here.

The .cpp files of a folder are compiled as one, by a file that includes them all: the headers that
they share, and what the compiler makes of their templates, cost more than the rest. So no two of
them give one name to two things, in namespaces without a name either. Those at the top are compiled
one by one, or as one too.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "core"
_INCLUDE = re.compile(rb'^#include "([^"]+)"', re.MULTILINE)
_KINDS = ("*.cpp", "*.hpp", "*.h")


@dataclass(frozen=True, slots=True)
class CoreSources:
    """The content of each .cpp and .hpp, and of each file that stands for a folder, by its path.

    `units` are those that are compiled.
    """

    root: Path
    files: dict[str, bytes]
    units: tuple[str, ...]

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


def read_sources(root: Path = SOURCES, top: str | None = None) -> CoreSources:
    """Return the sources below `root` as they are now. Raises OSError.

    `top` names the unit of the files at the top, if they are one.
    """
    files = {}
    for path in sorted(path for kind in _KINDS for path in root.rglob(kind)):
        with contextlib.suppress(FileNotFoundError):  # it has just been removed
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    folders = dict(_of_folders(files, top))
    alone = () if top else (n for n in files if n.endswith(".cpp") and "/" not in n)
    return CoreSources(root, {**files, **folders}, (*folders, *alone))


def _of_folders(names: Iterable[str], top: str | None) -> Iterator[tuple[str, bytes]]:
    """Yield a file for each folder that has .cpp files, which includes them."""
    inside: dict[str, list[str]] = {}
    for name in names:
        folder = posixpath.dirname(name) or top
        if folder and name.endswith(".cpp"):
            inside.setdefault(folder.replace("/", "."), []).append(name)
    for folder, held in inside.items():
        yield f"{folder}.all.cpp", "".join(f'#include "{name}"\n' for name in held).encode()


def digest(*parts: str | bytes) -> str:
    """Return the SHA-256 of texts, each told apart from the next."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()
