"""The whole table: every family of `ci.emu.ops`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ci.emu import ops
from ci.emu.table import Table


@cache
def instruction_table() -> Table:
    """Return the rows of all families."""
    names = [m.name for m in pkgutil.iter_modules(ops.__path__) if not m.name.startswith("_")]
    modules = [importlib.import_module(f"{ops.__name__}.{name}") for name in sorted(names)]
    return Table(*(getattr(module, "ROWS", ()) for module in modules))
