"""Whole numbers in the text of a log, which a program or a host may make as long as it likes."""

from __future__ import annotations

_DIGITS = 18
"""More than any count, line or address of a machine has; Python refuses to read 4,301."""


def whole_number(text: str) -> int:
    """Return the number in a text of decimal digits and commas, of a longer one its first 18."""
    return int(text.replace(",", "").lstrip("0")[:_DIGITS] or "0")
