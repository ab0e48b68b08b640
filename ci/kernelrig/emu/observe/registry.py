"""The observers by the name of the stage on a GPU that each replaces."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.memory import MemoryUse
from kernelrig.emu.observe.publication import Publication
from kernelrig.emu.observe.races import Races

OBSERVERS: dict[str, Callable[[], Hooks]] = {
    "memory": MemoryUse,
    "races": Races,
    "init": Init,
    "sync": Publication,
}
"""Observers that see the events of a run; instructions find the rest."""
