"""Several observers as one."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.emu.machine.hooks import Hooks

_EVENTS = tuple(name for name in vars(Hooks) if not name.startswith("_"))


class Several(Hooks):
    """Tells each observer every event that it has an ear for, in their order."""

    def __init__(self, observers: tuple[Hooks, ...]) -> None:
        self.observers = observers
        for name in _EVENTS:
            ears = [
                getattr(o, name)
                for o in observers
                if getattr(type(o), name) is not vars(Hooks)[name]
            ]
            setattr(self, name, _told(ears))


def _told(ears: list[Callable[..., None]]) -> Callable[..., None]:
    if len(ears) == 1:
        return ears[0]

    def tell(*arguments: object, **named: object) -> None:
        for ear in ears:
            ear(*arguments, **named)

    return tell
