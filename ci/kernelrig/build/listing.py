"""The table of builds that the terminal shows."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrig.model import Build

_HEAD = ("kernel", "arch", "variant", "registers", "spills", "shared memory", "seconds")


def table(builds: Sequence[Build]) -> str:
    """Return a row per build; spills are bytes per thread, shared memory static bytes per CTA."""
    rows = [_HEAD, *(_row(build) for build in builds)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _row(build: Build) -> tuple[str, ...]:
    names = (build.kernel, build.arch, build.variant)
    seconds = "unchanged" if build.reused else f"{build.compile_s:.1f}"
    if not build.resources:
        return (*names, "-", "-", "-", seconds)
    # The kernel named by kernel_regex stands first; functions it may call have no registers of
    # their own. The harness's kernels are in resources.json, and nobody's worry here.
    first = build.resources[0]
    of_kernel = [first, *(f for f in build.resources[1:] if not f.registers)]
    spills = sum(f.spill_store_bytes + f.spill_load_bytes for f in of_kernel)
    return (*names, str(first.registers), str(spills), str(first.shared_bytes), seconds)
