"""Two measurements of a kernel compared: profiles, source pages, phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.analyse.comparison.compared_sides import compare_sides
    from kernelrig.analyse.comparison.metric_table import is_metric_table, read_metric_table
    from kernelrig.analyse.comparison.side import phase_side, profile_side, source_side

__all__ = [
    "compare_sides",
    "is_metric_table",
    "phase_side",
    "profile_side",
    "read_metric_table",
    "source_side",
]

__getattr__ = lazy_exports(__name__)
