"""Contents of memory as .npy files that are named by their hash: equal ones are there once."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.errors import CiError, ConfigError

FOLDER = "data"
MOST_BYTES = 1 << 30
"""Of all contents of a recording."""


class ArrayFiles:
    """Writes below `folder`; `stored` counts bytes, zeros of contents too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._hashes: dict[str, str] = {}
        self.stored = 0

    def content(
        self, offset: int, data: NDArray[np.uint8], written: NDArray[np.uint8], *, whole: bool
    ) -> list[dict[str, Any]]:
        """Return the content that says what a part of a buffer holds, none for what nothing wrote:
        unless it is to be said `whole`, as it replaces what was there.

        Raises CiError if it cannot be written, ConfigError if it is too much.
        """
        if not whole and not written.any() and not data.any():
            return []
        said: dict[str, Any] = {"offset_bytes": offset} if offset else {}
        if written.all() and not data.any():
            self._count(len(data))
            return [{**said, "zero_bytes": len(data)}]
        said["path"], said["sha256"] = self._store(data)
        if not written.all():
            said["written"], said["written_sha256"] = self._store(np.packbits(written != 0))
        return [said]

    def _store(self, data: NDArray[np.uint8]) -> tuple[str, str]:
        """Return the path of a file with these bytes, and its hash."""
        head = io.BytesIO()
        shape = {"descr": "|u1", "fortran_order": False, "shape": data.shape}
        np.lib.format.write_array_header_1_0(head, shape)
        digest = hashlib.sha256(head.getvalue())
        digest.update(data.tobytes())
        sha256 = digest.hexdigest()
        path = f"{FOLDER}/{sha256[:24]}.npy"
        if sha256 not in self._hashes:
            self._count(len(data))
            try:
                self._folder.mkdir(exist_ok=True)
                with (self._folder.parent / path).open("xb") as file:
                    file.write(head.getvalue())
                    file.write(data.tobytes())
            except OSError as e:
                raise CiError(f"the launches cannot be kept: {e.strerror}") from e
            self._hashes[sha256] = path
        return self._hashes[sha256], sha256

    def _count(self, size: int) -> None:
        self.stored += size
        if self.stored > MOST_BYTES:
            raise ConfigError(
                f"the launches read more than {MOST_BYTES >> 20} MiB, the most that is recorded",
                "record fewer of them (--launch, --kernel), or a part of each grid (--ctas)",
            )
