"""kernelrig: hand-written Blackwell kernels, developed from a machine that has no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable

__version__ = "0.1.0"


def lazy_exports(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` (PEP 562) of a package that imports each exported name at first use.

    The exports are the `from MODULE import NAME` lines under the package's `if TYPE_CHECKING:`: the
    type checker, editors and this function read one list. No export may be named like a submodule,
    which would hide it once that is imported.
    """
    exports: dict[str, str] = {}

    def load(name: str) -> object:
        from importlib import import_module

        if not exports:
            exports.update(_type_checking_imports(str(sys.modules[package].__file__)))
        if name not in exports:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(exports[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def _type_checking_imports(file: str) -> dict[str, str]:
    import ast
    from pathlib import Path

    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    blocks = (
        node.body
        for node in tree.body
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )
    lines = (line for block in blocks for line in block if isinstance(line, ast.ImportFrom))
    return {alias.name: line.module for line in lines if line.module for alias in line.names}
