"""Several observers as one."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.emu.machine.hooks import Hooks

_EVENTS = tuple(name for name in vars(Hooks) if not name.startswith("_"))


class CompositeObserver(Hooks):
    """Tells each observer every event that it has an ear for, in their order."""

    def __init__(self, observers: tuple[Hooks, ...]) -> None:
        self.observers = observers
        for name in _EVENTS:
            handlers = [
                getattr(o, name)
                for o in observers
                if getattr(type(o), name) is not vars(Hooks)[name]
            ]
            setattr(self, name, _call_all(handlers))


def _call_all(handlers: list[Callable[..., None]]) -> Callable[..., None]:
    if len(handlers) == 1:
        return handlers[0]

    def call(*arguments: object, **named: object) -> None:
        for handler in handlers:
            handler(*arguments, **named)

    return call
