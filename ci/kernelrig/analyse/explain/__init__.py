"""What a profiled launch is bound by, what costs it time, and what removing that may gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.analyse.explain.launch_explanation import explain_launch, join_launches

__all__ = ["explain_launch", "join_launches"]

__getattr__ = lazy_exports(__name__)
