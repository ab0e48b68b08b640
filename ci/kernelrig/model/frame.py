"""Where an instruction comes from: a source line, and the calls that inlining removed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Frame:
    """A source line, and the function it stands in (mangled; empty where nobody says)."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        return f"{PurePosixPath(self.file).name}:{self.line} {self.function}".rstrip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instruction comes from: the chain of inlined calls, innermost first."""

    frames: tuple[Frame, ...] = ()

    def own(self, source: str) -> Frame:
        """Return the outermost frame in the file `source`; elsewhere the outermost there is.

        `source` is the file's path or the end of it: `kernel.cu` is found in `kernel/kernel.cu`.
        """
        held = [f for f in self.frames if _is_of(f, source)] or self.frames
        return held[-1] if held else Frame("", 0)

    def inner(self, source: str) -> Frame:
        """Return the innermost frame in the file `source`: the line of a function of its own that
        was inlined, where `own` is that function's call.
        """
        return next((f for f in self.frames if _is_of(f, source)), self.own(source))

    @property
    def text(self) -> str:
        """The whole chain: `ptx.cuh:88 mbarrier_try_wait, in kernel.cu:301 load_inputs, in ...`."""
        return ", in ".join(f.text for f in self.frames)


def _is_of(frame: Frame, source: str) -> bool:
    wanted = PurePosixPath(source).parts
    return PurePosixPath(frame.file).parts[-len(wanted) :] == wanted
