"""report.html of a run: one file, which fetches nothing and executes nothing of what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.report.page.content import Content, TimedSamples
    from kernelrig.report.page.drawing import draw_charts
    from kernelrig.report.page.whole_page import PAGE, charts_of, render_page

__all__ = ["PAGE", "Content", "TimedSamples", "charts_of", "draw_charts", "render_page"]

__getattr__ = lazy_exports(__name__)
