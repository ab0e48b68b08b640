"""What watches a run, each named as the stage on a GPU that it stands for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

from ci.emu.hooks import Hooks

OBSERVERS: dict[str, Callable[[], Hooks]] = {}
"""Those that need to be told what happens; the semantics find the faults of `memory` and `sync`."""
for _name, _class in (("races", "Races"), ("init", "Init")):
    if importlib.util.find_spec(f"ci.emu.observe.{_name}"):
        OBSERVERS[_name] = getattr(importlib.import_module(f"ci.emu.observe.{_name}"), _class)
