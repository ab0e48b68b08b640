"""The user's cache folder: what any project may use, and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """Return kernelrig's own folder in it."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(root) if root.startswith("/") else Path("~/.cache").expanduser()
    return base / "kernelrig"
