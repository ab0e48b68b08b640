"""The observers by the name of the stage on a GPU that each stands for."""

from __future__ import annotations

from collections.abc import Callable

from ci.emu.hooks import Hooks
from ci.emu.observe.init import Init
from ci.emu.observe.memory import MemoryUse

OBSERVERS: dict[str, Callable[[], Hooks]] = {
    "memory": MemoryUse,
    "init": Init,
}
"""Those that need to be told what happens; the semantics find the rest, and all of `sync`."""
