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
_HEADERS = re.compile(r"/.*/(?:(?:cub|thrust|cuda|crt|cooperative_groups)/.+|cuda_\w+\.hp*)")
"""CUDA's own, by their absolute paths: those of a program's folder are relative to it."""
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
        """Return what a call writes its pointer or stream to: `d_a` of `cudaMalloc(&d_a, n)`."""
        place = self.place(callers)
        file, _, number = place.rpartition(":")
        if not file:
            return ""
        lines = self._source(file)
        text = " ".join(lines[int(number) - 1 : int(number) + 1])
        found = [m["name"].replace("->", ".").rstrip("-.>") for m in _POINTER.finditer(text)]
        # Of several calls in a line each has its own address, and they are made in their order.
        calls = self._calls.setdefault(place, {})
        which = calls.setdefault(callers, len(calls))
        return found[min(which, len(found) - 1)] if found else ""

    def call(self, callers: Callers, names: str) -> str:
        """Return the call of CUDA's that is made there: `cudaMemcpyAsync`, of `Memcpy|Memset`."""
        file, _, number = self.place(callers).rpartition(":")
        lines = self._source(file)[int(number) - 1 : int(number) + 1] if file else []
        found = re.search(rf"\bcu(?:da)?(?:{names})\w*", " ".join(lines))
        return found[0] if found else ""

    def _line(self, caller: int) -> str:
        if caller not in self._known:
            self._known[caller] = self._find(caller - self.base - 1) if caller else ""
        return self._known[caller]

    def _find(self, offset: int) -> str:
        if offset <= 0:
            return ""
        try:
            done = run_process(["addr2line", "-e", self._program, hex(offset)], timeout_s=60)
        except CiError:  # a machine without it: lines are for people, and the run goes on
            return ""
        file, _, number = done.stdout.strip().partition(" ")[0].rpartition(":")
        if done.exit_code or not file or not number.isdigit() or not int(number):
            return ""
        return f"{file.removeprefix(f'{COMPILED_UNDER}/')}:{number}"

    def _source(self, file: str) -> list[str]:
        if file not in self._sources:
            try:
                text = read_regular(Path(file), _MAX_SOURCE_BYTES).decode(errors="replace")
            except OSError:
                text = ""
            self._sources[file] = text.splitlines()
        return self._sources[file]
