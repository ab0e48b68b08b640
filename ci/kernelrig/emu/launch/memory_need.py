"""What memory a large launch takes, and what there is: said before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from kernelrig.emu.launch.element_types import DTYPES
from kernelrig.emu.launch.file import LaunchEntry
from kernelrig.errors import ConfigError

GB = 10**9
_BASE = 600 << 20
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")


def memory_need(entry: LaunchEntry, observe: Sequence[str], jobs: int) -> int:
    """Return about how many bytes an emulation takes in `jobs` processes at a time.

    A byte that is filled takes another one, the mark that it is written; they are there once. A
    byte that the launch writes takes in each process itself, its mark, and what observers know of
    it. Which buffers it writes is taken from what is undefined before or expected afterwards.
    """
    sizes = {n: math.prod(b.shape) * DTYPES[b.dtype].itemsize for n, b in entry.buffers.items()}
    total = sum(sizes.values())
    filled = sum(sizes[n] for n, b in entry.buffers.items() if b.fill.kind != "undefined")
    undefined = {n for n, b in entry.buffers.items() if b.fill.kind == "undefined"}
    written = sum(sizes[n] for n in undefined | entry.expect.keys())
    each = 2 * written + (total // 4 if entry.expect else 0)
    each += written if "memory" in observe else 0
    each += written + 6 * total // 5 if "races" in observe else 0
    return 2 * filled + jobs * (each + _BASE)


def require_memory(entry: LaunchEntry, observe: Sequence[str], jobs: int) -> str:
    """Return a sentence on what is needed and what is free. ConfigError if it is not enough."""
    need, free = memory_need(entry, observe, jobs), free_bytes()
    said = f"about {need / GB:.1f} GB of memory for {jobs} at a time, {free / GB:.1f} GB are free"
    if need > free:
        advice = "emulate a smaller launch, or pass fewer observers"
        advice += " or --jobs 1" if jobs > 1 else ""
        raise ConfigError(f"the launch needs {said}", advice)
    return said


def free_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP, cgroups: Path = _CGROUPS) -> int:
    """Return the bytes that processes may still take: of this machine, and of its control groups.

    0 where the system does not say.
    """
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError, IndexError):
        return 0
    try:
        own = cgroup.read_text().rpartition("0::")[2].strip().lstrip("/")
        folder = cgroups / own
        while folder != cgroups.parent:
            free = min(free, _left(folder, free))
            folder = folder.parent
    except OSError:
        pass
    return free


def _left(folder: Path, otherwise: int) -> int:
    """Return the bytes that a control group may still take."""
    try:
        most = int((folder / "memory.max").read_text())
        return max(most - int((folder / "memory.current").read_text()), 0)
    except (OSError, ValueError):  # no such file at the root; "max" is no limit
        return otherwise
