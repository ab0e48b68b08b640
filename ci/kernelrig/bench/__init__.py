"""From samples to statements: the order of processes, and what their times come to.

Pure functions on records of kernelrig.model; NumPy is all they need besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.bench.against_baseline import LEAST_RUNS, beside, two_runs
    from kernelrig.bench.environment import differences
    from kernelrig.bench.pair import compare, noise_percent
    from kernelrig.bench.slots import interleave

__all__ = [
    "LEAST_RUNS",
    "beside",
    "compare",
    "differences",
    "interleave",
    "noise_percent",
    "two_runs",
]

__getattr__ = lazy_exports(__name__)
