"""Several observers as one."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.emu.machine.events import EVENTS
from kernelrig.emu.machine.machine_state import Hooks


class CompositeObserver(Hooks):
    """Tells each observer every event that it has an ear for, in their order."""

    def __init__(self, observers: tuple[Hooks, ...]) -> None:
        self.observers = observers
        for name in EVENTS:
            handlers = [
                getattr(o, name)
                for o in observers
                if getattr(type(o), name) is not getattr(Hooks, name)
            ]
            setattr(self, name, _call_all(handlers))


def _call_all(handlers: list[Callable[..., None]]) -> Callable[..., None]:
    if len(handlers) == 1:
        return handlers[0]

    def call(*arguments: object, **named: object) -> None:
        for handler in handlers:
            handler(*arguments, **named)

    return call
