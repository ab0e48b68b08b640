from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a function that writes a file of the project and returns its root."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return tmp_path

    return write
