"""Run the stages of one job in order, deciding by exit codes alone."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from . import daemon
from .children import Interrupted, adopt_orphans
from .integrity import Integrity
from .journal import Journal
from .lease import Lease, longest_s
from .refusal import Json, Refused
from .stage_runner import StageRunner


class Runner(StageRunner):
    """Runs one job; as the daemon it holds the host lock until nothing of the run is left.

    Without a lock it runs for a client on this machine, which reads the events from stdout. `key`
    seals its journal.
    """

    def __init__(
        self,
        run: Path,
        lock: int | None,
        *,
        job: Json | None = None,
        journal: Journal | None = None,
        cache: Path | None = None,
        key: str = "",
    ) -> None:
        journal = journal or Journal(run, echo=lock is None, key=key)
        job = job or json.loads((run / "job.json").read_bytes())
        super().__init__(run, lock, job, journal, cache)
        self.lease = Lease(run.name, self.job.get("gpus", []), longest_s(self.job))
        self.stage = ""  # the one under way

    def main(self) -> None:
        """Run all stages; in every case the journal's last line says how the run ended."""
        me = daemon.enter(self.run)
        signal.signal(signal.SIGTERM, self.on_cancel)
        for ignored in (signal.SIGHUP, signal.SIGINT):
            signal.signal(ignored, signal.SIG_IGN)
        trouble = adopt_orphans()
        self.children.beat()
        self.lease_gpus()
        self.begin(me)
        if trouble:
            self.journal.write("note", text=trouble)
        try:
            self.integrity = Integrity(self.run, self.job, self.journal, self.cache.folder)
            self.run_stages()
        except Interrupted:
            self.children.end_strays()
            self.lease.drop()
            return
        except Exception as e:
            traceback.print_exc()
            self.stop = f"the agent failed: {e!r}"
            self.journal.write("agent_error", detail=traceback.format_exc())
        self.children.end_strays()
        self.lease.drop()
        if self.lock is not None:
            os.close(self.lock)  # before `finished`, whose reader may launch the next
        self.journal.write("finished", reason=self.stop or "all stages were run")

    def begin(self, me: Json) -> None:
        """Write the first line of the journal."""
        self.journal.write("run_started", run=self.run.name, python=sys.version.split()[0], **me)

    def check_interrupted(self) -> None:
        """Raise Interrupted if the host takes this run's place away."""

    def lease_gpus(self) -> None:
        """Take the lease over from who launched this run, and show its programs these GPUs."""
        try:
            self.lease.take()
        except (OSError, Refused) as e:
            self.stop = f"no GPU was leased: {e}"
        self.children.on_beat = self.keep_lease
        if self.job.get("visible"):
            os.environ["CUDA_VISIBLE_DEVICES"] = self.job["visible"]

    def keep_lease(self) -> None:
        """Renew the lease; a run that has lost it ends, as another one has the GPU."""
        if lost := self.lease.beat():
            self.children.cancelled = True
            self.stop = f"the lease was lost: {lost}"

    def run_stages(self) -> None:
        """Run the stages in their order, or beside each other where the run has GPUs for that."""
        if self.job.get("stage_gpus"):
            from .parallel_stages import ParallelStages

            ParallelStages(self).run()
            return
        for index, stage in enumerate(self.job["stages"], 1):
            name = stage["name"]
            self.check_interrupted()
            self.check_limit()
            if name in self.kept:
                passed = self.keep_stage(index, name)
            elif reason := self.why_not(stage) or self.why_left_out(name):
                self.leave_out(index, name, reason)
                continue
            else:
                self.stage = name
                passed = self.run_stage(index, stage)
                self.stage = ""
            if not passed:
                self.note_failed(name)
