"""The engine that runs a launch: the machine in C++, or the one of NumPy, which is the reference.

Both find the same, bit for bit. A machine without a compiler has NumPy's alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from kernelrig.emu.native.core_build import NotBuilt, built, shipped
from kernelrig.emu.native.library import library
from kernelrig.errors import ConfigError
from kernelrig.model import EmulatorEngine

NUMPY, NATIVE = EmulatorEngine.NUMPY.value, EmulatorEngine.NATIVE.value


@dataclass(frozen=True, slots=True)
class Engine:
    """`name` is "native" or "numpy"; `why` says why it is not the one that is preferred."""

    name: str
    why: str = ""


def choose_engine(asked: str, say: Callable[[str], None]) -> Engine:
    """Return the engine that was asked for: "auto" is the native one where it can be built.

    The core is built here, before any process that runs it is forked; `say` is told before, and
    where the other engine takes its place.
    ConfigError if the native engine is asked for and cannot be built.
    """
    if asked == NUMPY:
        return Engine(NUMPY)
    try:
        if shipped() is None and built() is None and shutil.which("g++"):
            say("compiling the native core of the emulator with g++: once, about 3 CPU minutes")
        library()
    except NotBuilt as e:
        if asked == NATIVE:
            raise ConfigError(f"no native engine: {e}", "or pass --engine numpy") from e
        why = f"no native engine: {e}"
        say(f"{why}: the engine is numpy, which is many times slower")
        return Engine(NUMPY, why)
    return Engine(NATIVE)


def describe_native() -> str:
    """Return in a line where the native core comes from. Nothing is compiled; NotBuilt without it.

    The line is for `doctor`, which checks a machine before anything is run on it.
    """
    if shipped() is not None:
        return "native: the wheel brought its core"
    if shutil.which("g++") is None:
        raise NotBuilt("no native engine: no g++ on PATH", "sudo apt-get install g++")
    return "native: its core is built" if built() else "native: g++ compiles its core on first use"
