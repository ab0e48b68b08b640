"""What this package is, by its content: what builds commands, executes and judges."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from kernelrig.files.rundir import sha256_file

PACKAGE = Path(__file__).parents[1]
_MADE = {"__pycache__", "prebuilt"}
"""Folders of what is made of its files: libraries of the core are, by a compiler of their host."""


@cache
def package_digest() -> str:
    """Return a hash of all files of this package as it is installed here."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        relative = path.relative_to(PACKAGE)
        if path.is_file() and not _MADE & {*relative.parts}:
            digest.update(f"{relative.as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()
