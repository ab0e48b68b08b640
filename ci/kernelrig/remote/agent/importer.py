"""Import the agent from the sources that came over the connection, without writing a file.

A host whose disk is full must be reachable like any other, so that results can be fetched from it
and `clean` can free space there. The client's boot line executes this file first, and python's own
`zipimport`, `importlib.abc` and `importlib.util` would take longer to import than the agent.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader


class Sources:
    """Finds and loads the modules of the agent among their sources, by the names of their files."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.get_filename(name)
        if file not in self.texts:
            return None
        loader = cast("Loader", self)
        return ModuleSpec(name, loader, origin=file, is_package=file.endswith("/__init__.py"))

    def get_filename(self, name: str) -> str:
        stem = name.replace(".", "/")
        package = f"{stem}/__init__.py"
        return package if package in self.texts else f"{stem}.py"

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None  # the usual one

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        code = compile(self.get_source(name), self.get_filename(name), "exec", dont_inherit=True)
        exec(code, vars(module))

    def get_source(self, name: str) -> str:
        return self.texts[self.get_filename(name)]


def serve(texts: dict[str, str]) -> None:
    """Answer the client on stdin and stdout."""
    sys.meta_path.insert(0, Sources(texts))
    importlib.import_module("agent.serve").serve(texts)
