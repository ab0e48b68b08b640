"""The small files of a run that come with the list of its files: a round trip less at its end."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

from kernelrig.errors import ProtocolError
from kernelrig.files.incoming import Incoming, Part
from kernelrig.remote.host_files import Listed

SMALL_BYTES = 256 << 10
"""What all of them may have: no more is held in memory here."""


class SmallFiles:
    """What came with a list, by name. A file that is not here, or not whole, is asked for."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._left = SMALL_BYTES

    def take(self, frame: Mapping[str, Any]) -> int:
        """Hold the files of a frame, and return how many entries it has.

        ProtocolError if it is garbled, or has more than was asked for.
        """
        entries = frame["small"] if isinstance(frame["small"], list) else [frame["small"]]
        for entry in entries:
            match entry:
                case [str(name), str(digest), str(text)]:
                    data = _decoded(text)
                case _:
                    raise ProtocolError(f"the host's small files are garbled: {ascii(entry)[:80]}")
            self._left -= len(data)
            if self._left < 0:
                raise ProtocolError(f"the host's small files have more than {SMALL_BYTES} bytes")
            if hashlib.sha256(data).hexdigest() == digest:
                self._held[name] = data
        return len(entries)

    def put(self, folder: Incoming, file: Listed) -> bool:
        """Write the file to its place, and hold it no longer; false if it is not there now."""
        data = self._held.pop(file.name, None)
        if data is None or len(data) != file.bytes:
            return False
        with Part(folder) as part:
            part.write(data)
            part.move(file.place)
        return part.failure is None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise ProtocolError(f"the host's small files are garbled: {ascii(text)[:80]}") from e
