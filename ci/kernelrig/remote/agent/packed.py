"""The agent as a file that python runs, for what is started without a client."""

from __future__ import annotations

import io
import zipfile


def packed(texts: dict[str, str]) -> bytes:
    """Return the agent's sources as a file that python runs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()
