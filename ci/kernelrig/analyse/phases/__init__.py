"""Phases of a timing build: reading them, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.analyse.phases.clock_text import read_clock_text
    from kernelrig.analyse.phases.phase_analysis import analyse_phases, phase_facts
    from kernelrig.analyse.phases.phase_names import roles_of
    from kernelrig.analyse.phases.projection import parse_changes

__all__ = ["analyse_phases", "parse_changes", "phase_facts", "read_clock_text", "roles_of"]

__getattr__ = lazy_exports(__name__)
