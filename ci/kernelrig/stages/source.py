"""The sources behind a build, as they were when it was compiled."""

from __future__ import annotations

from pathlib import Path

from kernelrig.files.rundir import sha256_file
from kernelrig.model import Build
from kernelrig.stages.context import Context
from kernelrig.stages.findings import LineText


def source_key(file: str, build: Build) -> str:
    """Return the build's own name of a file that a tool calls by its path elsewhere, or that path.

    The builder may be another machine than this one: its absolute paths mean nothing here.
    """
    keys = [k for k in build.inputs if file == k or file.endswith("/" + k.lstrip("./"))]
    return max(keys, key=len, default=file)


def source_lines(context: Context) -> LineText:
    """Return what looks up a source line, in files that are still as the build read them."""
    texts: dict[str, list[str]] = {}

    def load(file: str) -> list[str]:
        key = source_key(file, context.build)
        wanted = context.build.inputs.get(key)
        path = (context.source_root or Path()) / key
        if context.source_root is None or wanted is None or not path.is_file():
            return []
        return path.read_text(errors="replace").split("\n") if sha256_file(path) == wanted else []

    def line_text(file: str, line: int) -> str:
        if file not in texts:
            texts[file] = load(file)
        lines = texts[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    return line_text
