"""The detached agent of a run: start it, and find out whether it is alive."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from pathlib import Path

from .disk import disk_reason, write_file
from .process_table import is_alive, process_stat
from .refusal import Json, Refused
from .remote_variables import ADOPTED
from .standby import Standby

START_S = 30.0


def start_daemon(
    run: Path, lock: int, standby: Standby, key: str = "", start_s: float = START_S
) -> None:
    """Start the daemon with the lock `lock`; return once its first journal line is written.

    Raises Refused, with the reason, if there is no such line within START_S.
    """
    limit = time.monotonic() + start_s
    alive, held = os.pipe()  # the daemon holds its end for as long as it lives
    try:
        with (run / "agent.log").open("ab") as log:
            order = {"run": str(run), "env": ADOPTED, "key": key}
            standby.start(order, lock, held, log.fileno())
    except OSError as e:
        os.close(alive)
        text = f"the process that starts it is gone ({e.strerror}): has the host no memory left?"
        raise not_started(run, text) from e
    finally:
        os.close(held)
    journal, gone = run / "journal.jsonl", False
    try:
        while not (journal.is_file() and journal.stat().st_size):
            if gone or time.monotonic() > limit:
                early = "it ended before its first line"
                raise not_started(run, early if gone else f"no journal within {start_s:g} s")
            gone = bool(select.select([alive], [], [], 0.002)[0])
    finally:
        os.close(alive)


def not_started(run: Path, how: str) -> Refused:
    """Return the refusal: a full disk or the last line of the log explains most."""
    full = disk_reason(run)
    if full:
        return Refused(f"the agent did not start: {full}", "full")
    lines = (run / "agent.log").read_text(errors="replace").strip().splitlines()
    last = lines[-1].strip() if lines else "it printed nothing"
    return Refused(f"the agent did not start: {how}: {last}")


def enter(run: Path) -> Json:
    """Record this process as the daemon of the run, and return the record."""
    stat = process_stat(os.getpid())
    me = {"pid": os.getpid(), "start": stat[2] if stat else 0, "boot": boot_id()}
    write_file(run / "agent.json", json.dumps(me).encode())
    return me


def boot_id() -> str:
    """Return what tells this boot of the machine from others; empty where /proc does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def beat(run: Path) -> None:
    """Renew the heartbeat; a full disk must not end the run for it.

    It is the time since boot: the host's clock may be wrong, and may be set during the run.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        file = os.open(run / "heartbeat", flags, 0o600)
        try:
            os.write(file, f"{time.monotonic():.3f}\n".encode())
        finally:
            os.close(file)


def agent_of(run: Path) -> tuple[int, int] | None:
    """Return (pid, start time) of the run's living daemon, None when there is none."""
    try:
        entry = json.loads((run / "agent.json").read_bytes())
        found = int(entry["pid"]), int(entry["start"])
        booted = entry.get("boot", boot_id()) == boot_id()
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        return None
    return found if booted and is_alive(*found) else None


def seconds_since_beat(run: Path) -> float:
    """Return the age of the heartbeat in seconds, 0.0 without one."""
    with contextlib.suppress(OSError, ValueError):  # on a full disk it could not be written
        return max(0.0, time.monotonic() - float((run / "heartbeat").read_text()))
    return 0.0
