"""A stand-in for Slurm: its three commands, a folder of jobs, and what a cluster does to them.

`python stand_in_slurm.py FOLDER COMMAND ...` is sbatch, squeue or scancel. A job is a process of
this machine; FOLDER/held keeps those to come in the queue, FOLDER/silent is a controller that does
not answer, and FOLDER/refused has what sbatch says.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 30.0
COMMANDS = ("sbatch", "squeue", "scancel")
Job = dict[str, Any]


class StandInSlurm:
    """The cluster that the commands of `folder` speak to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.started: list[subprocess.Popen[bytes]] = []

    def install(self) -> None:
        self.tools.mkdir(parents=True)
        for name in COMMANDS:
            words = f"{sys.executable} -IS {Path(__file__).absolute()} {self.folder} {name}"
            (self.tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            (self.tools / name).chmod(0o755)

    # what the commands do

    def sbatch(self, words: Sequence[str]) -> int:
        if (self.folder / "refused").exists():
            sys.stderr.write((self.folder / "refused").read_text())
            return 1
        said = dict(w[2:].partition("=")[::2] for w in words if w.startswith("--"))
        number = len(self.jobs()) + 1
        job = {"id": number, "said": said, "env": dict(os.environ), "state": "PENDING"}
        job.update(node="", reason="Resources", restarts=0, pid=0)
        self.save(job)
        if not (self.folder / "held").exists():
            self.start(job)
        sys.stdout.write(f"{number}\n")
        return 0

    def squeue(self) -> int:
        for job in self.jobs():
            fields = (job["said"]["job-name"], job["id"], job["state"], job["reason"], job["node"])
            sys.stdout.write("|".join(map(str, fields)) + "\n")
        return 0

    def scancel(self, words: Sequence[str]) -> int:
        (name,) = [w.partition("=")[2] for w in words if w.startswith("--name=")]
        for job in self.jobs():
            if job["said"]["job-name"] == name and job["state"] in ("PENDING", "RUNNING"):
                self.end(job, "CANCELLED")
        return 0

    # what a cluster does

    def hold(self) -> None:
        """Keep the jobs to come in the queue."""
        (self.folder / "held").touch()

    def release(self) -> None:
        """Start what waits in the queue."""
        (self.folder / "held").unlink(missing_ok=True)
        for job in self.jobs():
            if job["state"] == "PENDING":
                self.start(job)

    def requeue(self, number: signal.Signals, node: str) -> None:
        """End the job that runs by a signal, and start it again on another node."""
        (job,) = [job for job in self.jobs() if job["state"] == "RUNNING"]
        self.end(job, "PENDING", number)
        job["restarts"] += 1
        self.start(job, node)

    def stop_all(self, state: str = "CANCELLED") -> None:
        for job in self.jobs():
            if job["state"] in ("PENDING", "RUNNING"):
                self.end(job, state, signal.SIGKILL if state == "CANCELLED" else signal.SIGTERM)
        for process in self.started:
            process.wait()

    def start(self, job: Job, node: str = "one") -> None:
        said, exit_code = job["said"], self.folder / f"{job['id']}.exit"
        exit_code.unlink(missing_ok=True)
        more = {"SLURM_JOB_ID": str(job["id"]), "SLURMD_NODENAME": node}
        if gpus := said.get("gres", "").partition("gpu:")[2]:
            more["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(int(gpus))))
        with Path(said["output"]).open("ab") as log:
            process = subprocess.Popen(
                ["sh", "-c", f"({said['wrap']}); echo $? > {exit_code}"],
                cwd=said["chdir"],
                env={**job["env"], **more, "SLURM_RESTART_COUNT": str(job["restarts"])},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        self.save({**job, "state": "RUNNING", "reason": "None", "node": node, "pid": process.pid})
        job["pid"] = process.pid

    def end(self, job: Job, state: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a job: its processes are gone when this returns."""
        pids = [job["pid"], *below(job["pid"])] if job["pid"] else []
        if number == signal.SIGTERM:
            pids = pids[1:]  # the shell that notes the exit code is no part of the job
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        wait_for(lambda: not any(map(alive, pids)), "the job does not end")
        self.save({**job, "state": state, "pid": 0})

    # its files

    def jobs(self) -> list[Job]:
        paths = sorted(self.folder.glob("*.job"), key=lambda p: int(p.stem))
        return [self.seen(json.loads(path.read_text())) for path in paths]

    def seen(self, job: Job) -> Job:
        """Return the job as it is now: one whose process has ended has a final state."""
        exit_code = self.folder / f"{job['id']}.exit"
        if job["state"] == "RUNNING" and exit_code.exists() and not alive(job["pid"]):
            good = exit_code.read_text().strip() == "0"
            job["state"] = "COMPLETED" if good else "FAILED"
        return job

    def save(self, job: Job) -> None:
        path = self.folder / f"{job['id']}.job"
        path.with_suffix(".part").write_text(json.dumps(job))
        path.with_suffix(".part").replace(path)

    def forget(self) -> None:
        """Drop what is over, as a controller does after MinJobAge."""
        for job in self.jobs():
            if job["state"] not in ("PENDING", "RUNNING"):
                (self.folder / f"{job['id']}.job").unlink()


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text()
        return text[text.rindex(")") + 2] not in "ZX"
    return False


def below(root: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = entry.read_text()
            if int(text[text.rindex(")") + 2 :].split()[1]) == root:
                pid = int(entry.parent.name)
                yield pid
                yield from below(pid)


def wait_for(holds: Callable[[], bool], complaint: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, complaint
        time.sleep(0.01)


def main(folder: Path, name: str, *words: str) -> int:
    cluster = StandInSlurm(folder)
    if (folder / "silent").exists():
        sys.stderr.write(f"{name}: error: Unable to contact slurm controller (connect failure)\n")
        return 1
    if name == "squeue":
        return cluster.squeue()
    return {"sbatch": cluster.sbatch, "scancel": cluster.scancel}[name](words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
