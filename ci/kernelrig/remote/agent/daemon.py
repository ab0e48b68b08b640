"""The detached agent of a run: start it, and find out whether it is alive."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from .disk import write_file
from .process_table import is_alive, marker, process_stat
from .refusal import Json, Refused

ARCHIVE = "agent.pyz"
START_S = 10.0


def start_daemon(run: Path, lock: int) -> None:
    """Start the daemon with the lock `lock`; return once its first journal line is written.

    Raises Refused if there is no such line within START_S.
    """
    argv = [sys.executable or "python3", str(run / ARCHIVE), "run", str(run), str(lock)]
    env = {name: value for name, value in os.environ.items() if name not in marker(run)}
    with (run / "agent.log").open("ab") as log:
        subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=run,
            env=env,
            pass_fds=(lock,),
            start_new_session=True,
            check=False,
            timeout=30,
        )
    limit = time.monotonic() + START_S
    journal = run / "journal.jsonl"
    while not (journal.is_file() and journal.stat().st_size):
        if time.monotonic() > limit:
            lines = (run / "agent.log").read_text(errors="replace").strip().splitlines()
            raise Refused(f"the agent did not start: {lines[-1] if lines else 'no output'}")
        time.sleep(0.005)


def enter(run: Path) -> Json:
    """Record this process as the daemon of the run, and return the record."""
    stat = process_stat(os.getpid())
    me = {"pid": os.getpid(), "start": stat[2] if stat else 0}
    write_file(run / "agent.json", json.dumps(me).encode())
    return me


def beat(run: Path) -> None:
    """Renew the heartbeat; a full disk must not end the run for it."""
    with contextlib.suppress(OSError):
        (run / "heartbeat").touch()


def agent_of(run: Path) -> tuple[int, int] | None:
    """Return (pid, start time) of the run's living daemon, None when there is none."""
    try:
        entry = json.loads((run / "agent.json").read_bytes())
        found = int(entry["pid"]), int(entry["start"])
    except (OSError, ValueError, KeyError):
        return None
    return found if is_alive(*found) else None


def seconds_since_beat(run: Path) -> float:
    """Return the age of the heartbeat in seconds, 0.0 without one."""
    with contextlib.suppress(FileNotFoundError):  # on a full disk it could not be created
        return time.time() - (run / "heartbeat").stat().st_mtime
    return 0.0
