"""Values of flags that are numbers or lists of names: Invoke passes them as text.

(Of a flag that is declared an int it would answer `abc` with a traceback.)
"""

from __future__ import annotations

import re

from kernelrig.errors import ConfigError

_LARGEST = 9_999_999
"""The largest number of any flag: seven digits, as the patterns below have."""


def number(flag: str, text: str) -> float:
    """Return the value of --`flag`; ConfigError if it is not a number from 0 to 9999999."""
    if not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,6})?", text):
        raise ConfigError(f"--{flag} must be a number from 0 to {_LARGEST}, not '{text}'")
    return float(text)


def whole_number(flag: str, text: str, unit: str = "") -> int:
    """Return the value of --`flag`; ConfigError if it is not a whole number from 0 to 9999999."""
    if not re.fullmatch(r"[0-9]{1,7}", text):
        of = f" of {unit}" if unit else ""
        raise ConfigError(f"--{flag} must be a whole number{of} from 0 to {_LARGEST}, not '{text}'")
    return int(text)


def number_list(flag: str, text: str) -> tuple[int, ...]:
    """Return the numbers, from 1, in the value of --`flag`, none for a flag that was not given."""
    found = tuple(whole_number(flag, word) for word in name_list(flag, text))
    if 0 in found:
        raise ConfigError(f"--{flag}: numbers start at 1")
    return found


def optional_number(flag: str, text: str) -> float | None:
    """Return None for a flag that was not given."""
    return number(flag, text) if text else None


def optional_whole_number(flag: str, text: str) -> int | None:
    """Return None for a flag that was not given."""
    return whole_number(flag, text) if text else None


def optional_seed(flag: str, text: str) -> int | None:
    """Return None for a flag that was not given, else a seed as a run draws it."""
    if not text:
        return None
    from kernelrig.model import DRAWN_BITS  # the list of tasks is made without the records

    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >> DRAWN_BITS:
        last = (1 << DRAWN_BITS) - 1
        raise ConfigError(f"--{flag} must be a whole number from 0 to {last}, not '{text}'")
    return int(text)


def name_list(flag: str, text: str) -> tuple[str, ...]:
    """Return the names in the value of --`flag`, empty for a flag that was not given.

    ConfigError for a value without a name: `,` would otherwise mean the same as no flag.
    """
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if text and not names:
        raise ConfigError(f"--{flag} must be names separated by commas, not '{text}'")
    return names


def named_values(flag: str, text: str) -> dict[str, str]:
    """Return the values of `A=1,B=2` by name; ConfigError for a part without a name or a value."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name or not value:
            raise ConfigError(f"--{flag} must be NAME=VALUE, separated by commas, not '{part}'")
        if name in found:
            raise ConfigError(f"--{flag}: '{name}' is given twice")
        found[name] = value
    if text and not found:
        raise ConfigError(f"--{flag} must be NAME=VALUE, separated by commas, not '{text}'")
    return found
