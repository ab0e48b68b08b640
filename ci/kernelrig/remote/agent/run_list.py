"""What lies in the workdir: each run, whether it goes on, and how far it has come."""

from __future__ import annotations

import contextlib
import pwd
import stat
import time
from pathlib import Path

from .agents import HostAgents
from .journal import journal_events
from .refusal import Json
from .workdir import Workdir

JOURNAL_BYTES = 4 << 20  # of a journal that is read for the list


def list_runs(workdir: Workdir, agents: HostAgents, most: int) -> Json:
    """Return the last `most` runs, and how many there are.

    A program of a run may have written into its journal: what is told of it is for people.
    """
    runs = (p for own in workdir.all() for p in own.runs.iterdir())
    folders = [p for p in runs if p.is_dir() and not p.is_symlink()]
    folders.sort(key=lambda p: (p.lstat().st_mtime, p.name), reverse=True)
    return {"runs": [_described(p, agents) for p in folders[:most]], "count": len(folders)}


def _described(run: Path, agents: HostAgents) -> Json:
    alive = agents.alive(run)
    found: Json = {
        "id": run.name,
        "alive": alive,
        "quiet_s": round(agents.quiet_s(run), 1) if alive else 0.0,
        "waits": agents.waits(run) if alive else "",
        "owner": _owner(run),
        "since_utc": "",
        "until_utc": "",
        "ended_stages": 0,
        "stage": "",
        "ended": "",
    }
    journal = run / "journal.jsonl"
    with contextlib.suppress(OSError):
        status = journal.lstat()
        if not alive:
            found["until_utc"] = _utc(status.st_mtime)
        if stat.S_ISREG(status.st_mode) and status.st_size <= JOURNAL_BYTES:
            running: dict[str, tuple[str, int]] = {}
            for event, _ in journal_events(journal, 0):
                _take(found, event, running)
            # In the order of the plan: of those that run beside each other any may be heard first.
            found["stage"] = ", ".join(sorted(running, key=lambda stage: running[stage][1]))
    return found


def _take(found: Json, event: Json, running: dict[str, tuple[str, int]]) -> None:
    """Take note of an event; `running` are the stages under way: their GPU, and place in the plan.

    A program of the run may have written into the journal: what it says is shown, and trusted with
    nothing.
    """
    kind, stage = event["event"], str(event.get("stage"))
    if kind == "run_started":
        found["since_utc"] = str(event.get("utc"))
    elif kind == "stage_started":
        gpu = str(event.get("gpu") or "")
        for other in [s for s, (g, _) in running.items() if not (gpu and g and gpu != g)]:
            del running[other]
        index = event.get("index")
        running[stage] = gpu, index if isinstance(index, int) else 0
    elif kind == "stage_ended":
        running.pop(stage, None)
        found["ended_stages"] += 1
    elif kind == "finished":
        found["ended"] = str(event.get("reason"))


def _owner(run: Path) -> str:
    user = run.lstat().st_uid
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # a container without a list of users
        return str(user)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
