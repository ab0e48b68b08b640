"""Slurm's own commands on a login node: sbatch, squeue, scancel.

A job has a name of its own, filed before sbatch is called: whatever happens to this process, the
next one finds by that name whether there is such a job.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

from .process_table import MARKERS
from .refusal import Json, Refused
from .remote_variables import ADOPTED, STARTED_WITH

PREFIX = "kernelrig-"
VARIABLES = "KERNELRIG_VARIABLES"
"""In the environment of a job: the remote's variables, as JSON."""

COMMAND_S = 60.0
UNREACHED = ("unable to contact", "timed out", "socket", "retry")
OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
WORDS = ("partition", "account", "qos", "reservation", "gres", "constraint", "nodelist", "exclude")


class JobState:
    """What squeue says of a job."""

    def __init__(self, job: str, state: str, reason: str, node: str) -> None:
        self.job, self.state, self.reason, self.node = job, state, reason, node

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def waits(self) -> str:
        """Return why the job waits in the queue; empty if it does not."""
        if self.state not in WAITS:
            return ""
        return f"job {self.job} waits in the queue of Slurm: {self.reason or self.state}"


class Slurm:
    """The controller of a cluster; `options` are the remote's."""

    def __init__(self, options: Json) -> None:
        self.options = options
        self.jobs: dict[str, JobState] | None = None
        self.poll_s: float = options["poll_s"]
        self.asked = -self.poll_s
        if shutil.which("sbatch", path=STARTED_WITH.get("PATH")) is None:
            raise Refused("there is no sbatch on the PATH of this login: is it a login node?")

    def find(self, name: str) -> JobState | None:
        """Return the state of the job of that name; None for no such job.

        Refused where the controller does not answer.
        """
        jobs = self.look()
        if jobs is None:
            raise Refused("the controller of Slurm does not answer: try again later", "slurm")
        return jobs.get(name)

    def look(self) -> dict[str, JobState] | None:
        """Return the jobs by their names, None while the controller does not answer."""
        if time.monotonic() - self.asked >= self.poll_s:
            columns = ("--noheader", "--states=all", f"--user={os.getuid()}")
            code, output, _ = call(["squeue", *columns, "--format=%j|%i|%T|%r|%N"])
            self.jobs = parse_jobs(output) if code == 0 else None
            self.asked = time.monotonic()
        return self.jobs

    def submit(self, folder: Path, name: str, words: list[str], minutes: int) -> None:
        """Submit a job that runs `words` of the agent in `folder`; Refused says why it is not."""
        options = self.options
        asked = [f"--{word}={options[word]}" for word in WORDS if options.get(word)]
        if options.get("memory_mb"):
            asked.append(f"--mem={options['memory_mb']}")
        argv = [
            "sbatch",
            "--parsable",
            "--export=ALL",
            "--requeue" if options.get("requeue", True) else "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            f"--cpus-per-task={options.get('cpus', 1)}",
            f"--time={minutes}",
            "--open-mode=append",
            f"--job-name={name}",
            f"--chdir={folder}",
            f"--output={folder / 'agent.log'}",
            *asked,
            f"--wrap=exec {shlex.join(words)}",
        ]
        code, _, errors = call(argv, {VARIABLES: json.dumps(ADOPTED)})
        self.asked = -self.poll_s
        said = " ".join(errors.split())[:300]
        if code == 0:
            return
        if any(word in errors.lower() for word in UNREACHED) or code is None:
            # It may be in the queue all the same: nothing of it may run.
            self.cancel(name)
            raise Refused(f"the controller of Slurm does not answer: {said}", "slurm")
        raise Refused(f"sbatch refuses the job: {said}", "slurm")

    def cancel(self, name: str) -> None:
        call(["scancel", f"--user={os.getuid()}", f"--name={name}"])
        self.asked = -self.poll_s


def parse_jobs(text: str) -> dict[str, JobState]:
    """Return the jobs of squeue's lines; of two with one name the one that is not over."""
    found: dict[str, JobState] = {}
    for line in text.splitlines():
        name, *fields = line.split("|")
        if len(fields) == 4 and name.startswith(PREFIX):
            state = JobState(*fields)
            if name not in found or found[name].over:
                found[name] = state
    return found


def call(argv: list[str], more: dict[str, str] | None = None) -> tuple[int | None, str, str]:
    """Run a command of Slurm with the environment of the login; (None, "", why) if it cannot."""
    env = {name: value for name, value in STARTED_WITH.items() if name not in MARKERS}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**env, **(more or {})},
            check=False,
            timeout=COMMAND_S,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return None, "", f"{argv[0]}: {e}"
    return (
        done.returncode,
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )
