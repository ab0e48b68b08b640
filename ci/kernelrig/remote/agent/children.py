"""The processes that a run starts. The daemon has one thread: every wait goes through `wait`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from . import daemon
from .process_table import (
    POLL_S,
    descendants,
    kill_all,
    kill_children,
    marker,
    marks,
    opened_process,
    signal_group,
)

BEAT_S = 1.0


class Interrupted(Exception):
    """The host takes the run's place away: another agent goes on with it later."""


LIBC = ctypes.CDLL(None, use_errno=True)


PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def prctl(option: int, value: int) -> str:
    """Set a property of this process; return why that failed, empty if it did not."""
    if LIBC.prctl(option, value, 0, 0, 0) == 0:
        return ""
    return os.strerror(ctypes.get_errno())


def die_with_agent() -> None:
    """Run in the child before exec: it gets KILL when its agent dies, and writes no CPU core."""
    if trouble := prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        os.write(2, f"this process would outlive a killed agent: {trouble}\n".encode())
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end_with_parent() -> None:
    """Ask for TERM when the parent dies: what runs for a client in the foreground ends with it."""
    if trouble := prctl(PR_SET_PDEATHSIG, signal.SIGTERM):
        os.write(2, f"this run would outlive a killed client: {trouble}\n".encode())


def adopt_orphans() -> str:
    """Make this process the reaper of its descendants: double-forked ones become its children.

    Return why it is not, empty if it is.
    """
    trouble = prctl(PR_SET_CHILD_SUBREAPER, 1)
    if not trouble:
        return ""
    return f"processes that a program detaches are found by their environment alone: {trouble}"


class Children:
    """Starts, waits for and ends processes with the run's marker; waiting keeps the heartbeat."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.cancelled = False
        self.escaped = False
        self.beaten = 0.0
        self.stage = ""  # the one that they are of alone, while others run beside it
        self.on_beat: Callable[[], None] = lambda: None
        self.on_cancelled: Callable[[], None] = lambda: None

    def beat(self) -> None:
        """Renew the heartbeat, at most once per BEAT_S: the run's file, or a stage's own sign."""
        if time.monotonic() - self.beaten >= BEAT_S:
            self.beaten = time.monotonic()
            if not self.stage:
                daemon.beat(self.run)
            self.on_beat()

    def start(
        self, argv: list[str], folder: Path, env: dict[str, str], out: BinaryIO, err: BinaryIO
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, **env, **marker(self.run, self.stage)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=die_with_agent,
        )

    def wait(self, process: subprocess.Popen[bytes], limit_s: float) -> bool:
        """Wait for the end of a process, with heartbeats; false at the limit."""
        deadline = time.monotonic() + limit_s
        pause = 0.001
        with opened_process(process.pid) as exits:
            while process.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.beat()
                select.select(exits, [], [], min(pause, left))
                pause = min(pause * 2, POLL_S)
        return True

    def run_helper(
        self, argv: list[str], folder: Path, output: BinaryIO, limit_s: float
    ) -> int | None:
        """Run one of the agent's own tools in `folder`; return its exit code.

        None: it could not be started, or did not end within `limit_s`.
        """
        try:
            process = self.start(argv, folder, {}, output, output)
        except OSError as e:
            output.write(f"{argv[0]}: {e.strerror}\n".encode())
            return None
        if self.wait(process, limit_s):
            return process.returncode
        signal_group(process.pid, signal.SIGKILL)
        self.wait(process, 1.0)
        output.seek(0, os.SEEK_END)
        output.write(f"{argv[0]} did not end within {limit_s:.0f} s\n".encode())
        return None

    def end_strays(self) -> int:
        """Kill what a command left behind and return how many processes that were.

        They are found by the run's marker in their environment, and as children of this subreaper.
        `escaped` is set if there are more of them to the end.
        """

        chased: set[int] = set()

        def find() -> set[int]:
            chased.update(kill_children())
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            marked = marks(self.run.parents[1], self.stage)
            mine = {pid for pid, run in marked.items() if run == self.run.name}
            return mine | descendants(os.getpid())

        killed, self.escaped = kill_all(find, self.beat)
        return len(killed | chased)
