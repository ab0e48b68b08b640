"""What the client asks and the agent answers: JSON, or one sentence that refuses."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """What was asked for cannot be had; the text is one sentence for the user."""

    def __init__(self, text: str, kind: str = "refused") -> None:
        super().__init__(text)
        self.kind = kind
