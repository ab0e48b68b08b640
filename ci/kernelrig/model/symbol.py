"""Function names in binaries, as ncu and the user write them."""

from __future__ import annotations

import re

NEVER_RETURN = frozenset({"__assertfail"})
"""Driver functions that end the program: what follows the call is padding or another warp role."""


def base_name(mangled: str) -> str:
    """Return the last identifier of a mangled name: what `ncu -k` and users call the function."""
    if not mangled.startswith("_Z"):
        return mangled
    rest = re.sub(r"^_Z(?:N[KVr]*)?", "", mangled)
    name = ""
    while number := re.match(r"L?(\d+)", rest):
        start = number.end()
        name, rest = rest[start : start + int(number[1])], rest[start + int(number[1]) :]
        if not mangled.startswith("_ZN"):
            break
    return name or mangled


def is_called(pattern: str, mangled: str) -> bool:
    """Whether the regular expression of kernels.yaml matches the function's name."""
    return bool(re.search(pattern, base_name(mangled)))
