"""Which line of the host code made a call: from the executable's debug information."""

from __future__ import annotations

import re
from pathlib import Path

from kernelrig.emu.cudart.messages import Callers
from kernelrig.errors import CiError
from kernelrig.files.regular_file import read_regular
from kernelrig.model.frame import COMPILED_UNDER
from kernelrig.proc import run_process

_MAX_SOURCE_BYTES = 16 << 20
_HEADERS = re.compile(
    r"/.*/(?:(?:cub|thrust|cuda|crt|cooperative_groups)/.+|cuda_\w+\.hp*|tmpxft_.+\.cudafe1\..+)"
)
"""CUDA's own, and what nvcc makes of templates, by their absolute paths: those of a program's
folder are relative to it."""
_POINTER = re.compile(
    r"(?:cuda|cu)(?:Malloc|MemAlloc|HostAlloc|(?:Mem)?HostRegister|StreamCreate)\w*\s*(?:<[^<>()]*>)?\s*\(\s*"
    r"(?:\(\s*void\s*\*\s*\*\s*\)|reinterpret_cast\s*<[^<>]*>\s*\(|\(CUdeviceptr\s*\*\))?\s*"
    r"&?\s*\(?\s*(?P<name>[A-Za-z_][\w.\[\]>-]*)"
)


class HostLines:
    """Lines of an executable; what cannot be found is empty. `base` is where it was loaded."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.base = 0
        self._known: dict[int, str] = {}
        self._sources: dict[str, list[str]] = {}
        self._calls: dict[str, dict[Callers, int]] = {}

    def place(self, callers: Callers) -> str:
        """Return `prog.cu:12` for a call; functions of CUDA's headers are looked behind."""
        for line in map(self._line, callers):
            if line and not _HEADERS.fullmatch(line.rpartition(":")[0]):
                return line
        return self._line(callers[0])

    def pointer(self, callers: Callers) -> str:
        """Return what a call writes its pointer to: `d_a` of `cudaMalloc(&d_a, n)`."""
        place = self.place(callers)
        found = _pointers(" ".join(self._lines_at(place)))
        # Of several calls in a line each has its own address, and they are made in their order.
        calls = self._calls.setdefault(place, {})
        which = calls.setdefault(callers, len(calls))
        return found[min(which, len(found) - 1)] if found else ""

    def stream(self, callers: Callers) -> str:
        """Return the stream that a call makes, if its line makes one alone."""
        lines = self._lines_at(self.place(callers))
        found = next(filter(None, map(_pointers, lines)), [])
        return found[0] if len(found) == 1 else ""

    def call(self, callers: Callers, names: str) -> str:
        """Return the call of CUDA's that is made there: `cudaMemcpyAsync`, of `Memcpy|Memset`."""
        text = "".join(self._lines_at(self.place(callers))[:1])
        found = re.search(rf"\bcu(?:da)?(?:{names})\w*", text)
        return found[0] if found else ""

    def _lines_at(self, place: str) -> list[str]:
        """Return the line and the one behind it, where a long call goes on; none if not known."""
        file, _, number = place.rpartition(":")
        return self._source(file)[int(number) - 1 : int(number) + 1] if file else []

    def _line(self, caller: int) -> str:
        if caller not in self._known:
            self._known[caller] = self._find(caller - self.base - 1) if caller else ""
        return self._known[caller]

    def _find(self, offset: int) -> str:
        if offset <= 0:
            return ""
        try:
            done = run_process(["addr2line", "-i", "-e", self._program, hex(offset)], timeout_s=60)
        except CiError:  # a machine without it: lines are for people, and the run goes on
            return ""
        # Of a function that was inlined its own line comes first, then where it was called.
        lines = [] if done.exit_code else [_known_line(one) for one in done.stdout.splitlines()]
        known = [one for one in lines if one]
        own = (one for one in known if not _HEADERS.fullmatch(one.rpartition(":")[0]))
        return next(own, known[0] if known else "")

    def _source(self, file: str) -> list[str]:
        if file not in self._sources:
            try:
                text = read_regular(Path(file), _MAX_SOURCE_BYTES).decode(errors="replace")
            except OSError:
                text = ""
            self._sources[file] = text.splitlines()
        return self._sources[file]


def _known_line(said: str) -> str:
    """Return a line of addr2line's as `prog.cu:12`, empty where it knows none."""
    file, _, number = said.partition(" ")[0].rpartition(":")
    if not file or not number.isdigit() or not int(number):
        return ""
    return f"{file.removeprefix(f'{COMPILED_UNDER}/')}:{number}"


def _pointers(text: str) -> list[str]:
    return [m["name"].replace("->", ".").rstrip("-.>") for m in _POINTER.finditer(text)]
