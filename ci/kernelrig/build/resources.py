"""The resources of a kernel from ptxas -v, and the driver that its runtime requires."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelrig.errors import ProtocolError
from kernelrig.model import FunctionResources
from kernelrig.model.symbol import is_called

_PROPERTIES = re.compile(r"Function properties for (?:'(?P<quoted>[^']+)'|(?P<name>\S+))")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")

_DRIVER_OF_CUDA = {11: 450, 12: 525, 13: 580}
"""Minor-version compatibility: a driver of the major release runs every toolkit of that release."""

_DRIVER_OF_ARCH = {"sm_100": 570, "sm_120": 570, "sm_103": 575, "sm_121": 575}
"""The first driver that supports a GPU of the arch, where later than the toolkit's own."""


def parse_ptxas_log(log: str, first: str = "") -> tuple[FunctionResources, ...]:
    """Return the functions of a `ptxas -v` log, those that the pattern `first` finds in front.

    Functions that are called, not launched, have a frame and spills but no registers of their own.
    """

    def comes_later(function: FunctionResources) -> bool:
        return not (first and is_called(first, function.name))

    return tuple(sorted(_functions(log), key=comes_later))


def minimum_driver(cuda_version: str, arch: str) -> str:
    """Return the oldest driver branch for a binary with that runtime and code for `arch` alone."""
    major = int(cuda_version.split(".")[0])
    of_cuda = _DRIVER_OF_CUDA.get(major, max(_DRIVER_OF_CUDA.values()))
    return str(max(of_cuda, _DRIVER_OF_ARCH.get(arch.rstrip("af"), 0)))


def _functions(log: str) -> Iterator[FunctionResources]:
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if not (found := _PROPERTIES.search(line)):
            continue
        # The frame is on the next line, the registers follow where the function is a kernel.
        frame = _STACK.search(lines[number + 1]) if number + 1 < len(lines) else None
        if not frame:
            raise ProtocolError(f"ptxas -v gives no stack frame after '{line.strip()}'")
        used = lines[number + 2] if number + 2 < len(lines) else ""
        registers, barriers = _USED.search(used), _BARRIERS.search(used)
        shared = _SHARED.search(used)
        yield FunctionResources(
            name=found["quoted"] or found["name"],
            registers=int(registers[1]) if registers else 0,
            stack_bytes=int(frame[1]),
            spill_store_bytes=int(frame[2]),
            spill_load_bytes=int(frame[3]),
            shared_bytes=sum(int(n) for n in shared.groups("0")) if shared else 0,
            barriers=int(barriers[1]) if barriers else 0,
        )
