"""End a rented host that nobody uses: once its workdir was idle for so long, run a command there.

Idle is a workdir without a run under way and without a request of a client. The watch is a process
of its own, so that it needs no client. A reboot ends it, like everything on the host.

WORKDIR/idle.json  the command and the seconds; removed, the watch ends
WORKDIR/last_use   the time since boot of the last request or run
WORKDIR/idle.log   when the command was run, and what it printed
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from .disk import write_file
from .journal import utc_now
from .packed import packed
from .process_table import MARKERS, POLL_S
from .refusal import Refused
from .remote_variables import STARTED_WITH
from .workdir import IDLE_SETTINGS, LAST_USE, InUse, Workdir

LOG, LOCK, ARCHIVE = "idle.log", "idle.lock", "idle.pyz"
START_S = 30.0
COMMAND_S = 60.0
AGAIN_S = 60.0
"""After so long the command is run again: the host is still there."""
LONGEST_PAUSE_S = 5.0
HOLDER = "the-idle-watch"


def arm(workdir: Workdir, argv: list[str], idle_s: float, texts: dict[str, str]) -> None:
    """Watch from now on, with these settings; Refused if no watch starts."""
    settings = json.dumps({"argv": argv, "idle_s": idle_s}).encode()
    write_file(workdir.path / IDLE_SETTINGS, settings)
    workdir.note_use()
    if watched(workdir.path):
        return
    write_file(workdir.path / ARCHIVE, packed(texts))
    words = [sys.executable or "python3", str(workdir.path / ARCHIVE), "watch", str(workdir.path)]
    env = {k: v for k, v in STARTED_WITH.items() if k not in MARKERS}
    with (workdir.path / LOG).open("ab") as log:
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=env,
            start_new_session=True,
            check=False,
            timeout=START_S,
        )
    limit = time.monotonic() + START_S
    while not watched(workdir.path):
        if time.monotonic() > limit:
            raise Refused("the idle watch did not start: see idle.log in the workdir")
        time.sleep(POLL_S)


def watched(path: Path) -> bool:
    """Return whether a watch lives: it holds a lock as long as it does."""
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def watch(path: Path) -> None:
    """Watch until the settings are gone; the caller has detached this process."""
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        for last in (False,) * 20 + (True,):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # `watched` holds it for an instant, another watch for good
                if last:
                    raise
                time.sleep(POLL_S)
        workdir, used = Workdir(path), time.monotonic()
        while True:
            settings = json.loads((path / IDLE_SETTINGS).read_bytes())
            idle_s = float(settings["idle_s"])
            with contextlib.suppress(OSError, ValueError):
                used = max(used, float((path / LAST_USE).read_text()))
            if workdir.holder():
                used = time.monotonic()
            left_s = used + idle_s - time.monotonic()
            if left_s <= 0 and end_host(workdir, settings["argv"]):
                used = time.monotonic() + AGAIN_S - idle_s
                left_s = AGAIN_S
            time.sleep(max(POLL_S, min(left_s, LONGEST_PAUSE_S)))


def end_host(workdir: Workdir, argv: list[str]) -> bool:
    """Run the command under the lock of the workdir, so that no run starts; false if one does."""
    try:
        lock = workdir.take_lock(HOLDER)
    except InUse:
        return False
    try:
        with (workdir.path / LOG).open("ab") as log:
            log.write(f"{utc_now()} idle: {argv}\n".encode())
            log.flush()
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    check=False,
                    timeout=COMMAND_S,
                )
    finally:
        os.close(lock)
    return True
