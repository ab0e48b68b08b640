"""Demangled function names for reports; findings and fingerprints keep the mangled ones."""

from __future__ import annotations

import re
from functools import cache

from kernelrig.model.symbol import base_name

_MANGLED = re.compile(r"\b_Z[\w$.]+")
_LAMBDA = re.compile(r"(\w+)(?:<.*>)?::\{lambda\S*\}::operator\(\)$")
_PARAMETERS = re.compile(r"(?<!operator)\([^()]*\)")
_UNNAMED = "(anonymous namespace)::"


def readable(text: str) -> str:
    """Replace every mangled name in `text` by the function's own name."""
    return _MANGLED.sub(lambda found: demangled(found[0]), text)


@cache
def demangled(name: str) -> str:
    """Return `wait` for `_ZN9kernelrig4waitEjjPKc`, and `kernel<4>` for an instance of a template.

    Without the library that demangles, the name is read as far as base_name can.
    """
    whole = _demangle(name)
    return base_name(name) if whole == name else own_name(whole)


def own_name(whole: str) -> str:
    """Return a demangled function's own name, without return type, namespaces and parameters.

    `consume<3>` for `void (anonymous namespace)::consume<(int)3>(Clock<(bool)1>&)`.
    """
    bare = whole.replace(_UNNAMED, "")
    while (shorter := _PARAMETERS.sub("", bare)) != bare:
        bare = shorter
    bare = bare.removesuffix(" const").strip()
    if inside := _LAMBDA.search(bare):
        return f"a lambda in {inside[1]}"
    return _last_name(bare)


def _demangle(name: str) -> str:
    try:
        import cxxfilt
    except (ImportError, OSError):  # not installed, or no libstdc++ to load
        return name
    try:
        return str(cxxfilt.demangle(name))
    except cxxfilt.InvalidName:
        return name


def _last_name(name: str) -> str:
    """Cut return type and namespaces: what follows the last ` ` or `::` outside of `<>`."""
    depth, start = 0, 0
    for at, char in enumerate(name):
        depth += (char == "<") - (char == ">")
        if not depth and (char == " " or name.startswith("::", at)):
            start = at + (1 if char == " " else 2)
    return name[start:]
