"""The agent's folder on the host: blobs, runs, cached results, and the lock that runs share.

The lock is per folder, not per machine; what keeps runs of other folders and users off a GPU is its
lease.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from .blobs import Blobs
from .daemon import agent_of
from .disk import remove_tree, write_file
from .process_table import kill_all, marks
from .refusal import Refused

FRESH_S = 600.0
"""What is so new is not pruned: a blob may be of a run that is about to be launched, and a run that
has just ended is not collected yet; its client, connecting again, would launch it a second time."""

RESULT_CACHE = "result_cache"
IDLE_SETTINGS, LAST_USE = "idle.json", "last_use"
"""Where idle_watch, if there is one, is told what to run when, and when the workdir was used."""

GPUS = "gpus"
OLD_RESULT_CACHE = "once"  # what an agent of an older version called it: only pruned


class InUse(Refused):
    """The lock is held, by or for the run `holder`."""

    def __init__(self, holder: str, taken: str) -> None:
        super().__init__(f"run {holder} is using this host since {taken}", "busy")
        self.holder = holder


class Workdir:
    """The paths in the workdir, its lock, and its clean-up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.caches = (path / RESULT_CACHE, path / OLD_RESULT_CACHE)
        self.blobs = Blobs(path / "blobs")

    @classmethod
    def find(cls, text: str) -> Workdir:
        """Return the workdir that remotes.yaml names: below the login's home, if not absolute."""
        if text.startswith("/"):
            return cls(Path(text))
        try:
            return cls(Path.home() / Path(text).expanduser())
        except RuntimeError as e:
            hint = "set HOME there, or an absolute `workdir` for this remote"
            raise Refused(f"the login has no home for the workdir: {hint}") from e

    def make(self) -> None:
        """Make the folders; Refused, with the reason, where that cannot be."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as e:
            hint = "name another `workdir` for this remote"
            raise Refused(f"the workdir is no folder: a file is in its place; {hint}") from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise Refused(f"{self.path} cannot be written to")
        for folder in (self.runs, self.blobs.folder):
            folder.mkdir(exist_ok=True)

    def all(self) -> list[Workdir]:
        """Return this workdir and those of single GPUs that sweeps of older versions made below it.

        Nothing is followed out of it: a link is none of them.
        """
        below = self.path / GPUS
        if below.is_symlink() or not below.is_dir():
            return [self]
        own = (p for p in sorted(below.iterdir()) if not p.is_symlink() and (p / "runs").is_dir())
        found = [self, *map(Workdir, own)]
        return [w for w in found if not w.runs.is_symlink() and w.blobs.folder.is_dir()]

    def note_use(self) -> None:
        """Begin the idle time anew, where it is watched."""
        if (self.path / IDLE_SETTINGS).exists():
            with contextlib.suppress(OSError):  # a full disk: the host may end early, not a request
                write_file(self.path / LAST_USE, f"{time.monotonic():.3f}\n".encode())

    def run_folder(self, run_id: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
            raise Refused(f"'{run_id}' is not a run id")
        return self.runs / run_id

    def known_run(self, run_id: str) -> Path:
        """Return the folder of a run that was started; its journal may be gone, or be no file."""
        run = self.run_folder(run_id)
        if os.path.lexists(run / "journal.jsonl") or agent_of(run) is not None:
            return run
        if self.holder() == run.name:
            raise Refused(f"run {run.name} is being started", "busy")
        if not (run / "job.json").is_file():
            raise Refused(f"run {run.name} is not under {self.path}", "unknown run")
        return run

    def holder(self) -> str:
        """Return the run that holds the lock, empty if none does."""
        try:
            lock = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ""
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(lock, 4096, 0).decode(errors="replace").strip()
        finally:
            os.close(lock)
        return ""

    def take_lock(self, run_id: str) -> int:
        """Take the lock: one run per workdir at a time. The daemon inherits and holds it."""
        # flock belongs to the open file: the kernel releases it with the last process that
        # inherited it, however that ends, so that no lock outlives its run.
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 4096, 0).decode(errors="replace").strip()
            taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.fstat(lock).st_mtime))
            os.close(lock)
            raise InUse(holder, taken) from None
        try:
            os.ftruncate(lock, 0)
            os.pwrite(lock, run_id.encode(), 0)
        except OSError:  # a full disk
            os.close(lock)
            raise
        return lock

    def end_orphans(self) -> int:
        """End processes of runs of this workdir whose agent is gone; return how many."""

        def find() -> list[int]:
            mine = ((pid, self.runs / run) for pid, run in marks(self.path).items())
            return [pid for pid, run in mine if run.is_dir() and agent_of(run) is None]

        return len(kill_all(find, lambda: None)[0])

    def prune(
        self, keep_s: float, utc_s: float, is_under_way: Callable[[Path], bool]
    ) -> tuple[int, list[str]]:
        """Remove what is older, and not fresh: ended runs, blobs of no kept run, cached results.

        `utc_s` is the client's clock: one of the two that is years ahead must not remove all.
        Return the bytes freed and the names of the runs removed.
        """
        now = min(time.time(), utc_s)
        oldest = now - keep_s
        not_fresh = min(oldest, now - FRESH_S)
        freed = 0
        removed: list[str] = []
        used: set[str] = set()
        for run in sorted(self.runs.iterdir()):
            touched = [p.stat().st_mtime for p in (run, run / "journal.jsonl") if p.exists()]
            if not is_under_way(run) and max(touched) <= not_fresh:
                freed += remove_tree(run)
                removed.append(run.name)
                continue
            with contextlib.suppress(OSError, ValueError):
                job = json.loads((run / "job.json").read_bytes())
                used.update(entry["sha256"] for entry in job["files"])
        self.blobs.remove_stale_parts()
        for blob in self.blobs.folder.iterdir():
            if blob.name not in used and blob.stat().st_mtime <= not_fresh:
                freed += remove_tree(blob)
        for kept in [entry for cache in self.caches if cache.is_dir() for entry in cache.iterdir()]:
            if kept.stat().st_mtime <= oldest:
                freed += remove_tree(kept)
        return freed, removed
