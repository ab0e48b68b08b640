"""Processes that run a job, forked from one that was forked early and stands by.

It is forked before this process has threads, so that a fork of it is whole. It imports what a run
needs while the client's next request is under way: to start python anew for each run, which imports
the agent once more, costs a tenth of a second for which a host is held. It leaves the session of
the connection, and ends with the process that made it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable

from .process_table import MARKERS
from .refusal import Json

WARM = b"warm\0"
HEAD = 5
"""Bytes of an order: WARM, or an `r` and the length of the JSON that follows."""

FILES = 3
"""Descriptors that come with an order to run: the lock, the end of a pipe, the log."""


class Standby:
    """The process that stands by; `start` has it fork one that calls `main(order, lock)`."""

    def __init__(self, warm: Callable[[], None], main: Callable[[Json, int], None]) -> None:
        self.socket, theirs = socket.socketpair()
        if os.fork():
            theirs.close()
            return
        self.socket.close()
        with contextlib.suppress(BaseException):
            stand_by(theirs, warm, main)
        os._exit(0)

    def warm(self) -> None:
        """Have it import what a run needs, as one is likely to come."""
        with contextlib.suppress(OSError):  # it is gone: `start` says so
            self.socket.send(WARM)

    def start(self, order: Json, lock: int, held: int, log: int) -> None:
        """Fork a process that holds these descriptors; OSError if nothing stands by any more."""
        text = json.dumps(order).encode()
        head = b"r" + len(text).to_bytes(HEAD - 1, "big")
        socket.send_fds(self.socket, [head], [lock, held, log])
        self.socket.sendall(text)


def stand_by(
    orders: socket.socket, warm: Callable[[], None], main: Callable[[Json, int], None]
) -> None:
    """Fork a process for each order, until the other end is closed."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # of the connection, which is over only once nobody has them
        os.dup2(nowhere, stream)
    os.chdir("/")
    for name in MARKERS:  # a client that runs in a stage of another run
        os.environ.pop(name, None)
    while True:
        head, files, *_ = socket.recv_fds(orders, HEAD, FILES)
        if not head:
            return
        if head == WARM:
            warm()
            continue
        size = int.from_bytes(head[1:], "big")
        fork_run(json.loads(orders.recv(size, socket.MSG_WAITALL)), orders, files, main)


def fork_run(
    order: Json, orders: socket.socket, files: list[int], main: Callable[[Json, int], None]
) -> None:
    """Fork a process that is nobody's child any more and calls `main`."""
    if child := os.fork():
        for file in files:
            os.close(file)
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork():
            return
        orders.close()
        lock, held, log = files
        for file in (lock, held):
            os.set_inheritable(file, False)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        main(order, lock)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    finally:
        os._exit(0)
