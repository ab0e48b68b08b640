"""Programs of relocatable device code (-rdc=true): objects, and what nvlink would make of them.

Each object registers its PTX through a function that nvlink's step defines. Here the emulator links
the PTX, and a file of stubs defines those functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_FLAG = re.compile(r"-dc|--device-c|-{1,2}(rdc|relocatable-device-code)(=true)?")
_REGISTERS = re.compile(r"\b__cudaRegisterLinkedBinary_\w+")


def asks_for_relocatable(flags: Sequence[str]) -> bool:
    """Whether nvcc is asked for relocatable device code."""
    return any(_FLAG.fullmatch(flag) for flag in flags)


def without_relocatable(flags: Sequence[str]) -> list[str]:
    """Return the flags for a link that leaves out nvlink."""
    kept: list[str] = []
    for at, flag in enumerate(flags):
        value = at > 0 and flags[at - 1].lstrip("-") in ("rdc", "relocatable-device-code")
        if not _FLAG.fullmatch(flag) and not (value and flag == "true"):
            kept.append(flag)
    return kept


def registering_functions(log: str) -> list[str]:
    """Return the functions that a linker's log misses, by which objects register their PTX."""
    return sorted(set(_REGISTERS.findall(log)))


def write_stubs(file: Path, names: Sequence[str]) -> None:
    """Write a C file that defines them."""
    lines = ["void __cudaRegisterLinkedBinary(void (*)(void**), void*);"]
    lines += [
        f"void {name}(void (*callback)(void**), void* binary, void* id, void (*keep)(void*)) {{"
        " __cudaRegisterLinkedBinary(callback, binary); }"
        for name in names
    ]
    file.write_text("\n".join([*lines, ""]))
