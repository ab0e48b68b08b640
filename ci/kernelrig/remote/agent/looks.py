"""Inspect a command that runs much longer than its good runs did, while it runs.

cuda-gdb attaches to the program, prints, and detaches: the program goes on (tried on an H200; a
core dump would end it, and none is made once cuda-gdb was attached). A first look lists where the
warps are. If all of them are in a wait for a barrier, two more looks add their registers: what
waits for a barrier with the same registers as seconds ago, as does every warp beside it, waits for
ever. The client reads both looks again.

A look halts the GPU for about a second, so that what is timed is not counted after one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time

from .children import Children
from .cuda_gdb import LIST, Look, read_look
from .process_table import POLL_S, descendants
from .refusal import Json
from .stage_folder import StageFolder
from .tools import find_tool

LEAST_S = 2.0  # to the next time
MOST = 8  # times that a command is inspected


class Looks:
    """Looks at one command; `done` counts them, `failed` says why there will be no more."""

    def __init__(self, command: Json, folder: StageFolder, children: Children) -> None:
        self.name = command["name"]
        self.inspection: Json = command["inspection"]
        self.folder = folder
        self.children = children
        self.began = time.monotonic()
        self.after_s = float(self.inspection["after_s"])
        self.done = 0
        self.times = 0
        self.failed = ""
        self.attached = False  # a debugger that was: the program writes no core dump any more
        self.disturbed = False

    def due(self) -> bool:
        return not self.failed and time.monotonic() - self.began >= self.after_s

    def find_hang(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether the program hangs for certain; else it is inspected again later."""
        self.times += 1
        hangs = self.all_wait(process)
        self.after_s = time.monotonic() - self.began + max(LEAST_S, self.inspection["after_s"])
        if self.times >= MOST and not self.failed:
            self.failed = f"inspected {self.times} times"
        return hangs and process.poll() is None

    def all_wait(self, process: subprocess.Popen[bytes]) -> bool:
        gdb = find_tool("cuda-gdb")
        pid = self.on_gpu()
        if gdb is None or not pid:
            self.failed = "no cuda-gdb to inspect it" if gdb is None else ""
            return False
        first = self.look(gdb, pid, "look", [])
        if first is None or not first.rows:
            return False
        questions = first.registers_too()
        again = self.look(gdb, pid, "look-1", questions)
        if again is None or (before := again.stands(self.inspection["waits"])) is None:
            return False
        limit = time.monotonic() + self.inspection["between_s"]
        while time.monotonic() < limit and process.poll() is None and not self.children.cancelled:
            self.children.beat()
            time.sleep(POLL_S)
        last = self.look(gdb, pid, "look-2", questions)
        if last is None or last.stands(self.inspection["waits"]) != before:
            return False
        if last.grids != again.grids or not any(again.registers):
            return False
        return last.registers == again.registers

    def triage(self) -> str:
        """Let cuda-gdb print which warps wait at which line; return a note on the outcome."""
        gdb, pid = find_tool("cuda-gdb"), self.on_gpu()
        if gdb is None or not pid or self.disturbed:
            return ""
        first = self.look(gdb, pid, "gdb", [])
        if first is not None and first.rows:
            first = self.look(gdb, pid, "gdb", first.symbols())
        return "inspected" if first is not None else ""

    def on_gpu(self) -> int:
        """Return the one process of the command that waits for a dump request: it uses CUDA."""
        mine = descendants(os.getpid())
        pids = set()
        for name in self.folder.names(f"{self.name}.pipe_"):
            with contextlib.suppress(ValueError):
                pids.add(int(name.rpartition("_")[2]))
        found = sorted(pids & mine)
        return found[0] if len(found) == 1 else 0

    def look(self, gdb: str, pid: int, kind: str, questions: list[str]) -> Look | None:
        """Attach, print and detach; None if that failed, and then there is no further look."""
        argv = [gdb, "-nx", "-batch", "-p", str(pid)]
        for command in (*LIST, *questions, "detach"):
            argv += ["-ex", command]
        name = f"{self.name}.gdb.txt" if kind == "gdb" else f"{self.name}.{kind}.gdb.txt"
        self.done += 1
        with self.folder.create(name) as output:
            code = self.children.run_helper(
                argv, self.folder.path, output, self.inspection["look_s"]
            )
        if code is None:
            # Killed while it was attached, it may have left the GPU halted.
            self.disturbed = True
        self.attached = self.attached or code in (0, None)
        if code != 0:
            self.failed = f"cuda-gdb could not inspect it (exit code {code})"
            return None
        return read_look(self.folder.real / name)
