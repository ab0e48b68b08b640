"""What a host of the fault suite has for a python: the real one, and a look at the protocol.

`tap.py FOLDER ARGS` starts `python ARGS` and passes on what client and agent say. FOLDER/break.json
names an instant: an operation, a point in it, a number of bytes. The first agent that comes there
stops, leaves its pid in FOLDER/hit, and goes on when FOLDER/go exists.

    before   the request has come, and has not been passed on
    during   `bytes` of the request's payload (put) or of the reply have been passed on, no more
    after    the operation was carried out, and nothing of the reply has been passed on

The operation `boot` is the start of the agent itself: its archive, and its first words.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

CHUNK = 64 << 10
TICK = b'{"tick": true}\n'
WAIT_S = 120.0


class Tap:
    def __init__(self, folder: Path, argv: list[str]) -> None:
        self.folder = folder
        self.boot = int(argv[-1])
        self.op = "boot"
        self.child = subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "TAP": str(folder)},  # by which the case finds its processes
        )

    def main(self) -> int:
        threading.Thread(target=self.carry_requests, daemon=True).start()
        with contextlib.suppress(BrokenPipeError):
            self.carry_replies()
        assert self.child.stdout is not None
        self.child.stdout.close()  # the agent, too, writes to nobody from now on
        os.close(1)
        return self.child.wait()

    # instants

    def wanted(self, point: str) -> int | None:
        """Return after how many bytes we stop here; None if this is not the instant."""
        try:
            found = json.loads((self.folder / "break.json").read_text())
        except FileNotFoundError:
            return None
        here = (found["op"], found["point"]) == (self.op, point)
        return int(found["bytes"]) if here else None

    def stop_here(self) -> None:
        try:
            (self.folder / "break.json").rename(self.folder / "taken.json")
        except FileNotFoundError:
            return  # another agent was there first
        part = self.folder / "hit.part"
        part.write_text(str(self.child.pid))
        part.rename(self.folder / "hit")
        deadline = time.monotonic() + WAIT_S
        while not (self.folder / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.005)

    # requests

    def carry_requests(self) -> None:
        assert self.child.stdin is not None
        source = io.BufferedReader(io.FileIO(0), CHUNK)
        with contextlib.suppress(BrokenPipeError):
            if self.wanted("before") is not None:
                self.stop_here()
            self.carry(source.read1, self.boot, in_put=self.op == "boot")
            while line := source.readline():
                request = json.loads(line)
                self.op = request["op"]
                with (self.folder / "ops").open("a") as ops:
                    ops.write(f"{self.op}\n")
                if self.wanted("before") is not None:
                    self.stop_here()
                self.child.stdin.write(line)
                self.child.stdin.flush()
                if self.op == "put":
                    self.carry(source.read1, sum(b["bytes"] for b in request["blobs"]), in_put=True)
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()

    def carry(self, read: Callable[[int], bytes], size: int, *, in_put: bool) -> None:
        assert self.child.stdin is not None
        until = self.wanted("during") if in_put else None
        while size > 0:
            if until == 0:
                self.stop_here()
                until = None
            data = read(min(size, CHUNK, until or CHUNK))
            if not data:
                raise BrokenPipeError
            until = None if until is None else until - len(data)
            size -= len(data)
            self.child.stdin.write(data)
            self.child.stdin.flush()

    # replies

    def carry_replies(self) -> None:
        assert self.child.stdout is not None
        out = self.child.stdout.fileno()
        passed = 0
        of = self.op
        while data := os.read(out, CHUNK):
            if self.op != of:
                of, passed = self.op, 0
            while data.startswith(TICK):
                self.pass_on(TICK)
                data = data[len(TICK) :]
            if not data:
                continue
            if passed == 0 and self.wanted("after") is not None:
                self.stop_here()
            until = self.wanted("during") if of not in ("put", "boot") else None
            if until is not None and passed + len(data) > until:
                head = max(0, until - passed)
                self.pass_on(data[:head])
                data = data[head:]
                self.stop_here()
            passed += len(data)
            self.pass_on(data)

    def pass_on(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    status = Tap(Path(sys.argv[1]), sys.argv[2:]).main()
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)
