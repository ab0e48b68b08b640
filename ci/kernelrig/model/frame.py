"""A source line, and the chain of inlined calls that an instruction comes from."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

COMPILED_UNDER = "/proc/self/cwd"
"""Where kernelrig.build lets the compiler run, so that no binary contains the folder's own name."""


@cache
def source_path(path: str) -> str:
    """Return a path of a line table relative to the repository, if it was compiled from there."""
    path = posixpath.normpath(path) if path else ""
    return path.removeprefix(f"{COMPILED_UNDER}/")


@dataclass(frozen=True, slots=True)
class Frame:
    """A source line and the function it is in: as the binary names it, empty where unknown."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """`kernel.cu:301 load_inputs`."""
        return f"{PurePosixPath(self.file).name}:{self.line} {self.function}".rstrip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instruction comes from: the chain of inlined calls, innermost first.

    Which of its frames a report names is decided in kernelrig.findings.location.
    """

    frames: tuple[Frame, ...] = ()

    @property
    def text(self) -> str:
        """The whole chain: `ptx.cuh:88 mbarrier_try_wait, in kernel.cu:301 load_inputs, in ...`."""
        return ", in ".join(f.text for f in self.frames)
