"""The compiled core as ctypes functions."""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from pathlib import Path

from kernelrig.emu.native.core_build import (
    SANITIZED,
    SHIPPED,
    NotBuilt,
    Variant,
    build,
    shipped,
)
from kernelrig.emu.native.core_sources import SOURCES

OUT_OF_MEMORY = 86
"""What a process exits with whose core wanted memory that there was not: what C++ throws, no one
above the core could catch (core/machine/failure.cpp)."""


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
        ("elected", ctypes.c_int),
    )


@cache
def library() -> ctypes.CDLL:
    """Return the core. Raises NotBuilt if there is none, and none can be built."""
    return load()


def load(sources: Path = SOURCES, prebuilt: Path = SHIPPED) -> ctypes.CDLL:
    """Return the core of `sources`: that of the wheel, of the cache, or one that is built."""
    if os.environ.get(SANITIZED):
        return opened(build(Variant(sanitized=True), sources=sources))
    brought = shipped(prebuilt, sources)
    if brought is not None:
        with contextlib.suppress(OSError):  # of a system with another libc
            return opened(brought)
    path = build(sources=sources)
    try:
        return opened(path)
    except OSError:  # damaged: a disk that was full or failed
        path.unlink(missing_ok=True)
    try:
        return opened(build(sources=sources))
    except OSError as e:
        raise NotBuilt(f"{path.name} cannot be loaded: {e}") from e


def opened(path: Path) -> ctypes.CDLL:
    """Return the library in a file, its functions declared."""
    core = ctypes.CDLL(str(path))
    core.core_find.argtypes = [ctypes.c_char_p]
    core.core_handler_name.argtypes = [ctypes.c_int]
    core.core_handler_name.restype = ctypes.c_char_p
    core.core_duplicate.restype = ctypes.c_char_p
    core.core_apply.argtypes = [ctypes.POINTER(Applied)]
    return core
