"""The agent inside a job of Slurm, on a node: it probes the node, or runs the stages of a run.

A job that is requeued comes here again, with the journal of its earlier attempts.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from .attempt import CANCELLED as WHY_CANCELLED
from .children import Interrupted
from .disk import write_file
from .earlier import Earlier
from .facts import gather_facts
from .journal import Ending, Journal
from .process_table import POLL_S
from .refusal import Json
from .remote_variables import adopt
from .runner import Runner
from .slurm import VARIABLES
from .slurm_agents import ATTEMPT, CANCELLED, FACTS, JOB, PROBE
from .workdir import RESULT_CACHE

VITAL = ("machine", "glibc", "driver", "gpu_counters_admin_only")
VITAL_OF_A_GPU = ("name", "compute_cap", "mig.mode.current")
ALIKE = (*VITAL_OF_A_GPU, "memory.total")
"""Of GPUs on which the same stage may run."""

NOTICE_S = 0.5
"""A command that has failed may have had a signal of Slurm's, which comes here, too."""


def take_variables() -> None:
    """Adopt the remote's variables, which the job brought along."""
    adopt(json.loads(os.environ.pop(VARIABLES, "{}")))


def probe(folder: Path) -> None:
    take_variables()
    write_file(folder / FACTS, json.dumps(node_facts(folder)).encode())


def node_facts(folder: Path) -> Json:
    """Return the facts of this node, with those of its GPUs that this job has.

    Where Slurm does not say which, it is the first, and programs see no other one.
    """
    facts = gather_facts(folder)
    found = allocated(facts["gpus"], os.environ.get("CUDA_VISIBLE_DEVICES"))
    if "CUDA_VISIBLE_DEVICES" not in os.environ and len(found) > 1:
        found = found[:1]
        os.environ["CUDA_VISIBLE_DEVICES"] = found[0]["uuid"]
    facts["gpus"] = found
    return facts


def allocated(gpus: list[Json], visible: str | None) -> list[Json]:
    """Return the GPUs that Slurm shows this job: by their places among those listed, or by UUID."""
    if visible is None:
        return gpus
    words = [word.strip() for word in visible.split(",")]
    places = {int(word) for word in words if word.isdigit()}
    named = [word for word in words if word.startswith("GPU-")]
    return [
        gpu
        for place, gpu in enumerate(gpus)
        if place in places or any(gpu.get("uuid", "").startswith(word) for word in named)
    ]


def difference(probed: Json, here: Json) -> str:
    """Return in what this node is not like the one that was probed, empty if it is."""
    for name in VITAL:
        if probed.get(name) != here.get(name):
            return f"{name} is {here.get(name) or 'none'}, not {probed.get(name) or 'none'}"
    shown = [[[g.get(n) for n in VITAL_OF_A_GPU] for g in f["gpus"]] for f in (probed, here)]
    if shown[0] != shown[1]:
        return f"its GPUs are {shown[1] or 'none'}, not {shown[0] or 'none'}"
    for name in sorted({*probed["tools"], *here["tools"]}):
        tools = (facts["tools"].get(name, {}) for facts in (probed, here))
        then, now = (f"{t.get('path', 'none')} {t.get('version', '')}".strip() for t in tools)
        if then != now:
            return f"{name} is {now}, not {then}"
    return ""


class JobRunner(Runner):
    """Runs what is left of a run in this job, and says which attempt it is."""

    def __init__(self, run: Path) -> None:
        job: Json = json.loads((run / "job.json").read_bytes())
        self.earlier = Earlier(run, job)
        self.facts = node_facts(run)
        self.token = f"{os.environ.get('SLURM_JOB_ID', '')} {self.earlier.attempts + 1}"
        if job.get("lease_allocated"):
            self._choose_gpus(job)
        journal = Journal(run, written=self.earlier.data)
        super().__init__(run, None, job=job, journal=journal, cache=run / RESULT_CACHE)
        self.node = os.environ.get("SLURMD_NODENAME") or self.facts["hostname"]
        self.began -= self.earlier.seconds
        self.kept = dict(self.earlier.ended)
        self.left_out = set(self.earlier.not_run)
        self.noted = False
        self.children.on_cancelled = self.note_interrupted
        write_file(run / ATTEMPT, self.token.encode())

    def _choose_gpus(self, job: Json) -> None:
        """Lease the GPUs that Slurm gave this job; stages run beside each other on those alike."""
        found = self.facts["gpus"]
        job["gpus"] = [gpu["uuid"] for gpu in found]
        if job["stage_gpus"]:
            alike = [g for g in found if all(g.get(k) == found[0].get(k) for k in ALIKE)]
            job["stage_gpus"] = [gpu["uuid"] for gpu in alike]

    def begin(self, me: Json) -> None:
        """Say which attempt this is, on which node, and what became of the stages under way."""
        said = {"job": os.environ.get("SLURM_JOB_ID", ""), "node": self.node}
        earlier = self.earlier
        lost = [name for name in earlier.open if name not in earlier.interrupted]
        again = [name for name in earlier.open if name in earlier.interrupted]
        if not earlier.events:
            super().begin({**me, **said})
        else:
            said.update(lost=", ".join(lost), again=", ".join(again))
            self.journal.write("resumed", attempt=earlier.attempts + 1, **said)
        self.journal.write("node", facts=self.facts)
        for name in lost:
            why = f"node {earlier.node or '?'} was lost while it ran: it is not run again"
            earlier.close_stage(self.journal, name, why)
            self.kept[name] = False
        places = {s["name"]: i for i, s in enumerate(self.job["stages"], 1)}
        for name in again:
            shutil.rmtree(self.folder(places[name], name), ignore_errors=True)
        self._compare()
        if (self.run / CANCELLED).exists():
            self.stop = WHY_CANCELLED

    def _compare(self) -> None:
        """End the run on a node that is not like the one it was planned for; keep its facts."""
        probe = self.run / PROBE
        if probe.is_file() and (differs := difference(json.loads(probe.read_bytes()), self.facts)):
            self.stop = f"node {self.node} is not like the one that was probed: {differs}"
        facts = Path(json.loads((self.run / JOB).read_bytes())["probes"])
        if facts.parent.is_dir():
            write_file(facts, json.dumps(self.facts).encode())

    def on_cancel(self, *_: object) -> None:
        """Hear SIGTERM: of `scancel` by `cancel`, or else of Slurm for a reason of its own."""
        if (self.run / CANCELLED).exists():
            super().on_cancel()
        else:
            self.children.cancelled = True
            self.interrupted = True

    def note_interrupted(self) -> None:
        """Record at once that the stage under way is cut short: Slurm may kill this soon."""
        if self.interrupted and not self.noted:
            self.noted = True
            self.journal.write("interrupted", stage=self.stage, node=self.node)

    def check_interrupted(self) -> None:
        if self.interrupted:
            if self.stage:
                self.note_interrupted()
            raise Interrupted

    def settle(self, ending: Ending, command: Json) -> Ending:
        """Tell a command that failed by itself from one that had the signal of Slurm, too."""
        if ending.ended_by == "exit" and ending.exit in command["ok_exit"]:
            self.check_interrupted()
            return ending
        limit = time.monotonic() + NOTICE_S
        while not self.children.cancelled and time.monotonic() < limit:
            time.sleep(POLL_S)
        self.check_interrupted()
        if self.stop == WHY_CANCELLED and ending.ended_by in ("exit", "signal"):
            cut = Ending("cancelled", WHY_CANCELLED)
            cut.seconds, cut.strays = ending.seconds, ending.strays
            return cut
        return ending

    def keep_lease(self) -> None:
        """Leave at once if a later attempt at this job has begun: this node was given up."""
        if (self.run / ATTEMPT).read_text() != self.token:
            os._exit(1)  # with all that this process has started
        super().keep_lease()


def run_job(run: Path) -> None:
    take_variables()
    if not Earlier(run, json.loads((run / "job.json").read_bytes())).finished:
        JobRunner(run).main()
