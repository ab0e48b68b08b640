"""The compiled core as ctypes functions."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from kernelrig.emu.native.core_build import build


class Applied(ctypes.Structure):
    """`Applied` of core/registry.hpp: one instruction on the rows of a test."""

    _fields_ = (
        ("handler", ctypes.c_int),
        ("outs", ctypes.c_int),
        ("ins", ctypes.c_int),
        ("operands", ctypes.c_void_p),
        ("immediates", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("files", ctypes.c_void_p),
        ("file_bytes", ctypes.c_int64),
        ("lanes", ctypes.c_void_p),
        ("rows", ctypes.c_int),
        ("memory", ctypes.c_void_p),
        ("at", ctypes.c_int),
    )


@cache
def library() -> ctypes.CDLL:
    """Return the core, built if it has to be. Raises NotBuilt where that cannot be done."""
    return opened(build())


def opened(path: Path) -> ctypes.CDLL:
    """Return the library in a file, its functions declared."""
    core = ctypes.CDLL(str(path))
    core.core_find.argtypes = [ctypes.c_char_p]
    core.core_handler_name.argtypes = [ctypes.c_int]
    core.core_handler_name.restype = ctypes.c_char_p
    core.core_duplicate.restype = ctypes.c_char_p
    core.core_apply.argtypes = [ctypes.POINTER(Applied)]
    return core
