"""What an installed wheel must have besides Python files."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ci" / "kernelrig"


def test_every_data_file_of_the_package_is_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["kernelrig"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    data = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }
    assert data == packed


def test_every_package_is_found() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []
