"""What any tool found: location, fingerprint, acceptance and source lines of a finding.

The same for sanitizers, the emulator and static rules; the records are `kernelrig.model`'s.
"""

from kernelrig.findings.location import locate

__all__ = ["locate"]
