"""The table of builds that `build` prints."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrig.model import Build
from kernelrig.terminal.text import columns

# Short names: with the longest kernel and variant of ours a row still fits 80 columns.
_HEAD = ("kernel", "arch", "variant", "regs", "spills", "smem bytes", "seconds")


def table(builds: Sequence[Build]) -> str:
    """Return a row per build: registers and bytes of spills per thread, static bytes of shared
    memory per CTA, and the seconds that it took to compile.
    """
    return columns([_HEAD, *map(_row, builds)])


def _row(build: Build) -> tuple[str, ...]:
    names = (build.kernel, build.arch, build.variant)
    seconds = "unchanged" if build.reused else f"{build.compile_s:.1f}"
    if not build.resources:
        return (*names, "-", "-", "-", seconds)
    first = build.resources[0]
    return (*names, str(first.registers), str(build.spill_bytes), str(first.shared_bytes), seconds)
