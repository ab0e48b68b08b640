"""What was built, in one table for people."""

from __future__ import annotations

from collections.abc import Sequence

from ci.model import Build

_HEAD = ("kernel", "arch", "variant", "registers", "spills", "shared memory", "seconds")


def table(builds: Sequence[Build]) -> str:
    """Return a row a build: registers of the kernel's own function, bytes spilled, bytes shared."""
    rows = [_HEAD, *(_row(build) for build in builds)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _row(build: Build) -> tuple[str, ...]:
    names = (build.kernel, build.arch, build.variant)
    seconds = "unchanged" if build.reused else f"{build.compile_s:.1f}"
    if not build.resources:
        return (*names, "-", "-", "-", seconds)
    # The kernel named by kernel_regex stands first; spills count wherever they are.
    spills = sum(f.spill_store_bytes + f.spill_load_bytes for f in build.resources)
    first = build.resources[0]
    return (*names, str(first.registers), str(spills), str(first.shared_bytes), seconds)
