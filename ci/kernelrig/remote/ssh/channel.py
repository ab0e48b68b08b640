"""The interface between connection and protocol: a remote process, with bytes both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernelrig.errors import RemoteError


class LinkLost(RemoteError):
    """The connection dropped, fell silent or was not made; runs continue on the host: reconnect.

    A `lasting` reason does not go away while a host boots: it ends a first connection at once.
    """

    lasting = False


class HostUnknown(LinkLost):
    """The name of the host does not exist, or the jump host does not lead there."""

    lasting = True


class Channel(Protocol):
    """One process on the host. Every call may raise RemoteError when the connection is lost."""

    def write(self, data: bytes) -> None: ...

    def read(self, limit: int) -> bytes:
        """Block for up to `limit` bytes; b"" is the end of stdout, silence is an error."""
        ...

    def stderr(self) -> str:
        """Return what the process has written to stderr so far (bounded)."""
        ...

    def exit_status(self) -> int | None:
        """Return the exit code; None = unknown (a signal, a lost connection), never a verdict."""
        ...

    def ended_by_signal(self) -> bool:
        """Return whether the process ended without an exit code on a connection that holds."""
        ...

    def close(self) -> None: ...


class Opener(Protocol):
    """Opens processes over the one connection of a run."""

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> Channel:
        """Start `argv` on the host; connects again first if the connection dropped.

        `first` is written to it without waiting for the reply that it was started.
        """
        ...
