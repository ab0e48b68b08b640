"""The sources behind a build, as they were when it was compiled: their names and their lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kernelrig.files.rundir import sha256_file
from kernelrig.model import Build, Finding
from kernelrig.model.frame import Frame, source_path


@dataclass(slots=True)
class Sources:
    """The files that a build was compiled from, in the tree at `root`; None where there is none."""

    build: Build
    root: Path | None = None
    _texts: dict[str, list[str]] = field(default_factory=dict)

    def name(self, file: str) -> str:
        """Return a file's path relative to the repository; unchanged if it is no input.

        Tools name files by the builder's absolute path, which may be another machine's, or by the
        last part of the path alone.
        """
        file = source_path(file)
        inputs = self.build.inputs
        whole = [k for k in inputs if file == k or file.endswith("/" + k.lstrip("./"))]
        if whole or "/" in file:
            return max(whole, key=len, default=file)
        named = [k for k in inputs if PurePosixPath(k).name == file]
        return named[0] if len(named) == 1 else file

    def frame(self, frame: Frame) -> Frame:
        """Return the frame with its file relative to the repository."""
        return Frame(self.name(frame.file), frame.line, frame.function)

    def text(self, finding: Finding) -> str:
        """Return the text of the line that the finding is located at, without its indentation."""
        return self.line(finding.file, finding.line).strip()

    def line(self, file: str, line: int) -> str:
        """Return the text of a line, empty where the file is gone or is not what was compiled."""
        if file not in self._texts:
            self._texts[file] = self._load(self.name(file))
        lines = self._texts[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def _load(self, name: str) -> list[str]:
        wanted = self.build.inputs.get(name)
        path = (self.root or Path()) / name
        if self.root is None or wanted is None or not path.is_file():
            return []
        return path.read_text(errors="replace").split("\n") if sha256_file(path) == wanted else []
