"""The agent's end of the protocol: a line of JSON, then as many payload bytes as `bytes` says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from .disk import CHUNK
from .refusal import Json

MARKER = b"KERNELRIG-AGENT 1"
IDLE_S, IDLE_EXIT = 900.0, 75  # without a request; the client knows the exit code
TICK_S = 2.0  # the client takes a much longer silence (30 s) for a dead connection


class Wire:
    """Frames over stdin and stdout. While a request is served, ticks show that we are alive.

    A link that fell silent may be known to nobody here: after `idle_s` in which nothing came that
    is waited for, the process ends. A client that has only slept connects again.
    """

    def __init__(self) -> None:
        self.input = cast(io.BufferedReader, sys.stdin.buffer)
        self.unread = bytearray()  # all that was read and not used: `input` holds none of it
        self.output = os.dup(1)
        os.dup2(2, 1)  # stdout becomes stderr: a stray print must not garble the frames
        self.sending = threading.Lock()
        self.held = bytearray()  # whole frames, and of the last one what is not written yet
        self.working = False
        self.at_work: Callable[[], None] = lambda: None
        self.idle_s = IDLE_S
        self.waiting_since: float | None = time.monotonic()
        self._write(b"\n" + MARKER + b"\n")
        threading.Thread(target=self._tick, daemon=True).start()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.output, view) :]

    def _tick(self) -> None:
        with contextlib.suppress(OSError):  # the main thread notices a client that disconnected
            while True:
                time.sleep(min(TICK_S, self.idle_s))
                if self.working:
                    self.at_work()
                    self.send({"tick": True})
                since = self.waiting_since
                if since is not None and time.monotonic() - since > self.idle_s:
                    os._exit(IDLE_EXIT)  # the main thread is in a read that nothing ends

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in which the client is waited for."""
        self.waiting_since = time.monotonic()
        try:
            yield
        finally:
            self.waiting_since = None

    def receive(self) -> Json | None:
        searched = 0
        while (end := self.unread.find(b"\n", searched)) < 0:
            searched = len(self.unread)
            if not self._read():
                return None
        line = bytes(self.unread[:end])
        del self.unread[: end + 1]
        request: Json = json.loads(line)
        return request

    def payload(self, size: int) -> Iterator[bytes]:
        while size > 0:
            if not self.unread and not self._read():
                raise EOFError
            chunk = bytes(self.unread[: min(CHUNK, size)])
            del self.unread[: len(chunk)]
            size -= len(chunk)
            yield chunk

    def _read(self) -> bool:
        """Read what there is, of which `input` keeps nothing; false at the end."""
        with self.waiting():
            chunk = self.input.read1(CHUNK)
        self.unread += chunk
        return bool(chunk)

    def send(self, header: Json, payload: Iterable[bytes] = (), *, more: bool = False) -> None:
        """Send a frame. With `more` to come it may wait, with others, for the next one or a tick:
        many small files would be as many small packets.
        """
        with self.sending:
            self.held += json.dumps(header).encode() + b"\n"
            for chunk in payload:
                self.held += chunk
                if len(self.held) >= CHUNK:
                    self._flush()
            if not more or len(self.held) >= CHUNK:
                self._flush()

    def _flush(self) -> None:
        held, self.held = self.held, bytearray()
        self._write(bytes(held))

    def interrupted(self, wait_s: float, exits: Sequence[int] = ()) -> bool:
        """Wait, until a process of `exits` has ended at most.

        True as soon as the client sends another request, EOFError if it disconnected.
        """
        if self.unread:  # it came together with an earlier one: `select` does not know of it
            return True
        ready, _, _ = select.select([self.input, *exits], [], [], wait_s)
        if self.input not in ready:
            return False
        if not self._read():
            raise EOFError
        return True
