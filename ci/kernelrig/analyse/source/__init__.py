"""Counters by instruction: reading them, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.analyse.source.counter_page import read_counter_page
    from kernelrig.analyse.source.report_counters import EXECUTED, launch_counters
    from kernelrig.analyse.source.source_analysis import TOP, analyse_source, static_layout

__all__ = [
    "EXECUTED",
    "TOP",
    "analyse_source",
    "launch_counters",
    "read_counter_page",
    "static_layout",
]

__getattr__ = lazy_exports(__name__)
