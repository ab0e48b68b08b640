"""Versions of tools, cached in a file: a warm start runs no tool."""

from __future__ import annotations

import re
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.rundir import write_json
from kernelrig.proc import run_process


class Versions:
    """Versions kept in a file, keyed by the tool's path and valid for its size and time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            seen = strict_json.load(path)
        except (OSError, ValueError):  # absent or damaged: the tools are run again
            seen = {}
        self._seen: dict[str, dict[str, str]] = seen if isinstance(seen, dict) else {}

    def of(self, tool: Path, pattern: str) -> str:
        """Return group 1 of `pattern` in what `tool --version` prints."""
        # Through links: an update of g++ changes the file at their end.
        real = tool.resolve()
        status = real.stat()
        stamp = f"{real} {status.st_size} {status.st_mtime_ns}"
        known = self._seen.get(str(tool))
        if isinstance(known, dict) and known.get("stamp") == stamp and "version" in known:
            return known["version"]
        done = run_process([tool, "--version"], timeout_s=60)
        found = re.search(pattern, done.stdout, re.MULTILINE)
        if done.exit_code or not found:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
            raise ProtocolError(
                f"{tool} --version exits {done.exit_code} and prints no version: {lines[0]}",
                "is another program installed under that name?",
            )
        self._seen[str(tool)] = {"stamp": stamp, "version": found[1]}
        write_json(self._path, self._seen)
        return found[1]
