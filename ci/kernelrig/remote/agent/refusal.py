"""JSON objects on the wire, and the refusal of a request in one sentence."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """A request that cannot be served; the text is one sentence for the user."""

    def __init__(self, text: str, kind: str = "refused") -> None:
        super().__init__(text)
        self.kind = kind
