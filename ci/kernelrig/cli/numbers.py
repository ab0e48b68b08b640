"""Numbers as flags: Invoke answers `abc` for a flag that is an int with a traceback."""

from __future__ import annotations

import re

from kernelrig.errors import ConfigError


def number(flag: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,6})?", text):
        raise ConfigError(f"--{flag} must be a number, 0 or more, not '{text}'")
    return float(text)


def whole_number(flag: str, text: str, unit: str = "") -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text):
        of = f" of {unit}" if unit else ""
        raise ConfigError(f"--{flag} must be a whole number{of}, 0 or more, not '{text}'")
    return int(text)


def optional_number(flag: str, text: str) -> float | None:
    """Return None for a flag that was not given."""
    return number(flag, text) if text else None


def optional_whole_number(flag: str, text: str) -> int | None:
    return whole_number(flag, text) if text else None
