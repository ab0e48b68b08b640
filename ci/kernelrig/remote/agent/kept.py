"""What this host was asked before and would say again, in a file of the workdir.

Only what takes a fifth of a second or more, and cannot have changed while its key is the same.
"""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

from .disk import write_file
from .refusal import Json

FILE = "kept.json"
MOST = 64
"""Entries; with one more those of before are dropped: GPUs and tools that are gone are among them.
"""
MOST_BYTES = 1 << 18


class Kept:
    """Answers by their key; a file that cannot be read or written keeps nothing."""

    def __init__(self, workdir: Path) -> None:
        self.path = workdir / FILE
        self.lock = threading.Lock()  # probes run beside each other
        self.known: Json = {}
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self.path.stat().st_size <= MOST_BYTES:
                found = json.loads(self.path.read_bytes())
                self.known = found if isinstance(found, dict) else {}

    def get(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        return self.known.get(key)

    def put(self, key: str, value: object) -> None:
        with self.lock, contextlib.suppress(OSError):
            known = self.known if len(self.known) < MOST else {}
            self.known = {**known, key: value}
            write_file(self.path, json.dumps(self.known).encode())
