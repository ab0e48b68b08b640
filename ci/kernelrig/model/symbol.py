"""The names of functions in binaries, as people and tools call them."""

from __future__ import annotations

import re

NEVER_RETURN = frozenset({"__assertfail"})
"""Functions of the driver's that end the program. What nvcc writes behind their call is padding, or
another role's code.
"""


def base_name(mangled: str) -> str:
    """Return a function's own name out of its mangled one: what `ncu -k` and the user call it."""
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
    """Say whether the regular expression of kernels.yaml means the function."""
    return bool(re.search(pattern, base_name(mangled)))
