"""A look at this host that takes a while, beside others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Probe(threading.Thread):
    """A probe that runs beside others; `result` waits for it."""

    def __init__(self, probe: Callable[..., Any], *words: object) -> None:
        super().__init__(daemon=True)
        self.probe, self.words = probe, words
        self.found: Any = None
        self.trouble: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self.probe(*self.words)
        except BaseException as e:
            self.trouble = e

    def result(self) -> Any:  # noqa: ANN401 - what the probe returns
        self.join()
        if self.trouble is not None:
            raise self.trouble
        return self.found
