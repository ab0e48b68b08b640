"""Sweeps: sets of tunables, tried without a GPU first, then raced on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.sweep.conduct import run_sweep
    from kernelrig.sweep.dry_run import describe_sweep
    from kernelrig.sweep.set_choice import SweepRequest
    from kernelrig.sweep.set_comparison import explain_sets
    from kernelrig.sweep.sweep_files import render_sweep

__all__ = ["SweepRequest", "describe_sweep", "explain_sets", "render_sweep", "run_sweep"]

__getattr__ = lazy_exports(__name__)
