"""Create a run's folder from uploaded blobs and start its daemon."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from .blobs import Blobs, unpack_tar
from .daemon import start_daemon
from .disk import safe_relative, sha256_head, write_file
from .journal import lay_ballast
from .lease import Held, Lease, longest_s
from .process_table import POLL_S
from .refusal import Json, Refused
from .standby import Standby
from .workdir import InUse, Workdir

LAUNCH_S = 120.0
"""What a launch may take: tools of 60 MB are unpacked."""


def launch(
    workdir: Workdir, job: Json, standby: Standby, *, wait: bool = False, key: str = ""
) -> Json:
    """Start the job's run; `already` if it was started before: launched twice, it runs once.

    `key` seals its journal, and is in no file. Its GPUs are leased first, and `notes` says what
    stale leases that broke. One that may `wait` joins their queue where they are not free, and is
    refused all the same.
    """
    run = workdir.run_folder(job["run"])
    lease = Lease(run.name, job.get("gpus", []), longest_s(job))
    lock = claim(workdir, run)
    if lock is None:
        # The reply to the first launch was lost with its connection.
        if json.loads((run / "job.json").read_bytes()) == job:
            return {"already": True, "notes": []}
        raise Refused(f"run {run.name} is already on this host, with another job")
    try:
        lease.take(wait=wait)
        workdir.end_orphans()
        shutil.rmtree(run, ignore_errors=True)
        lay_out(run, job, workdir.blobs)
        lay_ballast(run)
        write_file(run / "job.json", json.dumps(job).encode())
        start_daemon(run, lock, standby, key)
    except Held:
        raise
    except BaseException:
        lease.drop()
        shutil.rmtree(run, ignore_errors=True)
        raise
    finally:
        lease.leave()  # to the daemon, which has taken it over by now
        os.close(lock)
    return {"already": False, "notes": lease.broken}


def claim(workdir: Workdir, run: Path) -> int | None:
    """Return the lock, or None if the run was launched before.

    A launch whose connection dropped may still be under way, in another process that holds the lock
    for this very run: its outcome is waited for.
    """
    limit = time.monotonic() + LAUNCH_S
    while not (run / "journal.jsonl").is_file():
        try:
            return workdir.take_lock(run.name)
        except InUse as e:
            if e.holder != run.name or time.monotonic() > limit:
                raise
        time.sleep(POLL_S)
    return None


def lay_out(run: Path, job: Json, blobs: Blobs) -> None:
    """Put the job's files into the run, copied: a program of the run may write into its own."""
    (run / "stages").mkdir(parents=True)
    for entry in job["files"]:
        blob = blobs.path(entry["sha256"])
        target = run / safe_relative(entry["path"])
        target.parent.mkdir(parents=True, exist_ok=True)
        if not blob.is_file() or sha256_head(blob, blob.stat().st_size) != entry["sha256"]:
            raise Refused(f"the blob of {entry['path']} is not on the host", "missing blob")
        if entry.get("unpack"):
            unpack_tar(blob, target)
        else:
            shutil.copyfile(blob, target)
            target.chmod(entry["mode"])
