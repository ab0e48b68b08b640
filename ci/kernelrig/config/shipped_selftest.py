"""The kernel with seeded bugs for projects that have none of their own: it comes with the package.

Its sources are put among the project's artifacts, as every build is one of files of its project.
"""

from __future__ import annotations

import os
from pathlib import Path

from kernelrig.config.load import KERNELS
from kernelrig.config.schema import ARCHS
from kernelrig.config.selection import SELFTEST
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Kernel, Variant

SOURCES = Path(__file__).parents[1] / "selftest"
PLACE = Path("artifacts/selftest")


def shipped_selftest(root: Path) -> Kernel:
    """Write the self-test's sources below `root` where they are not, and return its kernel."""
    for path in SOURCES.iterdir():
        wanted, there = path.read_bytes(), root / PLACE / path.name
        if not there.is_file() or there.read_bytes() != wanted:
            write_atomic(there, wanted)
    source = os.path.relpath(PLACE / f"{SELFTEST}.cu", Path(KERNELS).parent)
    return Kernel(
        SELFTEST,
        dict.fromkeys(ARCHS, source),
        {"production": Variant("production", SELFTEST)},
        level=0,
        kernel_regex="selftest_.*",
        label="one seeded bug per sanitizer tool",
        args=("none",),
        expected_lines=("selftest_none ran to its end",),
    )
