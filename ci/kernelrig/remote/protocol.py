"""The client's end of the protocol with the agent: start it on a channel, then request and reply.

A frame is a line of JSON, and after it as many bytes of payload as its key `bytes` says. The agent
writes MARKER once it runs: whatever a login shell printed before it (a banner, an rc file) is
skipped. Ticks only show that the connection is alive; they are dropped here, and an agent that says
nothing else for too long is given up.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from kernelrig.errors import CiError, ProtocolError, RemoteError
from kernelrig.files import strict_json
from kernelrig.model import Remote
from kernelrig.remote.archive import BOOT, BOOT_FLAGS, agent_archive
from kernelrig.remote.ssh.channel import Channel, LinkLost, Opener

MARKER = b"\nKERNELRIG-AGENT 1\n"
CHUNK = 1 << 18
NOISE_LIMIT = 1 << 20  # what a login shell may print before the agent speaks
LINE_LIMIT = 16 << 20
ANSWER_S = 600.0
"""How long an agent may work on one reply: to hash what is there of a large build takes minutes."""

IDLE_S, IDLE_EXIT = 900.0, 75
"""Seconds without a request after which the agent on a channel ends, and its exit code then."""

LEAST_RATE = 16 << 10
"""Bytes per second of a file below which the connection counts as lost."""

_OF_FRAMES = ("follow", "manifest", "fetch")
"""Requests whose reply has several frames; the last has the key `end`."""

_REFUSAL = ("error", "kind")
_REFUSAL_CHARACTERS = 1000

Frame: TypeAlias = dict[str, Any]

HINTS = {
    "full": "free space there, or run `invoke clean --remote {remote}`",
    "busy": "a GPU and a work folder have one run at a time: `--wait MINUTES` waits for it",
}


class HostRefused(RemoteError):
    """The agent refused a request; `kind` says why: full, busy, missing blob, ..."""

    def __init__(self, remote: str, text: str, kind: str) -> None:
        super().__init__(f"{remote}: {text}", HINTS.get(kind, "").format(remote=remote))
        self.kind = kind


class AgentSilent(RemoteError):
    """The agent lives, and does not reply."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of the monotonic clock, and what is said of an agent that passes it."""

    at: float
    overrun: str

    @classmethod
    def after(cls, seconds: float, overrun: str = "") -> Self:
        said = f"the agent has not replied for {seconds:.0f} s, although the connection is alive"
        return cls(time.monotonic() + seconds, overrun or said)

    def sooner(self, other: Deadline) -> Deadline:
        return min(self, other, key=lambda deadline: deadline.at)


class AgentSession:
    """One agent on one channel. After LinkLost another session may continue its work.

    `first` are requests that go with the agent itself: round trips less. The reply to the first of
    them is the first frame, the others count as asked ahead. `answer_s` limits the wait for a
    reply: for one frame that is more than a tick, or for all frames of a longer one.
    """

    def __init__(
        self,
        opener: Opener,
        remote: Remote,
        *,
        first: Sequence[Frame] = (),
        answer_s: float = ANSWER_S,
    ) -> None:
        archive = agent_archive()
        self._remote = remote
        self._answer_s = answer_s
        self._buffer = bytearray()
        self.heard = time.monotonic()  # of the last byte that came
        self.frame_bytes = 0  # of the last frame, without its payload
        self._ahead = deque(first[1:])  # requests whose replies are still to be read
        self._channel: Channel = opener.open(
            [remote.python, *BOOT_FLAGS, "-c", BOOT, str(len(archive))],
            first=archive + b"".join(map(_line, first)),
        )
        try:
            self._await_marker()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def _await_marker(self) -> None:
        deadline = self.deadline()
        while (at := self._buffer.find(MARKER)) < 0:
            if len(self._buffer) > NOISE_LIMIT:
                raise ProtocolError(
                    f"{self._remote.name}: the login shell printed {len(self._buffer)} bytes and"
                    " the agent did not start",
                    "make it print nothing in a session that is not interactive",
                )
            self._check_time(deadline)
            if not self._fill():
                raise self._not_started()
        del self._buffer[: at + len(MARKER)]

    def _not_started(self) -> CiError:
        name, python = self._remote.name, self._remote.python
        status = self._channel.exit_status()
        output = (self._channel.stderr() or self._buffer.decode(errors="replace")).strip()
        last = output.splitlines()[-1].strip() if output else "no output"
        hint = "install python 3.9 or newer there, or set 'python' of this remote to one"
        if "kernelrig needs python" in last:
            return RemoteError(f"{name}: {last}", hint)
        if status == 127:
            return RemoteError(f"{name}: there is no '{python}' on the host", hint)
        if status is None and self._channel.ended_by_signal():
            return LinkLost(
                f"{name}: a signal ended '{python}' before the agent started",
                "does the host have memory left? its kernel log (dmesg) says so",
            )
        if status is None:
            return LinkLost(f"{name}: the connection dropped before the agent started")
        if status == 126:
            return RemoteError(f"{name}: '{python}' cannot be executed on the host: {last}", hint)
        return ProtocolError(f"{name}: '{python}' did not start the agent (exit {status}): {last}")

    # frames

    def send(self, header: Frame, payload: Iterable[bytes] = ()) -> None:
        try:
            self._channel.write(_line(header))
            for chunk in payload:
                self._channel.write(chunk)
        except LinkLost:
            raise
        except RemoteError as e:
            raise self._ended() from e

    def deadline(self, size: int = 0) -> Deadline:
        """Return when a reply that begins now must be complete, with `size` bytes of files."""
        if not size:
            return Deadline.after(self._answer_s)
        overrun = (
            f"less than {LEAST_RATE} bytes/s of files arrive, although the connection is alive"
        )
        return Deadline.after(self._answer_s + size / LEAST_RATE, overrun)

    def frame(
        self, on_frame: Callable[[], None] | None = None, *, deadline: Deadline | None = None
    ) -> Frame:
        """Return the next frame but ticks (`on_frame` is called for all); raise a refusal.

        AgentSilent if there is none before the deadline, by default that of a reply.
        """
        deadline = deadline or self.deadline()
        while True:
            self._check_time(deadline)
            header = self._header(deadline)
            if on_frame is not None:
                on_frame()
            if "error" in header:
                text, kind = (str(header.get(key, ""))[:_REFUSAL_CHARACTERS] for key in _REFUSAL)
                raise HostRefused(self._remote.name, text, kind)
            if "tick" not in header:
                return header

    def ask(self, header: Frame, payload: Iterable[bytes] = ()) -> Frame:
        """Send a request and return the reply; HostRefused if the agent refused it."""
        self.begin(header, payload)
        return self.frame()

    def begin(self, header: Frame, payload: Iterable[bytes] = ()) -> None:
        """Send a request, unless it was asked ahead: the next frame is its reply.

        What else was asked ahead is read and dropped; a reply that goes on ends for a new request.
        """
        if self._ahead and self._ahead[0] == header:
            self._ahead.popleft()
            return
        self.send(header, payload)
        while self._ahead:
            whole = self._ahead.popleft()["op"] not in _OF_FRAMES
            with contextlib.suppress(HostRefused):
                while not _ends(self.frame()) and not whole:
                    pass

    def ask_ahead(self, header: Frame) -> None:
        """Send a request whose reply is wanted later: the same request then costs no round trip."""
        self.send(header)
        self._ahead.append(header)

    def expect(self, header: Frame) -> None:
        """Note that the reply to a request comes without it: the agent has said so."""
        self._ahead.append(header)

    def payload(self, size: int) -> Iterator[bytes]:
        """Yield the `size` bytes that follow the last frame; LinkLost if they only trickle in."""
        deadline = time.monotonic() + self._answer_s + size / LEAST_RATE
        while size > 0:
            if not self._buffer:
                self._more()
                if time.monotonic() > deadline:
                    raise LinkLost(f"{self._remote.name}: less than {LEAST_RATE} bytes/s arrive")
            chunk = bytes(self._buffer[:size])
            del self._buffer[:size]
            size -= len(chunk)
            yield chunk

    def _check_time(self, deadline: Deadline) -> None:
        if time.monotonic() > deadline.at:
            raise AgentSilent(f"{self._remote.name}: {deadline.overrun}")

    def _header(self, deadline: Deadline) -> Frame:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > LINE_LIMIT:
                raise ProtocolError(
                    f"{self._remote.name}: the agent sends a line over {LINE_LIMIT} bytes"
                )
            self._more()
            self._check_time(deadline)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self.frame_bytes = len(line)
        try:
            header = strict_json.loads(line)
        except ValueError as e:
            raise self._no_frame(line) from e
        if not isinstance(header, dict):
            raise self._no_frame(line)
        return header

    def _no_frame(self, line: bytes) -> ProtocolError:
        return ProtocolError(
            f"{self._remote.name}: what the agent sent is not a frame: {line[:80]!r}"
        )

    def _more(self) -> None:
        if not self._fill():
            raise self._ended()

    def _ended(self) -> CiError:
        status = self._channel.exit_status()
        if status is None:
            return LinkLost(f"{self._remote.name}: the connection dropped")
        if status == IDLE_EXIT:
            return LinkLost(f"{self._remote.name}: the agent ended, as no request came for so long")
        lines = self._channel.stderr().strip().splitlines()
        last = lines[-1].strip() if lines else "no output"
        return ProtocolError(f"{self._remote.name}: the agent ended (exit {status}): {last}")

    def _fill(self) -> bool:
        try:
            chunk = self._channel.read(CHUNK)
        except RemoteError as e:
            raise LinkLost(e.message, e.hint) from e
        self._buffer += chunk
        self.heard = time.monotonic()
        return bool(chunk)


def _ends(frame: Frame) -> bool:
    """Return whether a reply of several frames ends with this one; a listing may follow an end."""
    return "end" in frame and frame.get("listing") is not True


def _line(header: Frame) -> bytes:
    return json.dumps(header).encode() + b"\n"
