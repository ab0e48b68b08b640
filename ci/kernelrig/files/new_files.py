"""Writing files that must all be new: every one of them, or none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def conflicts(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Return what keeps `texts` (by names relative to `root`) from being written.

    A file that has that very text already is none, and `write_new` leaves it as it is.
    """
    found = (_conflict(root, name, text) for name, text in texts.items())
    return list(dict.fromkeys(c for c in found if c))


def write_new(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Write each of `texts` that is not there, and return their names.

    OSError where one cannot be written; FileExistsError where one has come since `conflicts`. Then
    the files that were written before it are removed again.
    """
    made: list[Path] = []
    names = [name for name in texts if not os.path.lexists(root / name)]
    try:
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as f:
                made.append(path)
                f.write(texts[name])
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise
    return names


def _conflict(root: Path, name: str, text: str) -> str:
    path = root / name
    above = path.parent
    while above != root and not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        return f"{above.relative_to(root)} is not a folder"
    if not os.path.lexists(path):
        return ""
    if path.is_symlink() or not path.is_file():
        return f"{name} is there and is not a regular file"
    same = path.stat().st_size == len(text.encode()) and path.read_bytes() == text.encode()
    return "" if same else f"{name} is there, with another text"
