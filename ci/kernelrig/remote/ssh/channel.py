"""The seam between the connection and what is spoken over it: a remote process, bytes both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernelrig.errors import RemoteError


class LinkLost(RemoteError):
    """The connection dropped or fell silent; what runs on the host goes on: try again."""


class Channel(Protocol):
    """One process on the host. Every call may raise RemoteError when the link is gone."""

    def write(self, data: bytes) -> None: ...

    def read(self, limit: int) -> bytes:
        """Block for up to `limit` bytes; b"" is the end of stdout, a silent link is an error."""
        ...

    def stderr(self) -> str:
        """Return what the process has said on stderr so far (bounded)."""
        ...

    def exit_status(self) -> int | None:
        """Return the exit code; None is unknown (a signal, a lost link), never a verdict."""
        ...

    def close(self) -> None: ...


class Opener(Protocol):
    """The one connection of a run."""

    def open(self, argv: Sequence[str]) -> Channel:
        """Start `argv` on the host; connects again first if the connection dropped."""
        ...
