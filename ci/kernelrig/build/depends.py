"""The inputs of a build: the headers included, and paths where a new file would replace one.

Project headers count by their content; headers of the toolkit and of the system count through the
versions of nvcc and g++. A new header in a folder that #include searches earlier would
replace the one included so far, so files with such names are recorded with a build (`shadows`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.command import CWD, Request
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Toolchain


@dataclass(frozen=True, slots=True)
class Depends:
    """The headers of one build, relative to the root; `request` is the key of its command."""

    request: str
    project: tuple[str, ...]
    foreign: tuple[str, ...]
    shadows: tuple[str, ...]
    schema: int = 1


def read_depends(
    text: str, request: Request, request_key: str, tools: Toolchain, root: Path
) -> Depends:
    """Read what -MD wrote. Libraries given as files are inputs as well."""
    _, _, names = text.partition(" : ") if " : " in text else text.partition(": ")
    words = re.split(r"(?<!\\)\s+", names.replace("\\\n", " ").strip())
    paths = [_tidy(word.replace("\\ ", " ").replace("$$", "$"), root) for word in words if word]
    paths += [_tidy(lib, root) for lib in request.way.libs if (root / lib).is_file()]
    homes = (_tidy(str(home), root) for home in (tools.root, *tools.extras.values()))
    foreign_roots = ("/usr/", "/lib/", "/opt/rh/", *(f"{home}/" for home in homes))
    foreign = {path for path in paths if path.startswith(foreign_roots)}
    project = {*paths, request.source} - foreign
    return Depends(
        request_key,
        tuple(sorted(project)),
        tuple(sorted(foreign)),
        find_shadows(root, project, foreign, _include_dirs(request.way.nvcc_flags)),
    )


def hash_inputs(root: Path, names: Sequence[str]) -> dict[str, str] | None:
    """Return name -> SHA-256 of each input; None if one is gone."""
    try:
        return {name: sha256_file(root / name) for name in names}
    except OSError:
        return None


def is_current(depends: Depends, request: Request, root: Path) -> bool:
    """Return whether no file has appeared that an #include would now find instead."""
    dirs = _include_dirs(request.way.nvcc_flags)
    return depends.shadows == find_shadows(root, depends.project, depends.foreign, dirs)


def find_shadows(
    root: Path, project: Collection[str], foreign: Collection[str], include_dirs: Sequence[str]
) -> tuple[str, ...]:
    """Return the files named like an included one in folders that #include searches first."""
    used = {*project, *foreign}
    by_first: dict[str, set[str]] = {}
    for path in used:
        parts = path.split("/")
        for length in (1, 2, 3):
            by_first.setdefault(parts[-length:][0], set()).add("/".join(parts[-length:]))
    found = set()
    for folder in {*(path.rpartition("/")[0] for path in project), *include_dirs}:
        try:
            present = [p.name for p in (root / folder).iterdir()]
        except OSError:
            continue
        for first in present:
            for tail in by_first.get(first, ()):
                candidate = os.path.normpath(f"{folder or '.'}/{tail}")
                if candidate not in used and (root / candidate).is_file():
                    found.add(candidate)
    return tuple(sorted(found))


def _tidy(path: str, root: Path) -> str:
    path = os.path.normpath(path.removeprefix(f"{CWD}/"))
    return path.removeprefix(f"{root}/")


def _include_dirs(flags: Sequence[str]) -> tuple[str, ...]:
    line = " ".join(flags)
    return tuple(re.findall(r"(?:^|\s)(?:-I|-isystem|--include-path)[= ]?(\S+)", line))
