"""Run one command, from its start to the end of the last process that it left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from typing import BinaryIO

from .children import Children
from .core_dump import CoreDump
from .disk import disk_reason, floor_bytes, free_bytes, tree_bytes
from .journal import Ending, Events
from .looks import Looks
from .process_table import GRACE_S, KILL_WAIT_S, POLL_S, signal_group
from .refusal import Json
from .stage_folder import StageFolder

CANCELLED = "the run was cancelled"
HUNG = ("time limit", "hang")  # what would run no further if it were started again


class Attempt:
    """Starts a command and enforces its limits; `run` returns when no process of it is left."""

    def __init__(
        self, children: Children, journal: Events, stage: Json, command: Json, folder: StageFolder
    ) -> None:
        self.children = children
        self.journal = journal
        self.stage = stage
        self.command = command
        self.folder = folder
        self.core = CoreDump(command["name"], folder, children)
        self.logs: list[BinaryIO] = []
        self.bytes_before = 0
        self.looks: Looks | None = None
        self.process: subprocess.Popen[bytes]
        self.ending: Ending

    def run(self) -> Ending:
        """Run the command to its end or limit and return how it ended."""
        command, argv = self.command, self.command["argv"]
        env = dict(command["env"], **(self.core.environment() if command["core_dump"] else {}))
        self.bytes_before = tree_bytes(self.folder.real)
        name = command["name"]
        began = time.monotonic()
        try:
            self.note_command()
            for log in (command["stdout"] or f"{name}.stdout.log", f"{name}.stderr.log"):
                self.logs.append(self.folder.create(log))
            self.process = self.children.start(argv, self.folder.path, env, *self.logs)
        except OSError as e:
            return self.not_started(e)
        names = {"stage": self.stage["name"], "command": command["name"]}
        self.journal.write("command_started", pid=self.process.pid, **names)
        self.ending = self.watch()
        self.ending.seconds = round(time.monotonic() - began, 3)
        dumped = False
        if self.ending.ended_by in HUNG:
            dumped = self.diagnose()
            self.core.note_gpu()
        self.end()
        self.ending.strays = self.children.end_strays()
        if dumped and not self.children.cancelled:
            self.ending.add(self.core.read_core())
            self.children.end_strays()
        if self.looks is not None:
            self.ending.looks, self.ending.disturbed = self.looks.done, self.looks.disturbed
            if self.looks.failed and self.ending.ended_by == "time limit":
                self.ending.add(self.looks.failed)
        self.tidy()
        if self.ending.ended_by == "exit":
            self.judge_exit()
        return self.ending

    def not_started(self, error: OSError) -> Ending:
        full = disk_reason(self.folder.real)
        if full:
            return Ending("disk full", full)
        name = error.filename or self.command["argv"][0]
        return Ending("not started", f"{name}: {error.strerror}")

    def note_command(self) -> None:
        """Write the command as a shell takes it in the stage's folder, for whoever debugs it."""
        env = [f"{name}={value}" for name, value in sorted(self.command["env"].items())]
        words = [*(["env", *env] if env else []), *self.command["argv"]]
        line = " ".join(shlex.quote(word) for word in words)
        with self.folder.create(f"{self.command['name']}.command") as file:
            file.write(f"{line}\n".encode())

    def diagnose(self) -> bool:
        """Record where the warps are; return whether there is a GPU core dump still to be read."""
        if self.looks is not None and self.looks.attached:
            if self.ending.ended_by == "time limit" and (note := self.looks.triage()):
                self.ending.add(note)
            return False
        return bool(self.command["core_dump"]) and self.take_core()

    def take_core(self) -> bool:
        """Request a GPU core dump; return whether there is one, else the ending has the reason."""
        trouble = self.core.take_core(self.process)
        if trouble:
            self.ending.add(trouble)
        return not trouble

    def watch(self) -> Ending:
        """Wait until the command ends or passes a limit; the caller then ends it."""
        time_s = self.command["time_s"]
        deadline = time.monotonic() + time_s
        if self.command.get("inspection"):
            self.looks = Looks(self.command, self.folder, self.children)
        real = self.folder.real
        floor = floor_bytes(real)
        look_at = 0.0
        pause = 0.001
        wait = self.children.wait
        while not wait(self.process, min(pause, max(0.0, deadline - time.monotonic()))):
            pause = min(pause * 2, POLL_S)
            now = time.monotonic()
            if self.children.cancelled:
                self.children.on_cancelled()
                return Ending("cancelled", CANCELLED)
            if now >= deadline:
                return Ending("time limit", f"it ran {time_s:g} s, its limit")
            if over := self.over_output():
                return over
            if free_bytes(real) < floor:
                return Ending("disk full", f"the disk is full: less than {floor} bytes free")
            if self.looks is not None and self.looks.due() and self.looks.find_hang(self.process):
                return Ending(
                    "hang", "every warp waits for a barrier, twice with the same registers"
                )
            if now >= look_at:
                over = self.over_disk()
                # Measuring a folder of many files is slow: spend at most a tenth of the time on it.
                look_at = time.monotonic() + max(0.2, 10 * (time.monotonic() - now))
                if over:
                    return over
        # A short command may pass its limits between two looks: what it left is then not whole.
        over = self.over_output() or self.over_disk()
        if over and (full := disk_reason(self.folder.real)):
            return Ending("disk full", full)
        return over or Ending("exit")

    def over_output(self) -> Ending | None:
        most: int = self.stage["output_bytes"]
        if sum(map(log_bytes, self.logs)) <= most:
            return None
        return Ending("output limit", f"more than {most} bytes of output")

    def over_disk(self) -> Ending | None:
        most: int = self.stage["disk_bytes"]
        if tree_bytes(self.folder.real) - self.bytes_before <= most:
            return None
        return Ending("disk limit", f"more than {most} bytes of files")

    def end(self) -> None:
        """End the command's process group: TERM, a grace, KILL."""
        process, ending = self.process, self.ending
        if process.poll() is None:
            signal_group(process.pid, signal.SIGTERM)
            if not self.children.wait(process, GRACE_S):
                signal_group(process.pid, signal.SIGKILL)
                self.children.wait(process, KILL_WAIT_S)
        if process.returncode is None:
            ending.add(f"process {process.pid} does not end after SIGKILL")
        elif process.returncode < 0 and ending.ended_by == "signal":
            ending.signal = -process.returncode

    def judge_exit(self) -> None:
        """Record exit code or signal; a failure on a full disk counts as `disk full`."""
        code, ending = self.process.returncode, self.ending
        full = disk_reason(self.folder.real)
        if code not in self.command["ok_exit"] and full:
            ending.ended_by, ending.detail = "disk full", full
        elif code < 0:
            ending.ended_by, ending.signal = "signal", -code
        else:
            ending.exit = code

    def tidy(self) -> None:
        """Truncate logs that passed their limit between two looks, and remove the dump pipes."""
        for log in self.logs:
            if log_bytes(log) > self.stage["output_bytes"]:
                log.truncate(self.stage["output_bytes"])
            log.close()
        self.core.remove_pipes()


def log_bytes(log: BinaryIO) -> int:
    """Return the size of a log by its descriptor: the program may have removed its name."""
    return os.fstat(log.fileno()).st_size
