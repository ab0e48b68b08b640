"""The source text of the agent's modules that run as programs of their own."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import InspectLoader


def source(module: ModuleType) -> str:
    """Return a module's source text, wherever it was imported from."""
    spec = module.__spec__
    assert spec is not None
    return cast("InspectLoader", spec.loader).get_source(spec.name) or ""
