"""From samples to statements: the order of processes, and what their times come to.

Pure functions on records of kernelrig.model; NumPy is all they need besides.
"""

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
