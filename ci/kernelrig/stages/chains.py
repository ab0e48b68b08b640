"""The inlined chain of an instruction that a tool names by its innermost frame alone.

A racecheck record holds a function, a line and an offset: `wait` at `wait.cuh:22`, not who waits.
So does cuda-gdb's list of threads. The disassembly kept with the build has the whole chain at that
offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kernelrig.errors import CiError
from kernelrig.model import Build
from kernelrig.model.frame import Frame
from kernelrig.model.symbol import is_called
from kernelrig.ptx import parse_ptx
from kernelrig.sass import Blocking, Function, Module, blocking, parse_sass


@dataclass(slots=True)
class Chains:
    """The chains in a build's disassembly, read when the first one is wanted.

    `kernel` is the regular expression of the kernels that the program launches.
    """

    build: Build
    kernel: str = ""
    _modules: list[Module] | None = field(default=None, init=False)

    def resolve(self, frame: Frame, offset: int) -> tuple[Frame, ...]:
        """Return the chain at `offset` whose innermost line is the frame's; else the frame alone.

        Offsets count from the start of a kernel, and the record does not name the kernel: a chain
        is taken if it is the only one that agrees on the line.
        """
        found = {
            i.place.frames
            for function in self.functions
            if is_called(self.kernel, function.section)
            for i in function.instructions
            if i.address == offset and _agrees(i.place.frames, frame)
        }
        if len(found) != 1:
            return (frame,)
        (inner, *outer) = found.pop()
        return (Frame(inner.file, inner.line, frame.function), *outer)

    def at(self, section: str, offset: int) -> tuple[Frame, ...]:
        """Return the chain at `offset` of the function in `section`; empty if it is not there."""
        found = (
            i.place.frames
            for function in self.functions
            if function.section == section
            for i in function.instructions
            if i.address == offset
        )
        return next(found, ())

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the functions in the build's disassembly."""
        if self._modules is None:
            self._modules = self._read()
        return tuple(f for module in self._modules for f in module.functions)

    def waits(self) -> dict[str, tuple[Blocking, ...]]:
        """Return where a warp of the kernels that are launched can wait, by section."""
        found: dict[str, tuple[Blocking, ...]] = {}
        for function in self.functions:
            if is_called(self.kernel, function.section):
                held = found.get(function.section, ())
                found[function.section] = (*held, *blocking(function))
        return found

    def _read(self) -> list[Module]:
        """Return the disassembly; without one the tool's own frame is all that there is."""
        program = self.build.binary
        try:
            sass = program.with_name(f"{program.name}.sass").read_text(errors="replace")
            return [parse_sass(sass, self._functions())]
        except (OSError, CiError):
            return []

    def _functions(self) -> dict[tuple[str, int], str]:
        """Return the function of each source line: the disassembly names lines alone."""
        path = self.build.binary.with_name(f"{self.build.program}.ptx")
        if not path.is_file():
            return {}
        return parse_ptx(path.read_text(errors="replace"), path.name).named_lines


def _agrees(chain: tuple[Frame, ...], frame: Frame) -> bool:
    if not chain:
        return False
    name = PurePosixPath(chain[0].file).name
    return (name, chain[0].line) == (PurePosixPath(frame.file).name, frame.line)
