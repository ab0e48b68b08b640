"""The link between client and host: a TCP relay that a test cuts, silences, slows or takes down."""

from __future__ import annotations

import contextlib
import queue
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Self

Cut = Literal["reset", "close", "silence"]
"""How a link ends: RST, FIN, or not a byte more and no word about it."""

RESETS = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close is a reset."""

_CHUNK = 64 << 10


@dataclass
class Weather:
    """Latency one way, and the chance that a segment is lost and comes a retransmission later."""

    delay_s: float = 0.0
    loss: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def held_s(self) -> float:
        held = self.delay_s
        while self.loss and self.chance.random() < self.loss:
            held += max(0.2, 2 * self.delay_s)
        return held


class Link:
    """One connection. It is cut once `cut_after` bytes have passed, both directions counted."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        weather: Weather,
        cut_after: tuple[int, Cut] | None,
        on_cut: Callable[[], None],
    ) -> None:
        self.ends = (client, server)
        self.weather = weather
        self.bytes = 0
        self.cut_after, self.on_cut = cut_after, on_cut
        self.silent = threading.Event()
        self.opened = self.closed = time.monotonic()  # closed: by either end
        self.over = threading.Event()
        self.counting = threading.Lock()
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=self._deliver, args=(under_way, sink), daemon=True).start()
        arrives = 0.0
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                # As the client does: an acknowledgement that is delayed holds the next packet back.
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                # TCP delivers in order: what follows a lost segment waits for it.
                arrives = max(arrives, time.monotonic() + self.weather.held_s())
                under_way.put((arrives, data))
        if not self.over.is_set():
            self.closed = time.monotonic()
            self.over.set()
        under_way.put((arrives, b""))

    def _deliver(self, under_way: queue.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                arrives, data = under_way.get()
                time.sleep(max(0.0, arrives - time.monotonic()))
                if not data:
                    break
                if self.silent.is_set():
                    continue
                with self.counting:
                    passed = self._until_cut(data)
                    self.bytes += len(passed)
                sink.sendall(passed)
                if len(passed) < len(data) and self.cut_after is not None:
                    if not self.silent.is_set():
                        self.on_cut()
                    self.cut(self.cut_after[1])
        if not self.silent.is_set():
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _until_cut(self, data: bytes) -> bytes:
        if self.cut_after is None:
            return data
        return data[: max(0, self.cut_after[0] - self.bytes)]

    def cut(self, how: Cut) -> None:
        self.silent.set()
        for end in self.ends if how != "silence" else ():
            with contextlib.suppress(OSError):  # ended by its peer, or cut before
                if how == "close":
                    end.shutdown(socket.SHUT_RDWR)
                    continue
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
                end.shutdown(socket.SHUT_RD)  # wakes the thread that reads, which holds it open
            if how == "reset":
                end.close()


class Proxy:
    """Relays a port of its own to `port`; while it is `down` it takes no connection.

    `first` says after how many bytes the next connection is cut, and `on_first` hears of it.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.weather = Weather()
        self.down: Cut | None = None
        self.first: tuple[int, Cut] | None = None
        self.on_first: Callable[[], None] = lambda: None
        self.links: list[Link] = []
        self.held: list[socket.socket] = []
        self.accepted = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port: int = self.listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.listener:
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._accepting.join()
        for link in self.links:
            link.cut("reset")
        for held in self.held:
            held.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            rule, self.first = self.first, None
            if self.down is not None or (rule is not None and rule[0] == 0):
                if self.down is None:
                    self.on_first()
                self._refuse(client, self.down or (rule[1] if rule else "reset"))
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                self._refuse(client, "reset")
                continue
            self.links.append(Link(client, server, self.weather, rule, self.on_first))

    def _refuse(self, client: socket.socket, how: Cut) -> None:
        if how == "silence":
            self.held.append(client)
            return
        with client:
            if how == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)

    def cut(self, how: Cut) -> None:
        """End every connection that is open now."""
        for link in self.links:
            link.cut(how)
