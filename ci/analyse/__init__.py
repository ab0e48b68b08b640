"""From samples to statements: the order of processes, and what their times come to.

Pure functions on records of ci.model; NumPy is all they need besides.
"""

from ci.analyse.beside import LEAST_RUNS, beside, two_runs
from ci.analyse.compare import compare, noise_percent
from ci.analyse.order import interleave
from ci.analyse.surroundings import differences

__all__ = [
    "LEAST_RUNS",
    "beside",
    "compare",
    "differences",
    "interleave",
    "noise_percent",
    "two_runs",
]
