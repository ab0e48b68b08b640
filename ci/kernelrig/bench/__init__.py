"""Benchmark statistics: the order of measurement slots, and comparisons of the measured times.

Pure functions on records of kernelrig.model; NumPy and SciPy are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.bench.against_baseline import MIN_RUNS, compare_runs, compare_with_baseline
    from kernelrig.bench.environment import differences
    from kernelrig.bench.pair import compare, noise_percent
    from kernelrig.bench.slots import candidate_letters, interleave, interleave_groups, relays

__all__ = [
    "MIN_RUNS",
    "candidate_letters",
    "compare",
    "compare_runs",
    "compare_with_baseline",
    "differences",
    "interleave",
    "interleave_groups",
    "noise_percent",
    "relays",
]

__getattr__ = lazy_exports(__name__)
