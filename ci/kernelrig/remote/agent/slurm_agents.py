"""Runs as jobs of Slurm, seen from the login node: submit, look, cancel, close.

RUN/slurm.json    the name of the job, filed before it is submitted
RUN/cancelled     made before `scancel`: the agent of the job is told so by its SIGTERM
RUN/probe.json    the facts of the node that was probed before the launch
RUN/attempt       which job and attempt the run is in: an agent that reads another one here ends
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .agents import HostAgents
from .disk import write_file
from .earlier import Earlier
from .journal import Journal, lay_ballast
from .packed import packed
from .refusal import Json, Refused
from .remote_variables import ADOPTED
from .slurm import PREFIX, JobState, Slurm
from .start import lay_out
from .workdir import InUse, Workdir

JOB, CANCELLED, PROBE, ATTEMPT = "slurm.json", "cancelled", "probe.json", "attempt"
PROBES, FACTS = "probes", "facts.json"
ARCHIVE = "agent.pyz"
PROBE_MINUTES = 5
FRESH_S = 3600.0
"""For so long the facts of a node that was probed, or ran a job, count for the next run."""

UNSEEN_LOOKS = 3
"""A job that is gone is looked for so often: folders that machines share show a file late."""
LEAVES_S = 3.0
"""In which an agent finds out, once a second, that its attempt is over, and leaves."""
END_S = 90.0
"""What a job may take to end after scancel: KillWait of the cluster, and its epilog."""
LOCK_S, PAUSE_S = 120.0, 0.2


class SlurmAgents(HostAgents):
    """The agents of a workdir as jobs."""

    def __init__(self, workdir: Workdir, options: Json, texts: dict[str, str]) -> None:
        super().__init__(workdir)
        self.slurm = Slurm(options)
        self.archive = packed(texts)
        self.unseen = 0

    # whether a run goes on

    def state(self, run: Path) -> JobState | None:
        """Return what Slurm says of the run's job, None for no such job."""
        return self.slurm.find(job_name(run))

    def alive(self, run: Path) -> bool:
        """Return whether the job waits or runs; while the controller is silent it is taken to."""
        jobs = self.slurm.look()
        if jobs is None:
            return True
        state = jobs.get(job_name(run))
        return state is not None and not state.over

    def process(self, _: Path) -> int:
        return 0  # it is on a node

    def quiet_s(self, _: Path) -> float:
        return 0.0  # Slurm itself looks after its nodes

    def waits(self, run: Path) -> str:
        jobs = self.slurm.look()
        if jobs is None:
            return "the controller of Slurm does not answer"
        state = jobs.get(job_name(run))
        return state.waits if state is not None else ""

    def named(self, run: Path) -> str:
        return f"job {job_name(run)}"

    def finalize(self, run: Path) -> str:
        """Close the journal of a run whose job is over, unless its agent has done so."""
        for _ in range(UNSEEN_LOOKS):
            if self._earlier(run).finished or self.alive(run):
                return ""
            time.sleep(self.slurm.poll_s)
        self._close(run, self._why_over(run), cancelled=(run / CANCELLED).exists())
        return ""

    def cancel(self, run: Path) -> bool:
        """Cancel the job, which may still wait; false if it was over already."""
        if not self.alive(run):
            return False
        write_file(run / CANCELLED, b"")
        self.slurm.cancel(job_name(run))
        limit = time.monotonic() + END_S
        while self.alive(run):
            if time.monotonic() > limit:
                raise Refused(f"{self.named(run)} did not end within {END_S:g} s of scancel")
            time.sleep(PAUSE_S)
        self._close(run, "the run was cancelled", cancelled=True)
        return True

    def _why_over(self, run: Path) -> str:
        state = (self.slurm.look() or {}).get(job_name(run))
        if state is None:
            return "its job is no longer known to Slurm"
        limit = f", {self.slurm.options['time_minutes']} min" if state.state == "TIMEOUT" else ""
        last = "" if (run / "journal.jsonl").exists() else last_line(run / "agent.log")
        return f"Slurm ended job {state.job}: {state.state}{limit}{last}"

    def _earlier(self, run: Path) -> Earlier:
        return Earlier(run, json.loads((run / "job.json").read_bytes()))

    def _close(self, run: Path, reason: str, *, cancelled: bool) -> None:
        with locked(run / "closing"):
            if self._earlier(run).finished:
                return
            # Of a job that the controller has lost an agent may still be there.
            write_file(run / ATTEMPT, b"closed")
            if job_name(run) not in (self.slurm.look() or {}):
                time.sleep(LEAVES_S)
            earlier = self._earlier(run)
            if not earlier.finished:
                journal = Journal(run, written=earlier.data)
                earlier.close(journal, run.name, reason, cancelled=cancelled)

    # starting

    def launch(self, job: Json) -> Json:
        """Submit the run's job; `already` if it was submitted before."""
        run = self.workdir.run_folder(job["run"])
        with self._launching(run.name):
            if (run / JOB).is_file():
                if json.loads((run / "job.json").read_bytes()) != job:
                    raise Refused(f"run {run.name} is already on this host, with another job")
                if (run / "journal.jsonl").is_file() or self.state(run) is not None:
                    return {"already": True, "notes": []}
            shutil.rmtree(run, ignore_errors=True)
            try:
                self._submit(run, job)
            except BaseException:
                shutil.rmtree(run, ignore_errors=True)
                raise
        return {"already": False, "notes": []}

    def _submit(self, run: Path, job: Json) -> None:
        lay_out(run, job, self.workdir.blobs)
        lay_ballast(run)
        write_file(run / ARCHIVE, self.archive)
        write_file(run / "job.json", json.dumps(job).encode())
        facts = self._probes() / FACTS
        if facts.is_file():
            write_file(run / PROBE, facts.read_bytes())
        name = f"{PREFIX}{run.name}"
        write_file(run / JOB, json.dumps({"name": name, "probes": str(facts)}).encode())
        self.slurm.submit(run, name, agent_words(run, "job"), self.slurm.options["time_minutes"])

    @contextlib.contextmanager
    def _launching(self, run: str) -> Iterator[None]:
        """Hold the lock of the workdir: two clients may launch at the same time."""
        limit = time.monotonic() + LOCK_S
        while True:
            try:
                lock = self.workdir.take_lock(run)
                break
            except InUse:
                if time.monotonic() > limit:
                    raise
            time.sleep(PAUSE_S)
        try:
            yield
        finally:
            os.close(lock)

    # the node

    def facts(self) -> Json:
        """Return the facts of a node as a job sees it, or why they are waited for.

        A small job of the same options probes one. Its facts, and those of each later run, count
        for FRESH_S; what a run rests on is compared on its own node.
        """
        folder = self._probes()
        facts, job = folder / FACTS, folder / JOB
        if facts.is_file() and time.time() - facts.stat().st_mtime < FRESH_S:
            job.unlink(missing_ok=True)
            found: Json = json.loads(facts.read_bytes())
            return found
        folder.mkdir(parents=True, exist_ok=True)
        if not job.is_file():
            name = f"{PREFIX}probe-{folder.name}-{secrets.token_hex(4)}"
            write_file(folder / ARCHIVE, self.archive)
            (folder / "agent.log").write_bytes(b"")
            write_file(job, json.dumps({"name": name}).encode())
            try:
                self.slurm.submit(folder, name, agent_words(folder, "probe"), PROBE_MINUTES)
            except BaseException:
                job.unlink(missing_ok=True)
                raise
            self.unseen = 0
        state = self.state(folder)
        if state is not None and not state.over:
            return {"waiting": state.waits or f"job {state.job} probes a node"}
        self.unseen += 1
        if self.unseen < UNSEEN_LOOKS:
            return {"waiting": "the facts of the node are on their way"}
        job.unlink(missing_ok=True)
        how = f"job {state.job}: {state.state}" if state else "its job is unknown to Slurm"
        last = last_line(folder / "agent.log")
        raise Refused(f"the probe of a node has left no facts: {how}{last}", "slurm")

    def _probes(self) -> Path:
        words = json.dumps([self.slurm.options, ADOPTED], sort_keys=True)
        return self.workdir.path / PROBES / hashlib.sha256(words.encode()).hexdigest()[:16]


def job_name(run: Path) -> str:
    """Return the name of the job of a run, or of a probe; empty if it has none."""
    try:
        return str(json.loads((run / JOB).read_bytes())["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def agent_words(folder: Path, mode: str) -> list[str]:
    return [sys.executable or "python3", str(folder / ARCHIVE), mode, str(folder)]


def last_line(log: Path) -> str:
    """Return the last line of a log as the end of a sentence, empty without one."""
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:300]}" if lines else ""
    return ""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
