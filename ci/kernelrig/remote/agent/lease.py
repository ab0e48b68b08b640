"""The lease of a GPU: one run at a time on it, across the users and work folders of a host.

A run that has a GPU keeps a record: who, which run, since when, until when at the latest, its
process, and a heartbeat. The record counts while that process lives and beats; a stale one is
passed over, and that is said. Runs in separate containers do not see one another's records.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import pwd
import re
import time
from collections.abc import Iterator

from .daemon import boot_id
from .journal import utc_now
from .lease_folder import mutex, open_folder, read_owned, write_new
from .process_table import process_stat
from .refusal import Json, Refused

STALE_S = 120.0
"""Without a heartbeat for so long a lease is broken, although its process lives."""
BEAT_S = 5.0
BEAT_BYTES = 24
"""A record begins with its heartbeat, seconds since boot, which is overwritten in place."""
SHOWN = 200


class Held(Refused):
    """The GPU is not free; `position` is the place in the queue of one that waits, from 1."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text, "busy")
        self.position = position


class Lease:
    """The leases of a run, on all GPUs that its programs see."""

    def __init__(self, run: str, gpus: list[str], seconds: float) -> None:
        self.run = run
        self.gpus = sorted(set(gpus))
        self.seconds = seconds
        self.files: dict[str, int] = {}
        self.broken: list[str] = []  # stale leases that were passed over
        self.beaten = time.monotonic()

    def take(self, *, wait: bool = False) -> None:
        """Take every GPU, or none: Held says who has one. With `wait` this run joins its queue.

        Of a run that has them already the record is renewed, with this process in it.
        """
        try:
            for gpu in self.gpus:
                self._take(gpu, wait=wait)
        except BaseException:
            self.drop()
            raise

    def await_turn(self) -> Json:
        """Return whether the GPUs are free for this run, which stays in their queue."""
        for gpu in self.gpus:
            with open_folder() as folder, mutex(folder, f"{gpu_key(gpu)}.mutex"):
                text, position = self._obstacle(folder, gpu)
                self._queue(folder, gpu)
            if text:
                return {"free": False, "text": text, "position": position}
        return {"free": True, "text": "", "position": 0}

    def _take(self, gpu: str, *, wait: bool) -> None:
        key = gpu_key(gpu)
        with open_folder() as folder, mutex(folder, f"{key}.mutex"):
            text, position = self._obstacle(folder, gpu)
            if text:
                if wait:
                    self._queue(folder, gpu)
                raise Held(text, position)
            with contextlib.suppress(OSError):
                os.unlink(self._wait_name(gpu), dir_fd=folder)
            self.files[gpu] = write_new(folder, lease_name(key), self._record(time.monotonic()))

    def _queue(self, folder: int, gpu: str) -> None:
        """Join the queue of a GPU; one that is in it keeps its place."""
        name = self._wait_name(gpu)
        before = parse(read_owned(folder, name, os.geteuid()))
        asked = before["asked"] if before and not stale(before) else time.monotonic()
        os.close(write_new(folder, name, self._record(asked)))

    def _obstacle(self, folder: int, gpu: str) -> tuple[str, int]:
        """Return who has the GPU or is before this run in its queue, and this run's place there."""
        holders = self._holders(folder, gpu)
        if not holders and self._renews(folder, gpu):
            return "", 1
        waiting = []
        for record, trouble in records(folder, gpu_key(gpu), "wait"):
            if not trouble:
                waiting.append((record["asked"], record["run"]))
            elif record["uid"] == os.geteuid():
                with contextlib.suppress(OSError):
                    os.unlink(record["file"], dir_fd=folder)
        waiting.sort()
        own = [i for i, (_, run) in enumerate(waiting) if run == self.run]
        ahead = own[0] if own else len(waiting)
        if holders:
            return described(gpu, holders[0]), ahead + 1
        if ahead:
            return f"runs that wait for {gpu}: {ahead}", ahead + 1
        return "", 1

    def _renews(self, folder: int, gpu: str) -> bool:
        """Return whether this run has the GPU: its daemon takes over from who launched it."""
        found = records(folder, gpu_key(gpu), "lease")
        return any(self._is_ours(record) and not trouble for record, trouble in found)

    def _is_ours(self, record: Json) -> bool:
        return (record["run"], record["uid"]) == (self.run, os.geteuid())

    def _holders(self, folder: int, gpu: str) -> list[Json]:
        found = []
        for record, trouble in records(folder, gpu_key(gpu), "lease"):
            if self._is_ours(record):
                continue
            if trouble:
                text = f"a stale lease was broken: {described(gpu, record)}; {trouble}"
                self.broken += [] if text in self.broken else [text]
            else:
                found.append(record)
        return found

    def _wait_name(self, gpu: str) -> str:
        digest = hashlib.sha256(self.run.encode()).hexdigest()[:12]
        return f"{gpu_key(gpu)}.{os.geteuid()}.{digest}.wait"

    def _record(self, asked: float) -> bytes:
        stat = process_stat(os.getpid())
        latest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.seconds))
        record = {
            "run": self.run,
            "since": utc_now(),
            "until": latest,
            "pid": os.getpid(),
            "start": stat[2] if stat else 0,
            "boot": boot_id(),
            "space": pid_space(),
            "asked": asked,
        }
        return beat_line() + json.dumps(record).encode()

    def beat(self) -> str:
        """Renew the heartbeats; return why a GPU is no longer this run's, empty if all are."""
        gap = time.monotonic() - self.beaten
        if gap < BEAT_S:
            return ""
        lost = ""
        if gap > STALE_S:  # stopped, or swapped out: another run may have taken the GPU since
            lost = next(filter(None, map(self._lost, self.gpus)), "")
        for file in self.files.values():
            with contextlib.suppress(OSError):
                os.pwrite(file, beat_line(), 0)
        self.beaten = time.monotonic()
        return lost

    def _lost(self, gpu: str) -> str:
        try:
            with open_folder() as folder, mutex(folder, f"{gpu_key(gpu)}.mutex"):
                holders = self._holders(folder, gpu)
                here = gpu in self.files and is_own(folder, gpu, self.files[gpu])
        except (OSError, Refused) as e:
            return str(e)
        if here and not holders:
            return ""
        who = described(gpu, holders[0]) if holders else f"the lease of {gpu} is gone"
        return f"this run did not beat for {STALE_S:.0f} s, and {who}"

    def drop(self) -> None:
        """Give every GPU back that this process took."""
        for gpu, file in self.files.items():
            with contextlib.suppress(OSError, Refused), open_folder() as folder:
                if is_own(folder, gpu, file):
                    os.unlink(lease_name(gpu_key(gpu)), dir_fd=folder)
            os.close(file)
        self.files = {}

    def leave(self) -> None:
        """Close the records and leave them to the run's daemon, which has taken them over."""
        for file in self.files.values():
            os.close(file)
        self.files = {}


def longest_s(job: Json) -> float:
    """Return how long the run may take: the limits of all its commands."""
    return float(sum(command["time_s"] for s in job["stages"] for command in s["commands"]))


def holder_of(gpu: str) -> str:
    """Return who has a GPU, for a person; empty if nobody has."""
    try:
        with open_folder() as folder:
            found = records(folder, gpu_key(gpu), "lease")
            return next((described(gpu, r) for r, trouble in found if not trouble), "")
    except (OSError, Refused) as e:
        return str(e)


def gpu_key(gpu: str) -> str:
    """Return the name of a GPU in file names: its UUID, or a hash of what is none."""
    if re.fullmatch(r"GPU-[0-9a-fA-F-]{4,60}", gpu):
        return gpu
    return hashlib.sha256(gpu.encode()).hexdigest()[:32]


def lease_name(key: str) -> str:
    return f"{key}.{os.geteuid()}.lease"


def login(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"


def pid_space() -> str:
    """Return what tells the process numbers of this container from those of others."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def beat_line() -> bytes:
    return f"{time.monotonic():{BEAT_BYTES - 1}.3f}\n".encode()


def is_own(folder: int, gpu: str, file: int) -> bool:
    """Return whether the lease in this user's place is the one that `file` is."""
    with contextlib.suppress(OSError):
        there = os.stat(lease_name(gpu_key(gpu)), dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(there, os.fstat(file))
    return False


def records(folder: int, key: str, kind: str) -> Iterator[tuple[Json, str]]:
    """Yield each record of a GPU with why it is stale, empty if it counts."""
    for name in sorted(os.listdir(folder)):
        found = re.fullmatch(rf"{re.escape(key)}\.([0-9]{{1,10}})(\.[0-9a-f]{{12}})?\.{kind}", name)
        record = parse(read_owned(folder, name, int(found.group(1)))) if found else None
        if found and record:
            record.update(uid=int(found.group(1)), file=name)
            yield record, stale(record)


def parse(text: bytes | None) -> Json | None:
    """Return the record in a file, None for what is none: it is another user's."""
    try:
        record = json.loads((text or b"")[BEAT_BYTES:])
        numbers = {name: int(record[name]) for name in ("pid", "start")}
        words = ("run", "since", "until", "boot", "space")
        shown = {name: str(record[name])[:SHOWN] for name in words}
        times = {"asked": float(record["asked"]), "beat": float((text or b"")[:BEAT_BYTES])}
        return {**shown, **numbers, **times} if all(map(math.isfinite, times.values())) else None
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None


def stale(record: Json) -> str:
    """Return why a record no longer counts, empty if it does."""
    if record["boot"] != boot_id():
        return "the host was booted since"
    if record["space"] == pid_space() and not lives(record["pid"], record["start"]):
        return f"its process {record['pid']} is gone"
    silence = time.monotonic() - record["beat"]
    if not -BEAT_S < silence < STALE_S:
        return f"its process {record['pid']} gave no sign of life for {STALE_S:.0f} s"
    return ""


def lives(pid: int, start: int) -> bool:
    """Return whether this very process lives; where /proc hides it, whether there is one."""
    stat = process_stat(pid)
    if stat is not None:
        return stat[0] not in "ZX" and stat[2] == start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    except OverflowError:
        return False
    return True


def described(gpu: str, record: Json) -> str:
    """Return who has a GPU since when, in one sentence."""
    who, run = login(record["uid"]), record["run"]
    return (
        f"{gpu} is leased by {who} for run {run} since {record['since']},"
        f" until {record['until']} at the latest"
    )
