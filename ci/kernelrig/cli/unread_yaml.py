"""Invoke's own copy of PyYAML, which it imports for configuration files: the command reads none.

It is a third of what importing Invoke takes. Whoever does read of it gets the real module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

_NAME = "invoke.vendor.yaml"


def leave_unread() -> None:
    """Stand in for the module until something of it is read. Comes before Invoke is imported."""
    if _NAME not in sys.modules:
        module = ModuleType(_NAME)
        module.__dict__["__getattr__"] = _read
        sys.modules[_NAME] = module


def _read(name: str) -> object:
    if name.startswith("__"):  # what the import system asks for
        raise AttributeError(name)
    if vars(sys.modules[_NAME]).get("__getattr__") is _read:
        del sys.modules[_NAME]
    return getattr(import_module(_NAME), name)
