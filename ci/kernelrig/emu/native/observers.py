"""The observers that the core has, or tells itself; what others hear of it leaves to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kernelrig.emu.machine.events import EVENTS
from kernelrig.emu.machine.machine_state import Hooks
from kernelrig.emu.native.core_observer import each_of
from kernelrig.emu.native.publication import NativePublication
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.observe.global_accesses import GlobalAccesses
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.memory import MemoryUse
from kernelrig.emu.observe.publication import Publication
from kernelrig.emu.observe.races import Races

_IN_CORE: dict[type[Hooks], Callable[[], Hooks]] = {
    Races: NativeRaces,
    Publication: NativePublication,
}
_KNOWN = (MemoryUse, Init, LastWriter, GlobalAccesses, NativeRaces, NativePublication)
_OF_THREADS = ("accessed", "stored", "in_turn", "read_non_coherent")
_OF_FENCES = ("fenced", "proxy_fenced", "tensor_fenced", "barriers_published", "warp_synced")
_OF_BARRIERS = ("barrier_arrived", "barrier_passed")
_APART = (("started", "ended"), _OF_THREADS, _OF_FENCES, _OF_BARRIERS)


def in_core(observers: Iterable[Hooks]) -> list[Hooks]:
    """Return the same observers for the native engine: those that the core has, in the core."""
    return [_IN_CORE[type(o)]() if type(o) in _IN_CORE else o for o in observers]


def listens_to_threads(hooks: Hooks | None) -> bool:
    """Say whether an observer that the core does not know hears of accesses by threads."""
    return _overridden(hooks, _OF_THREADS)


def listens_to_fences(hooks: Hooks | None) -> bool:
    return _overridden(hooks, _OF_FENCES)


def listens_to_barriers(hooks: Hooks | None) -> bool:
    """Say the same of barriers of CTAs and clusters."""
    return _overridden(hooks, _OF_BARRIERS)


def listens_to_others(hooks: Hooks | None) -> bool:
    """Say the same of anything else that is synchronised, and of all that is asynchronous."""
    return _overridden(hooks, {*EVENTS}.difference(*_APART))


def _overridden(hooks: Hooks | None, events: Iterable[str]) -> bool:
    others = [type(o) for o in each_of(hooks) if type(o) not in _KNOWN]
    return any(getattr(o, name) is not getattr(Hooks, name) for o in others for name in events)
