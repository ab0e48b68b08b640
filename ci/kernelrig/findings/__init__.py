"""What any tool found: location, fingerprint, acceptance and source lines of a finding.

The same for sanitizers, the emulator and static rules; the records are `kernelrig.model`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.findings.acceptance import Acceptance, describe
    from kernelrig.findings.emulator_finding import EMULATOR, emulated_finding
    from kernelrig.findings.fingerprints import (
        fingerprint,
        frame_parts,
        number_equal,
        number_lines,
        without_numbers,
    )
    from kernelrig.findings.location import locate
    from kernelrig.findings.sources import Sources

__all__ = [
    "EMULATOR",
    "Acceptance",
    "Sources",
    "describe",
    "emulated_finding",
    "fingerprint",
    "frame_parts",
    "locate",
    "number_equal",
    "number_lines",
    "without_numbers",
]

__getattr__ = lazy_exports(__name__)
