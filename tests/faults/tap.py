"""What a host of the fault suite has for a python: the real one, and a look at the protocol.

`tap.py FOLDER ARGS` starts `python ARGS` and passes on what client and agent say. FOLDER/break.json
names an instant: an operation, a point in it, a number of bytes. The first agent that comes there
stops, leaves its pid in FOLDER/hit, and goes on when FOLDER/go exists.

    before   the request has come, and has not been passed on
    during   `bytes` of the request's payload (put) or of the reply have been passed on, no more
    after    the operation was carried out, and nothing of the reply has been passed on

The operation `boot` is the start of the agent itself: its archive, and its first words. A request
that was sent ahead is passed on when the reply to the one before it is over; the list of files that
follows the end of a run counts as the operation `manifest`.
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
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

CHUNK = 64 << 10
TICK = b'{"tick": true}\n'
WAIT_S = 120.0
OF_FRAMES = {"event", "files", "small", "file"}
"""Keys of frames that are not the last of their reply."""


class Frames:
    """Where the replies of an agent end: lines of JSON, some with a payload behind them."""

    def __init__(self) -> None:
        self.line = b""
        self.payload = 0
        self.booted = False

    def split(self, data: bytes) -> Iterator[tuple[bytes, bool, bool]]:
        """Yield parts: whether a reply ends with it, whether the list of files follows that."""
        start = at = 0
        while at < len(data):
            if self.payload:
                step = min(self.payload, len(data) - at)
                self.payload -= step
                at += step
                continue
            end = data.find(b"\n", at) + 1
            if not end:
                self.line += data[at:]
                break
            line, self.line = self.line + data[at:end], b""
            if line == TICK:
                yield TICK, False, False
            ends, lists = self.read(line)
            at = end
            if line == TICK:
                start = at
            elif ends:
                yield data[start:at], ends, lists
                start = at
        if start < len(data):
            yield data[start:], False, False

    def read(self, line: bytes) -> tuple[bool, bool]:
        if not self.booted:
            self.booted = line.startswith(b"KERNELRIG-AGENT")
            return self.booted, False
        frame = json.loads(line)
        if "file" in frame:
            self.payload = frame.get("bytes", 0)
        more = "tick" in frame or not OF_FRAMES.isdisjoint(frame)
        return not more, frame.get("listing") is True


class Tap:
    def __init__(self, folder: Path, argv: list[str]) -> None:
        self.folder = folder
        self.boot = int(argv[-1])
        self.asked = deque(["boot"])  # operations whose replies are not over
        self.changed = threading.Condition()
        self.frames = Frames()
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
        with self.changed:  # no reply ends any more: what the client still sends goes on at once
            self.asked = deque(["follow"])
            self.changed.notify_all()
        assert self.child.stdout is not None
        self.child.stdout.close()  # the agent, too, writes to nobody from now on
        os.close(1)
        return self.child.wait()

    # instants

    def wanted(self, op: str, point: str) -> int | None:
        """Return after how many bytes we stop here; None if this is not the instant."""
        try:
            found = json.loads((self.folder / "break.json").read_text())
        except FileNotFoundError:
            return None
        here = (found["op"], found["point"]) == (op, point)
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
            if self.wanted("boot", "before") is not None:
                self.stop_here()
            self.carry(source.read1, self.boot, "boot")
            while line := source.readline():
                request = json.loads(line)
                op = request["op"]
                self.note(op)
                if self.wanted(op, "before") is not None:
                    self.stop_here()
                with self.changed:  # a new request ends a run's events
                    self.changed.wait_for(lambda: not self.asked or self.asked[0] == "follow")
                    self.asked.append(op)
                self.child.stdin.write(line)
                self.child.stdin.flush()
                if op == "put":
                    self.carry(source.read1, sum(b["bytes"] for b in request["blobs"]), op)
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.close()

    def note(self, op: str) -> None:
        with (self.folder / "ops").open("a") as ops:
            ops.write(f"{op}\n")

    def carry(self, read: Callable[[int], bytes], size: int, op: str) -> None:
        assert self.child.stdin is not None
        until = self.wanted(op, "during")
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
        out, passed = self.child.stdout.fileno(), 0
        while data := os.read(out, CHUNK):
            for part, ends, lists in self.frames.split(data):
                if part == TICK:
                    self.pass_on(part)
                    continue
                self.carry_reply(self.asked[0] if self.asked else "", part, passed)
                passed = 0 if ends else passed + len(part)
                if lists:
                    self.asked[0] = "manifest"
                    self.note("manifest")
                    if self.wanted("manifest", "before") is not None:
                        self.stop_here()
                elif ends and self.asked:
                    with self.changed:
                        self.asked.popleft()
                        self.changed.notify_all()

    def carry_reply(self, op: str, data: bytes, passed: int) -> None:
        if passed == 0 and self.wanted(op, "after") is not None:
            self.stop_here()
        until = self.wanted(op, "during") if op not in ("put", "boot") else None
        if until is not None and passed + len(data) > until:
            head = max(0, until - passed)
            self.pass_on(data[:head])
            data = data[head:]
            self.stop_here()
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
