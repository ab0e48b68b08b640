"""A row of the table of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ISA_VERSION = "9.1"
"""The edition of the PTX ISA that `section` counts in."""


@dataclass(frozen=True, slots=True)
class IsaRule:
    """`text` is the rule, `why` what happens where it is broken, `fix` what to write instead."""

    name: str
    section: str
    text: str
    why: str
    fix: str
    severity: Literal["error", "warning"] = "error"
    code: str = ""

    @property
    def reason(self) -> str:
        """Why, with the section."""
        return f"{self.why} (PTX ISA {ISA_VERSION}, {self.section})"
